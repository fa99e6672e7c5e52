//go:build race

package e2e

// buildFlags: a raced test runs a raced binary.
var buildFlags = []string{"-race"}
