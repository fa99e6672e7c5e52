package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Bounds of what a reader has to hold in mind.
const (
	maxFunctionLines = 70
	maxFileLines     = 400
)

// vague are names that say nothing of what is inside.
var vague = []string{"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"}

// spokenFor are methods that the interface they implement describes.
var spokenFor = []string{"String", "Error", "Unwrap", "Is", "As", "MarshalText", "UnmarshalText"}

var shapeRules = []rule{
	{"functions are short", fmt.Sprintf("a function has at most %d lines", maxFunctionLines), shortFunctions},
	{"files are short", fmt.Sprintf("a file that is no test has at most %d lines", maxFileLines), shortFiles},
	{"packages are named after what is in them", "no package is called " + strings.Join(vague, ", "), telling},
	{"packages are described", "every package has a doc comment that starts with Package or Command", described},
	{"exported names are described", "every exported name has a doc comment, or its group has", documented},
}

func shortFunctions(s *tree) []violation {
	everywhere := func(*pack, *source) bool { return true }
	return s.each(everywhere, func(_ *source, n ast.Node) string {
		function, is := n.(*ast.FuncDecl)
		if !is {
			return ""
		}
		if lines := s.files.Position(function.End()).Line - s.files.Position(function.Pos()).Line + 1; lines > maxFunctionLines {
			return fmt.Sprintf("%s has %d lines", function.Name.Name, lines)
		}
		return ""
	})
}

func shortFiles(s *tree) []violation {
	var found []violation
	for _, p := range s.packages {
		for _, f := range p.sources {
			if lines := s.files.File(f.Pos()).LineCount(); lines > maxFileLines && !f.isTest {
				found = append(found, violation{where: f.name, what: fmt.Sprintf("has %d lines", lines)})
			}
		}
	}
	return found
}

func telling(s *tree) []violation {
	var found []violation
	for _, p := range s.packages {
		names := []string{path.Base(p.path)}
		for _, f := range p.sources {
			names = append(names, strings.TrimSuffix(f.Name.Name, "_test"))
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			if slices.Contains(vague, name) {
				found = append(found, violation{where: p.path, what: "is called " + name})
			}
		}
	}
	return found
}

func described(s *tree) []violation {
	var found []violation
	for _, p := range s.packages {
		if !slices.ContainsFunc(p.sources, func(f *source) bool {
			// In a package of tests only, one of them speaks for it.
			return f.Doc != nil && (!f.isTest || len(p.GoFiles) == 0) && introduces(f.Doc.Text())
		}) {
			found = append(found, violation{where: p.path, what: "has no doc comment"})
		}
	}
	return found
}

func introduces(doc string) bool {
	return strings.HasPrefix(doc, "Package ") || strings.HasPrefix(doc, "Command ")
}

func documented(s *tree) []violation {
	found := map[violation]bool{}
	for _, p := range s.packages {
		for _, f := range p.sources {
			if f.isTest {
				continue
			}
			for _, declaration := range f.Decls {
				for _, name := range undocumented(declaration) {
					found[violation{f.name, s.files.Position(name.Pos()).Line, name.Name + " has no doc comment"}] = true
				}
			}
		}
	}
	return byPlace(found)
}

func undocumented(declaration ast.Decl) []*ast.Ident {
	var names []*ast.Ident
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && onExported(d) && !(d.Recv != nil && slices.Contains(spokenFor, d.Name.Name)) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		if d.Tok == token.IMPORT || d.Doc != nil {
			return nil
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if s.Doc == nil && s.Comment == nil && name.IsExported() {
						names = append(names, name)
					}
				}
			}
		}
	}
	return names
}

// onExported tells whether a function can be seen from outside: methods of unexported types can't.
func onExported(function *ast.FuncDecl) bool {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return true
	}
	receiver := function.Recv.List[0].Type
	for {
		switch of := receiver.(type) {
		case *ast.StarExpr:
			receiver = of.X
		case *ast.IndexExpr:
			receiver = of.X
		case *ast.IndexListExpr:
			receiver = of.X
		case *ast.Ident:
			return of.IsExported()
		default:
			return true
		}
	}
}
