package arch

import (
	"go/ast"
	"go/token"
	"slices"
)

// ambient are the names by which code gets at the clock, chance and its surroundings.
var ambient = []string{
	"time.Now", "time.Since", "time.Until",
	"os.Getenv", "os.LookupEnv", "os.Environ",
	"github.com/google/uuid.New", "github.com/google/uuid.NewString", "github.com/google/uuid.NewRandom",
	"github.com/google/uuid.NewUUID", "github.com/google/uuid.NewV6", "github.com/google/uuid.NewV7",
}

// chance are the packages that can't be used without it.
var chance = []string{`"math/rand"`, `"math/rand/v2"`, `"crypto/rand"`}

var purityRules = []rule{
	{"clock, chance and environment come from outside", "no time.Now, rand or os.Getenv outside of cmd, adapters and test: take them as arguments or fields", pure},
	{"no floats near money", "amounts, quantities and percentages in commands are whole numbers or decimals", exact},
	{"nothing happens on import", "no init functions: what is needed is called by name", withoutInit},
}

func inCore(p *pack, _ *source) bool { return !p.under("adapters", "cmd", "test") }

func pure(s *tree) []violation {
	return s.each(inCore, func(f *source, n ast.Node) string {
		if spec, is := n.(*ast.ImportSpec); is && slices.Contains(chance, spec.Path.Value) {
			return "imports " + spec.Path.Value
		}
		if used := f.uses(n); slices.Contains(ambient, used) && !f.inBubble() {
			return "uses " + used
		}
		return ""
	})
}

func exact(s *tree) []violation {
	inCommands := func(p *pack, f *source) bool { return p.under("commands") && !f.isTest }
	return s.each(inCommands, func(_ *source, n ast.Node) string {
		switch node := n.(type) {
		case *ast.Ident:
			if node.Name == "float32" || node.Name == "float64" {
				return "uses " + node.Name
			}
		case *ast.BasicLit:
			if node.Kind == token.FLOAT {
				return "uses the float " + node.Value
			}
		}
		return ""
	})
}

func withoutInit(s *tree) []violation {
	everywhere := func(*pack, *source) bool { return true }
	return s.each(everywhere, func(_ *source, n ast.Node) string {
		if function, is := n.(*ast.FuncDecl); is && function.Recv == nil && function.Name.Name == "init" {
			return "has an init function"
		}
		return ""
	})
}
