package arch

import (
	"fmt"
	"slices"
	"strings"
)

// layer says what packages may import of this module. "x" is the package x, "x/*" every package below
// it, and own what lies in the same folder of a folder of adapters.
type layer struct {
	packages string
	may      []string
}

const (
	own      = "own"
	anything = "anything"
)

// What the layers are made of.
var (
	model   = []string{"eventstore", "commands/*"}
	core    = append([]string{"commands", "projections", "queries", "sagas", "catalogue", "polling", "rebuild", "deadletters", "quota", "changes", "tuning", "promo"}, model...)
	product = append([]string{"adapters/*", own}, core...)
)

// layers is the table of who may import whom. The first row that matches counts. A new folder at the
// root needs a row.
var layers = []layer{
	{"eventstore", nil},
	{"commands/*", model},
	{"commands", model},
	{"projections", model},
	{"queries", model},
	{"sagas", model},
	{"polling", model},
	{"rebuild", append([]string{"projections"}, model...)},
	{"deadletters", []string{"eventstore"}},
	{"quota", []string{"eventstore"}},
	{"changes", append([]string{"queries"}, model...)},
	{"tuning", []string{"eventstore"}},
	{"promo", append([]string{"queries"}, model...)},
	{"catalogue", []string{"eventstore", "commands", "sagas"}},
	{"adapters/*", append([]string{own}, core...)},
	{"cmd/andes", product},
	{"cmd/andes/*", product},
	{"cmd/andes-lab", []string{anything}},
	{"cmd/andes-lab/*", []string{anything}},
	{"test/*", []string{anything}},
}

// infrastructure are the libraries that only adapters, commands and tests may know.
var infrastructure = []string{
	"github.com/ThreeDotsLabs/watermill",
	"github.com/IBM/sarama",
	"github.com/jackc/pgx",
	"github.com/redis/rueidis",
	"google.golang.org/grpc",
	"net/http",
	"database/sql",
}

var importRules = []rule{
	{"packages import what their layer may", "the table of layers in test/arch/imports_test.go", layered},
	{"infrastructure stays at the edge", "watermill, sarama, pgx, rueidis and net/http only under adapters, cmd and test", edgeOnly},
	{"eventstore needs only the standard library", "the kernel depends on nothing", standardOnly},
}

func layered(s *tree) []violation {
	var found []violation
	for _, p := range s.packages {
		row := slices.IndexFunc(layers, func(l layer) bool { return matches(l.packages, p.path) })
		if row < 0 {
			found = append(found, violation{where: p.path, what: "the package is in no layer; give it a row"})
			continue
		}
		for _, imported := range p.Imports {
			target, inside := strings.CutPrefix(imported, module+"/")
			if inside && !allowed(layers[row].may, p.path, target) {
				found = append(found, violation{where: p.path, what: fmt.Sprintf("must not import %s; it may import: %s", target, list(layers[row].may))})
			}
		}
	}
	return found
}

func matches(pattern, path string) bool {
	folder, below := strings.CutSuffix(pattern, "/*")
	return !below && path == pattern || below && strings.HasPrefix(path, folder+"/")
}

func allowed(may []string, from, to string) bool {
	return slices.ContainsFunc(may, func(pattern string) bool {
		switch pattern {
		case anything:
			return to != "cmd/andes"
		case own:
			return area(from) == area(to)
		}
		return matches(pattern, to)
	})
}

// area is the folder whose packages belong together: adapters/kafka, cmd/andes.
func area(path string) string {
	parts := strings.SplitN(path, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing of this module"
	}
	return strings.Join(names, ", ")
}

func edgeOnly(s *tree) []violation {
	var found []violation
	for _, p := range s.packages {
		if p.under("adapters", "cmd", "test") {
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if slices.ContainsFunc(infrastructure, func(library string) bool {
				return imported == library || strings.HasPrefix(imported, library+"/")
			}) {
				found = append(found, violation{where: p.path, what: "must not import " + imported})
			}
		}
	}
	return found
}

func standardOnly(s *tree) []violation {
	var found []violation
	for _, p := range s.packages {
		if !p.under("eventstore") {
			continue
		}
		for _, imported := range p.Imports {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
				found = append(found, violation{where: p.path, what: "must not import " + imported})
			}
		}
	}
	return found
}
