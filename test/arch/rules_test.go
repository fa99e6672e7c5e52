package arch

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// broken is a package of the core that breaks every rule for Go code.
const broken = `package utils

import (
	"math/rand"
	"net/http"
	clock "time"

	"andes/adapters/kafka"
)

type Exported struct{ Amount float64 }

func (Exported) Described() {}

const Half = 0.5

func init() { clock.Now() }

func long() {
` + "\n" + `}
`

const brokenTest = `package utils

import (
	"testing"
	"time"
)

func TestIt(t *testing.T) {
	t.Skip("later")
	time.Sleep(1)
}
`

// TestRulesFindWhatTheyForbid guards the guards: a rule that finds nothing in this package is broken.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	long := strings.Replace(broken, "\n\n}", strings.Repeat("\n", maxFileLines)+"}", 1)
	s := &tree{files: token.NewFileSet()}
	for _, folder := range []string{"commands/utils", "eventstore/utils", "elsewhere"} {
		p := &pack{
			path: folder, GoFiles: []string{"bad.go"},
			Imports: []string{"math/rand", "net/http", "time", "andes/adapters/kafka", "github.com/some/library"},
		}
		for name, text := range map[string]string{"bad.go": long, "bad_test.go": brokenTest} {
			file, err := parser.ParseFile(s.files, name, text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			p.sources = append(p.sources, newSource(file, folder+"/"+name))
		}
		s.packages = append(s.packages, p)
	}
	for _, r := range slices.Concat(importRules, purityRules, shapeRules, testRules) {
		if found := r.check(s); len(found) == 0 {
			t.Errorf("the rule %q finds nothing", r.name)
		}
	}
	for _, name := range []string{"Exported", "Described", "Half"} {
		if !slices.ContainsFunc(documented(s), func(v violation) bool { return strings.HasPrefix(v.what, name) }) {
			t.Errorf("%s counts as described", name)
		}
	}
}

func TestPatternsFindWhatTheyForbid(t *testing.T) {
	for text, want := range map[string]bool{
		"// " + later[0] + ": more":         marks.MatchString("// " + later[0] + ": more"),
		"a path /home/" + "ada/x":           localPaths.MatchString("a path /home/" + "ada/x"),
		`x := "/Users/` + `ada"`:            localPaths.MatchString(`x := "/Users/` + `ada"`),
		"x() //nolint" + ":errcheck":        disabling.MatchString("x() //nolint" + ":errcheck"),
		"//lint:ignore" + " SA1019":         disabling.MatchString("//lint:ignore" + " SA1019"),
		"fine: https://example.org/home/x":  !localPaths.MatchString("fine: https://example.org/home/x"),
		"fine: //nolint" + ":x // as it is": !disabling.MatchString("fine: //nolint" + ":x // as it is"),
		"fine: " + later[0] + "s":           !marks.MatchString("fine: " + later[0] + "s"),
	} {
		if !want {
			t.Errorf("wrong about %q", text)
		}
	}
}

func TestTheTableOfLayersIsWhatItSays(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"commands/order", "commands/stock"}:            true,
		{"commands/order", "commands"}:                  false,
		{"commands/order", "sagas"}:                     false,
		{"eventstore", "commands/order"}:                false,
		{"projections", "adapters/redis"}:               false,
		{"adapters/kafka", "commands/order"}:            true,
		{"adapters/kafka", "adapters/redis"}:            false,
		{"adapters/http", "adapters/http/problem"}:      true,
		{"adapters/http", "test/memtest"}:               false,
		{"cmd/andes", "adapters/kafka"}:                 true,
		{"cmd/andes", "cmd/andes-lab"}:                  false,
		{"cmd/andes", "test/lab/sim"}:                   false,
		{"cmd/andes-lab", "test/lab/sim"}:               true,
		{"test/lab/sim", "cmd/andes"}:                   false,
		{"test/conformance/store", "adapters/postgres"}: true,
	} {
		row := slices.IndexFunc(layers, func(l layer) bool { return matches(l.packages, pair[0]) })
		if row < 0 || allowed(layers[row].may, pair[0], pair[1]) != want {
			t.Errorf("%s imports %s: want %v", pair[0], pair[1], want)
		}
	}
}
