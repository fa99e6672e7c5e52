package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// target names one simulator.
type target struct {
	addresses
	System string `arg:"" enum:"erp,wms,oms,payment,receiver" help:"erp, wms, oms, payment or receiver."`
}

func (t target) url() string {
	return map[string]string{
		"erp": t.ERP, "wms": t.WMS, "oms": t.OMS, "payment": t.Payment, "receiver": t.Receiver,
	}[t.System]
}

type knobsCmd struct {
	target
	Set []string `arg:"" optional:"" name:"name=value" help:"Knobs to turn."`
}

// Run shows the knobs, after turning those given.
func (c *knobsCmd) Run(ctx context.Context) error {
	lab := newCaller(c.url(), "")
	if len(c.Set) == 0 {
		return show(ctx, lab, http.MethodGet, "/_lab/knobs", nil)
	}
	current := map[string]any{}
	looking, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	if err := lab.into(looking, http.MethodGet, "/_lab/knobs", nil, &current); err != nil {
		return err
	}
	patch, err := knobPatch(current, c.Set)
	if err != nil {
		return err
	}
	return show(ctx, lab, http.MethodPut, "/_lab/knobs", patch)
}

// knobPatch reads settings as name=value. A knob that is a text takes any text, a number too.
func knobPatch(current map[string]any, settings []string) (map[string]json.RawMessage, error) {
	patch := map[string]json.RawMessage{}
	for _, setting := range settings {
		name, value, ok := strings.Cut(setting, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=value", setting)
		}
		_, isText := current[name].(string)
		patch[name] = knobValue(value, isText)
	}
	return patch, nil
}

// knobValue takes what is in double quotes as it is, numbers, true and false too unless the knob is a text, and the
// rest as text.
func knobValue(text string, isText bool) json.RawMessage {
	if json.Unmarshal([]byte(text), new(string)) == nil && text != "null" {
		return json.RawMessage(text)
	}
	switch {
	case !isText && (text == "true" || text == "false" || text != "null" && json.Unmarshal([]byte(text), new(float64)) == nil):
		return json.RawMessage(text)
	default:
		quoted, err := json.Marshal(text)
		if err != nil {
			return json.RawMessage(`""`) // a string always has a JSON form
		}
		return quoted
	}
}

type statsCmd struct{ target }

// Run shows the counters.
func (c *statsCmd) Run(ctx context.Context) error {
	return show(ctx, newCaller(c.url(), ""), http.MethodGet, "/_lab/stats", nil)
}

type resetCmd struct{ target }

// Run sets the counters to zero.
func (c *resetCmd) Run(ctx context.Context) error {
	return show(ctx, newCaller(c.url(), ""), http.MethodPost, "/_lab/reset", nil)
}

const controlTimeout = 10 * time.Second

func show(ctx context.Context, lab *caller, method, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	answer, err := lab.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	if answer.status/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, answer.status, answer.body)
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, answer.body, "", "  ") == nil {
		pretty.WriteByte('\n')
	}
	_, err = pretty.WriteTo(os.Stdout)
	return err
}
