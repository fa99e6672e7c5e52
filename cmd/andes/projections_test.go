package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"andes/rebuild"
)

func TestAnEstimateIsNotShownAsACount(t *testing.T) {
	for _, estimated := range []bool{true, false} {
		view := statusView{Status: rebuild.Status{Models: []rebuild.ModelStatus{{Model: "stock", Generation: 1, Role: "serving", Keys: 4098, Estimated: estimated}}}}
		var table bytes.Buffer
		printStatus(&table, view, time.Now())
		if strings.Contains(table.String(), "~4098") != estimated || !strings.Contains(table.String(), "4098") {
			t.Errorf("estimated %v: %s", estimated, table.String())
		}
		text, err := json.Marshal(view)
		if err != nil || strings.Contains(string(text), `"estimated":true`) != estimated {
			t.Errorf("estimated %v: %s, %v", estimated, text, err)
		}
	}
}
