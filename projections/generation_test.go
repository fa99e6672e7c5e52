package projections_test

import (
	"testing"

	"pgregory.net/rapid"

	"andes/projections"
)

var models = []string{"price", "stock"}

func TestThePointerTellsTheLifeOfGenerations(t *testing.T) {
	building := func(g projections.Generation) func(projections.Lineage) projections.Lineage {
		return func(l projections.Lineage) projections.Lineage { return l.Building(g) }
	}
	switched := func(g projections.Generation) func(projections.Lineage) projections.Lineage {
		return func(l projections.Lineage) projections.Lineage { return l.SwitchedTo(g) }
	}
	at := projections.FirstGenerations
	for _, step := range []struct {
		models []string
		change func(projections.Lineage) projections.Lineage
		want   string
	}{
		{models, building(2), "1 2"},
		{models, switched(2), "2 1"},
		{models, switched(2), "2 1"},
		{[]string{"stock"}, building(3), "2 1 stock=2,3"},
		{[]string{"stock"}, switched(3), "2 1 stock=3,2"},
		{[]string{"stock"}, switched(2), "2 1 stock=2,3"},
		{models, building(4), "2 4"}, // stock is as the others again
		{models, func(l projections.Lineage) projections.Lineage { return l.Without(4) }, "2"},
	} {
		at = at.With(models, step.models, step.change)
		if at.String() != step.want {
			t.Fatalf("the pointer says %q, want %q", at, step.want)
		}
	}
	if highest := at.Highest(); highest != 2 {
		t.Errorf("the highest generation of %q is %s", at, highest)
	}
}

func TestAPointerIsReadAsItWasWritten(t *testing.T) {
	lineage := rapid.Custom(func(t *rapid.T) projections.Lineage {
		list := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1<<40), 1, 4, func(n int64) int64 { return n }).Draw(t, "generations")
		l := projections.Lineage{Serving: projections.Generation(list[0])}
		for _, other := range list[1:] {
			l.Others = append(l.Others, projections.Generation(other))
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		g := projections.Generations{Lineage: lineage.Draw(t, "lineage")}
		if rapid.Bool().Draw(t, "one has its own") {
			g.Models = map[string]projections.Lineage{"stock": lineage.Draw(t, "its own")}
		}
		read, err := projections.ParseGenerations(g.String())
		if err != nil || !read.Equal(g) {
			t.Fatalf("%q is read as %q, %v", g, read, err)
		}
	})
}
