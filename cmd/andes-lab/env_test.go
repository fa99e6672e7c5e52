package main

import (
	"os/exec"
	"testing"
)

func TestASettingIsOneWordOfAShell(t *testing.T) {
	for _, text := range []string{"", "plain", "a b", `it's $HOME "and" \n`, "'"} {
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellQuoted(text)).Output()
		if err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}
