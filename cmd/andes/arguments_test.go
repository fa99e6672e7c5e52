package main

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestChoicesAreOfferedWithoutAnEmptyOne(t *testing.T) {
	parser := newParser(&cli{})
	choices := 0
	look := func(value *kong.Value) {
		if value.Enum == "" {
			return
		}
		if choices++; slices.Contains(value.EnumSlice(), "") {
			t.Errorf("%s may be one of %q", value.Summary(), value.EnumSlice())
		}
	}
	err := kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		switch node := node.(type) {
		case *kong.Flag:
			look(node.Value)
		case *kong.Value:
			look(node)
		}
		return next(nil)
	})
	if err != nil || choices == 0 {
		t.Errorf("%d choices, %v", choices, err)
	}
	_, err = parser.Parse([]string{"feeds", "rejects", "--system", "foo"})
	if err == nil || !strings.Contains(err.Error(), `must be one of "erp","wms" but got "foo"`) {
		t.Error(err)
	}
}

func TestWhatRestrictsACommandByNothingIsRefused(t *testing.T) {
	for _, words := range [][]string{
		{"projections", "rebuild", "--only", ""}, {"projections", "rebuild", "--only="}, {"projections", "rebuild", "--only", " "},
		{"projections", "rebuild", "--only", "A,,B"}, {"projections", "rebuild", "--only", ","}, {"projections", "verify", "--only", ""},
		{"projections", "rebuild", ""}, {"projections", "rollback", ""}, {"projections", "rebuild", "--from", ""},
		{"serve", "--roles", ""}, {"events", "cat", "--category", ""}, {"events", "cat", "--type", ""}, {"events", "cat", "--correlation", ""},
		{"events", "cat", "--stream", ""}, {"events", "republish", "--from", ""}, {"events", "republish", "--topics", ""}, {"events", "republish", "--category", ""},
		{"events", "restored", "--since", ""},
	} {
		parsed, err := newParser(&cli{}).Parse(words)
		if err == nil {
			err = refuseEmpty(parsed)
		}
		if err == nil || !strings.Contains(err.Error(), "empty") && !strings.Contains(err.Error(), "expected") && !strings.Contains(err.Error(), `but got ""`) {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, words := range [][]string{
		{"projections", "rebuild"}, {"projections", "verify", "--only", "A,B"}, {"projections", "rebuild", "stock", "price"}, {"serve"},
		{"events", "cat", "--limit", "0"}, {"events", "republish", "--from", "1", "--dry-run"}, {"guards", "set", "erp", "--queue-wait", "0s", "--reason", "x"},
	} {
		parsed, err := newParser(&cli{}).Parse(words)
		if err == nil {
			err = refuseEmpty(parsed)
		}
		if err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	for _, c := range []struct{ given, want []string }{
		{[]string{"help"}, []string{"--help"}},
		{[]string{"help", "guards", "set"}, []string{"guards", "set", "--help"}},
		{[]string{"dlq", "show", "help"}, []string{"dlq", "show", "help"}},
		{nil, nil},
	} {
		if got := asked(c.given); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.given, got)
		}
	}
}

func TestTheVersionIsThatOfTheBuild(t *testing.T) {
	for want, info := range map[string]*debug.BuildInfo{
		"of an unknown build": nil,
		"v1.2.3 go1.26":       {GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}},
		"(devel) go1.26":      {GoVersion: "go1.26"},
		"abc go1.26":          {GoVersion: "go1.26", Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}},
	} {
		if got := versionOf(info); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
