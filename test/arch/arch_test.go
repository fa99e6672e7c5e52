// Package arch checks the rules that the code is built by, so that nobody has to remember them: who may
// import whom, what the pure parts must not touch, and how code looks. It reads the sources only, so it
// takes a second and needs no service.
package arch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "andes"
	root   = "../.."
)

// exceptions are the violations that are meant. Each has its reason; one that is no longer needed fails.
var exceptions = []exception{
	{"tests do not sleep", "test/redistest/server.go", "the one poll of a condition of another process, which can't signal"},
}

type exception struct {
	rule  string
	where string // as the violation names it, up to its colon
	why   string
}

// rule is one check of the whole tree.
type rule struct {
	name  string
	why   string // told with each violation
	check func(*tree) []violation
}

// violation is one place that breaks a rule.
type violation struct {
	where string // file or package, from the module's root
	line  int    // 0: the whole of it
	what  string
}

func (v violation) String() string {
	if v.line == 0 {
		return v.where + ": " + v.what
	}
	return fmt.Sprintf("%s:%d: %s", v.where, v.line, v.what)
}

func TestRules(t *testing.T) {
	sources, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Concat(importRules, purityRules, shapeRules, testRules, wordRules) {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			excused := map[string]bool{}
			for _, e := range exceptions {
				if e.rule == r.name {
					excused[e.where] = false
				}
			}
			for _, v := range r.check(sources) {
				if _, meant := excused[v.where]; meant {
					excused[v.where] = true
					continue
				}
				t.Errorf("%s\n\trule: %s", v, r.why)
			}
			for where, used := range excused {
				if !used {
					t.Errorf("the exception for %s is no longer needed: remove it", where)
				}
			}
		})
	}
}

// tree is the module's sources.
type tree struct {
	packages []*pack
	files    *token.FileSet
}

// pack is one package as the go command lists it, with its files parsed.
type pack struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	// Test files, in the package and outside of it.
	TestGoFiles, XTestGoFiles []string
	// Imports by the three kinds of files.
	Imports, TestImports, XTestImports []string

	path    string // from the module's root
	sources []*source
}

// source is one parsed file.
type source struct {
	*ast.File
	name   string // from the module's root
	isTest bool
	named  map[string]string // the paths of its imports, by the names that it calls them
}

func newSource(file *ast.File, name string) *source {
	f := &source{File: file, name: name, isTest: strings.HasSuffix(name, "_test.go"), named: map[string]string{}}
	for _, spec := range file.Imports {
		importPath := strings.Trim(spec.Path.Value, `"`)
		called := path.Base(importPath)
		if spec.Name != nil {
			called = spec.Name.Name
		}
		f.named[called] = importPath
	}
	return f
}

func load() (*tree, error) {
	list := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	list.Dir, list.Stderr = root, os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	found := &tree{files: token.NewFileSet()}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		p := &pack{}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		p.path = strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if err := p.parse(found.files); err != nil {
			return nil, err
		}
		found.packages = append(found.packages, p)
	}
	return found, nil
}

func (p *pack) parse(files *token.FileSet) error {
	for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		p.sources = append(p.sources, newSource(file, path.Join(p.path, name)))
	}
	return nil
}

// under tells whether the package is in one of the folders.
func (p *pack) under(folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return p.path == folder || strings.HasPrefix(p.path, folder+"/")
	})
}

// each walks every node of the files that are wanted, and gathers what look finds.
func (s *tree) each(wanted func(*pack, *source) bool, look func(f *source, n ast.Node) (what string)) []violation {
	var found []violation
	for _, p := range s.packages {
		for _, f := range p.sources {
			if !wanted(p, f) {
				continue
			}
			ast.Inspect(f.File, func(n ast.Node) bool {
				if n == nil {
					return false
				}
				if what := look(f, n); what != "" {
					found = append(found, violation{f.name, s.files.Position(n.Pos()).Line, what})
				}
				return true
			})
		}
	}
	return found
}

// inBubble tells whether the file's tests run on the virtual clock of testing/synctest.
func (f *source) inBubble() bool {
	return slices.ContainsFunc(f.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == `"testing/synctest"` })
}

// uses tells whether the node is a use of an imported package's name, as "path.Name".
func (f *source) uses(n ast.Node) string {
	selector, is := n.(*ast.SelectorExpr)
	if !is {
		return ""
	}
	if of, is := selector.X.(*ast.Ident); is {
		if importPath, imported := f.named[of.Name]; imported {
			return importPath + "." + selector.Sel.Name
		}
	}
	return ""
}

// byPlace sorts violations and drops repeated ones.
func byPlace(violations map[violation]bool) []violation {
	return slices.SortedFunc(maps.Keys(violations), func(x, y violation) int {
		return cmp.Or(cmp.Compare(x.where, y.where), cmp.Compare(x.line, y.line), cmp.Compare(x.what, y.what))
	})
}
