package events

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"andes/eventstore"
)

const intro = `# Events

Written by ` + "`go test ./test/events -update`" + ` from the declarations in the code; do not edit.

Every event is a record of its category's topic, keyed by its stream. The value is the event's JSON as shown
below; everything else is in headers, as CloudEvents 1.0 in binary mode: %s.

Delivery is at least once, in order per key. An event is known again by ` + "`ce_id`" + `. Fields may be added to an event
without notice; anything else raises its schema version (` + "`schema_version`" + `), and the platform reads every version
that ever existed. An amount of money is ` + "`{\"amount\":\"19.90\",\"currency\":\"USD\"}`" + `: a decimal text with all decimals of its
ISO 4217 currency. Fields marked **sensitive** are replaced by ` + "`%s`" + ` wherever a record leaves the trusted part.

`

// markdown writes the catalogue of events.
func markdown(registry *eventstore.Registry) (string, error) {
	var doc strings.Builder
	fmt.Fprintf(&doc, intro, "`"+strings.Join(headers(), "`, `")+"`", eventstore.Redacted)
	doc.WriteString("| event | schema | |\n|---|---|---|\n")
	for _, category := range registry.Categories() {
		for _, declaration := range registry.Declarations(category) {
			fmt.Fprintf(&doc, "| [%s](#%s) | %d | %s |\n", declaration.Name, anchor(declaration.Name), declaration.Schema, declaration.Doc)
		}
	}
	for _, category := range registry.Categories() {
		if err := writeCategory(&doc, registry, category); err != nil {
			return "", err
		}
	}
	return doc.String(), nil
}

func anchor(heading string) string { return strings.ReplaceAll(heading, ".", "") }

func writeCategory(doc *strings.Builder, registry *eventstore.Registry, category string) error {
	state := registry.StateType(category)
	fmt.Fprintf(doc, "\n## %s\n\n%s\n\n", category, aggregateDoc(state))
	doc.WriteString("| topic | key | holds |\n|---|---|---|\n")
	fmt.Fprintf(doc, "| `%s` | stream key | every event |\n", topics.Events(category))
	if registry.Published(category) {
		fmt.Fprintf(doc, "| `%s` | stream key | latest state, compacted |\n", topics.State(category))
	}
	for _, system := range systems(registry, category) {
		fmt.Fprintf(doc, "| `%s` | stream key | commands to the %s adapter |\n", topics.Commands(system), system)
	}
	for _, declaration := range registry.Declarations(category) {
		if err := writeEvent(doc, declaration); err != nil {
			return err
		}
	}
	if registry.Published(category) {
		fmt.Fprintf(doc, "\n### State of %s\n\n", category)
		writeFields(doc, state)
	}
	return nil
}

func writeEvent(doc *strings.Builder, declaration *eventstore.Declaration) error {
	fmt.Fprintf(doc, "\n### %s\n\n%s Schema version %d.", declaration.Name, declaration.Doc, declaration.Schema)
	if declaration.CommandTopic != "" {
		fmt.Fprintf(doc, " Also on `%s`.", topics.Commands(declaration.CommandTopic))
	}
	doc.WriteString("\n\n")
	writeFields(doc, declaration.Type)
	shown, err := os.ReadFile(goldenFile(declaration.Name, declaration.Schema))
	if err != nil {
		return fmt.Errorf("the example of %s: %w", declaration.Name, err)
	}
	fmt.Fprintf(doc, "\n```json\n%s\n```\n", strings.TrimSpace(string(shown)))
	return nil
}

func writeFields(doc *strings.Builder, t reflect.Type) {
	fields := fieldsOf(t)
	if len(fields) == 0 {
		doc.WriteString("No fields.\n")
		return
	}
	doc.WriteString("| field | type | |\n|---|---|---|\n")
	for _, f := range fields {
		var notes []string
		if f.sensitive {
			notes = append(notes, "**sensitive**")
		}
		if f.optional {
			notes = append(notes, "optional")
		}
		if f.doc != "" {
			notes = append(notes, strings.ReplaceAll(f.doc, "|", `\|`))
		}
		fmt.Fprintf(doc, "| `%s` | %s | %s |\n", f.name, f.json, strings.Join(notes, "; "))
	}
}
