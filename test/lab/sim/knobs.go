package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Faults are the knobs that every simulator has. The zero value is a healthy,
// immediate, unlimited system.
type Faults struct {
	LatencyMs         int     `json:"latencyMs"`
	JitterMs          int     `json:"jitterMs"`
	CapacityPerSecond float64 `json:"capacityPerSecond"`
	FailureRate       float64 `json:"failureRate"`
	Outage            bool    `json:"outage"`
	Hang              bool    `json:"hang"`
	ResponseLostRate  float64 `json:"responseLostRate"`
}

const (
	maxLatencyMs = 10 * 60 * 1000
	maxCapacity  = 1_000_000
)

// CommonFaults makes any knob set that embeds Faults a KnobSet.
func (f Faults) CommonFaults() Faults { return f }

// Validate reports every fault of the settings at once.
func (f Faults) Validate() error {
	return errors.Join(
		CheckMs("latencyMs", f.LatencyMs),
		CheckMs("jitterMs", f.JitterMs),
		CheckRate("failureRate", f.FailureRate),
		CheckRate("responseLostRate", f.ResponseLostRate),
		check(f.CapacityPerSecond >= 0 && f.CapacityPerSecond <= maxCapacity,
			"capacityPerSecond: %v is outside 0..%d", f.CapacityPerSecond, maxCapacity),
	)
}

// CheckRate accepts a probability.
func CheckRate(name string, rate float64) error {
	return check(rate >= 0 && rate <= 1, "%s: %v is outside 0..1", name, rate)
}

// CheckMs accepts a wait that still ends within a test.
func CheckMs(name string, ms int) error {
	return check(ms >= 0 && ms <= maxLatencyMs, "%s: %d is outside 0..%d", name, ms, maxLatencyMs)
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Millis turns a knob into a duration.
func Millis(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// KnobSet is a simulator's settings: a struct of JSON members that embeds Faults.
type KnobSet interface {
	CommonFaults() Faults
	Validate() error
}

// merge returns current with only the members given in patch replaced. Names
// are matched exactly and null is refused: a mistyped knob must not pass for
// a turned one.
func merge[K KnobSet](current K, patch []byte) (K, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(patch, &given); err != nil {
		return current, fmt.Errorf("knobs must be a JSON object: %w", err)
	}
	known, err := memberNames(current)
	if err != nil {
		return current, err
	}
	var faults []error
	for name, value := range given {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("unknown knob %q; known: %s", name, strings.Join(known, ", ")))
		}
		if bytes.Equal(bytes.TrimSpace(value), []byte("null")) {
			faults = append(faults, fmt.Errorf("knob %q is null", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return current, err
	}
	next := current
	if err := json.Unmarshal(patch, &next); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return current, fmt.Errorf("knob %q can't be a %s: it is a %s", wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:], wrong.Value, wrong.Type)
		}
		return current, fmt.Errorf("knobs: %w", err)
	}
	if err := next.Validate(); err != nil {
		return current, err
	}
	return next, nil
}

func memberNames(v any) ([]string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("list knobs: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("list knobs: %w", err)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}
