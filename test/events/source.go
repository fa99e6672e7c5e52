package events

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// files parses the Go files of a package of this module, without its tests.
func files(importPath string) []*ast.File {
	folder := filepath.Join(root, strings.TrimPrefix(importPath, "andes/"))
	entries, err := os.ReadDir(folder)
	if err != nil {
		panic(fmt.Sprintf("the sources of %s: %v", importPath, err))
	}
	var parsed []*ast.File
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.ParseComments)
			if err != nil {
				panic(err)
			}
			parsed = append(parsed, file)
		}
	}
	return parsed
}

// commentsOf gives the comments on the fields of a struct of this module, by the fields' names.
func commentsOf(t reflect.Type) map[string]string {
	comments := map[string]string{}
	for _, file := range files(t.PkgPath()) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			declared, is := spec.Type.(*ast.StructType)
			if !is || spec.Name.Name != t.Name() {
				return false
			}
			for _, f := range declared.Fields.List {
				text := f.Comment.Text()
				if text == "" {
					text = f.Doc.Text()
				}
				for _, name := range f.Names {
					comments[name.Name] = strings.Join(strings.Fields(text), " ")
				}
			}
			return false
		})
	}
	return comments
}

// aggregateDoc gives the sentence "one stream per …" of the package that declares the state.
func aggregateDoc(state reflect.Type) string {
	for _, file := range files(state.PkgPath()) {
		for _, declaration := range file.Decls {
			variable, is := declaration.(*ast.GenDecl)
			if !is || variable.Tok != token.VAR {
				continue
			}
			text := strings.Join(strings.Fields(variable.Doc.Text()), " ")
			if _, sentence, found := strings.Cut(text, "one stream per "); found {
				return "One stream per " + sentence
			}
		}
	}
	return ""
}

// aggregates counts the calls of eventstore.NewAggregate in the folders of the product.
func aggregates(folders ...string) (count int, err error) {
	for _, folder := range folders {
		err = filepath.WalkDir(filepath.Join(root, folder), func(name string, entry os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if selector, is := n.(*ast.SelectorExpr); is && selector.Sel.Name == "NewAggregate" {
					count++
				}
				return true
			})
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return count, nil
}
