package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// serveCmd runs roles. Any number of processes may run any of them.
type serveCmd struct {
	Roles []string `help:"Roles to run, comma-separated; all by default: ${roles}." placeholder:"ROLE,…"`
}

// Run implements the command.
func (c serveCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	if err := s.check(); err != nil {
		return err
	}
	_, strangers := s.strangers()
	for _, stranger := range strangers {
		logger.Warn("a variable is no setting", "detail", stranger.Error())
	}
	chosen, err := chooseRoles(c.Roles)
	if err != nil {
		return err
	}
	for _, r := range chosen {
		if err := s.required(r.settings...); err != nil {
			return fmt.Errorf("role %s: %w", r.name, err)
		}
	}
	p, err := openPlatform(ctx, s, logger)
	if err != nil {
		return err
	}
	defer p.close()
	p.keepsPromos = slices.ContainsFunc(chosen, func(r role) bool { return r.name == opsName })
	var parts []part
	for _, r := range chosen {
		made, err := r.parts(p)
		if err != nil {
			return fmt.Errorf("role %s: %w", r.name, err)
		}
		parts = append(parts, made...)
	}
	desk, err := p.quotaDesk()
	if err != nil {
		return err
	}
	promoting, err := p.promoParts(ctx, desk)
	if err != nil {
		return err
	}
	parts = append(parts, promoting...)
	guards := p.guardDesk()
	guards.Follow(ctx) // before the first call
	parts = append(parts, part{name: "limits", stage: workers, run: desk.Run}, part{name: "guards", stage: workers, run: guards.Run})
	parts = append(parts, part{name: "executor", stage: writeSide, run: p.store.Run})
	server, err := newEdge(ctx, p, chosen)
	if err != nil {
		return err
	}
	parts = append(parts, part{name: "http", stage: edge, run: server})
	logger.Info("serving", "roles", roleNames(chosen), "http", s.HTTPAddr, "env", s.Env)
	return supervise(ctx, parts, s.StopWait, logger)
}

func roleNames(chosen []role) string {
	names := make([]string, len(chosen))
	for i, r := range chosen {
		names[i] = r.name
	}
	return strings.Join(names, ",")
}

// chooseRoles finds the named roles; none means all.
func chooseRoles(names []string) ([]role, error) {
	if len(names) == 0 {
		return roles, nil
	}
	var chosen []role
	for _, name := range names {
		found := false
		for _, r := range roles {
			if r.name == name {
				chosen, found = append(chosen, r), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no role %q; the roles are %s", name, roleNames(roles))
		}
	}
	return chosen, nil
}
