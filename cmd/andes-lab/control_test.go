package main

import "testing"

func TestAKnobThatIsATextTakesAnyText(t *testing.T) {
	current := map[string]any{"unknownSku": "", "latencyMs": 0.0, "outage": false}
	for setting, want := range map[string]string{
		"unknownSku=10080": `"10080"`, `unknownSku="10080"`: `"10080"`, "unknownSku=true": `"true"`, "unknownSku=null": `"null"`, "unknownSku=": `""`,
		"latencyMs=300": `300`, "latencyMs=soon": `"soon"`, "outage=true": `true`, "outage=null": `"null"`, "mistyped=1": `1`,
	} {
		patch, err := knobPatch(current, []string{setting})
		if err != nil || len(patch) != 1 {
			t.Fatalf("%s: %v, %v", setting, patch, err)
		}
		for _, value := range patch {
			if string(value) != want {
				t.Errorf("%s became %s", setting, value)
			}
		}
	}
	if _, err := knobPatch(current, []string{"latencyMs"}); err == nil {
		t.Error("a knob without a value was taken")
	}
}
