package main

import (
	"strings"
	"testing"
)

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
		if err == nil || !strings.Contains(err.Error(), "empty") && !strings.Contains(err.Error(), "expected") {
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
