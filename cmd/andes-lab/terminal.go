package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// terminal runs commands as a person would, and shows them with what they answer.
type terminal struct {
	andes string // the product's command
	self  string // this one
	env   []string
}

func (t *terminal) scene(title string) { fmt.Printf("\n== %s\n", title) }

func (t *terminal) say(format string, args ...any) { fmt.Printf("\n# "+format+"\n", args...) }

// run shows a command of the product and its output. Its failure is the drill's.
func (t *terminal) run(ctx context.Context, args ...string) error {
	_, err := t.show(ctx, t.andes, args...)
	return err
}

// lab shows a command of the lab.
func (t *terminal) turn(ctx context.Context, args ...string) error {
	_, err := t.show(ctx, t.self, args...)
	return err
}

const commandTimeout = 10 * time.Minute

// show runs a command, copies what it prints, and gives its standard output.
func (t *terminal) show(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	fmt.Printf("\n$ %s\n", strings.Join(append([]string{filepath.Base(name)}, quoted(args)...), " "))
	command := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = io.MultiWriter(os.Stdout, &out), os.Stdout
	command.Env = append(os.Environ(), t.env...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = controlTimeout
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return out.String(), nil
}

// quoted puts what a shell would take apart into quotes.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if out[i] = arg; strings.ContainsAny(arg, " *&;|<>()$'\"") {
			out[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return out
}
