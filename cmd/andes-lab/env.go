package main

import (
	"context"
	"fmt"
	"strings"
)

// envCmd prints what a shell needs for the commands of the README, beside the platform's own settings.
type envCmd struct {
	addresses
	product
	Partner string `default:"demo" help:"Partner of the token."`
}

// Run sets the partner up, and gets it and an operator their tokens.
func (c *envCmd) Run(ctx context.Context) error {
	base := c.product.url()
	if err := ensurePartner(ctx, base, c.Partner, "gold"); err != nil {
		return err
	}
	token, err := devToken(ctx, base, c.Partner)
	if err != nil {
		return err
	}
	settings, err := opsSettings(ctx, base)
	if err != nil {
		return err
	}
	for _, setting := range append(settings, "ANDES="+base, "TOKEN="+token, "RECEIVER="+c.Receiver) {
		name, value, _ := strings.Cut(setting, "=")
		fmt.Printf("export %s=%s\n", name, shellQuoted(value))
	}
	return nil
}

// shellQuoted gives a text as one word of a shell.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
