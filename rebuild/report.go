package rebuild

import (
	"fmt"
	"strings"

	"andes/projections"
)

// Kinds of differences.
const (
	Missing   = "missing"   // the read model lacks it
	Extra     = "extra"     // PostgreSQL does not have it
	Different = "different" // the values or their positions differ
)

// Difference is a key that is not as PostgreSQL has it, after a bounded wait for what was on its way.
type Difference struct {
	Key          string `json:"key"` // model:stream key
	Kind         string `json:"kind"`
	Has          string `json:"has,omitempty"`   // the read model's value
	HasPosition  int64  `json:"hasPosition"`     // -1: none
	Want         string `json:"want,omitempty"`  // PostgreSQL's
	WantPosition int64  `json:"wantPosition"`    // 0: none
	Fault        string `json:"fault,omitempty"` // PostgreSQL's state can't be projected
	Mended       bool   `json:"mended"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s (%s: position %d, PostgreSQL has %d)", d.Key, d.Kind, d.HasPosition, d.WantPosition)
}

// ModelReport is the outcome for one read model.
type ModelReport struct {
	Model      string                 `json:"model"`
	Generation projections.Generation `json:"generation"`
	Keys       int64                  `json:"keys"`   // that were compared
	Digest     string                 `json:"digest"` // of what agrees: equal contents have equal digests
	Moving     int64                  `json:"moving"` // changed faster than they could be compared
	Missing    int64                  `json:"missing"`
	Extra      int64                  `json:"extra"`
	Different  int64                  `json:"different"`
	Mended     int64                  `json:"mended"`
}

// Report is the outcome of a check.
type Report struct {
	Models      []ModelReport `json:"models"`
	Differences []Difference  `json:"differences"`       // the first ones
	Stopped     bool          `json:"stopped"`           // there are more than the limit
	Unknown     []string      `json:"unknown,omitempty"` // SKUs that were asked for and that neither side knows
}

// MaxNamed bounds how many differences a report names.
const MaxNamed = 1000

// Differing counts the keys that differ still.
func (r Report) Differing() (n int64) {
	for _, model := range r.Models {
		n += model.Missing + model.Extra + model.Different - model.Mended
	}
	return n
}

// Mended counts the keys that were mended.
func (r Report) Mended() (n int64) {
	for _, model := range r.Models {
		n += model.Mended
	}
	return n
}

// Example names a few keys that differ.
func (r Report) Example() string {
	const few = 3
	var names []string
	for _, difference := range r.Differences {
		if !difference.Mended && len(names) < few {
			names = append(names, difference.String())
		}
	}
	return strings.Join(names, ", ")
}
