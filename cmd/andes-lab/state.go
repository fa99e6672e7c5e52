package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"andes/test/lab/world"
)

const stateFile = "legacy-systems.json"

// takeState reads what an earlier world left behind and removes it: after a
// crash there is none, and a world that remembers less than its readers would
// reuse version numbers.
func takeState(dir string) (*world.Snapshot, error) {
	if dir == "" {
		return nil, nil
	}
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("simulators' state: %w", err)
	}
	var snap world.Snapshot
	if err := json.Unmarshal(text, &snap); err != nil {
		return nil, fmt.Errorf("simulators' state %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("simulators' state: %w", err)
	}
	return &snap, nil
}

func saveState(dir string, snap world.Snapshot) error {
	if dir == "" {
		return nil
	}
	text, err := json.Marshal(snap)
	if err != nil {
		return fmt.Errorf("simulators' state: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("simulators' state: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("simulators' state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("simulators' state: %w", err)
	}
	return nil
}
