package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"andes/catalogue"
	"andes/eventstore"
)

var update = flag.Bool("update", false, "write missing golden files and the documents")

const command = "go test ./test/events -update"

func registry(t *testing.T) *eventstore.Registry {
	t.Helper()
	r, err := catalogue.Registry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func declarations(r *eventstore.Registry) []*eventstore.Declaration {
	var all []*eventstore.Declaration
	for _, category := range r.Categories() {
		all = append(all, r.Declarations(category)...)
	}
	return all
}

func TestEverySchemaThatEverExistedIsRead(t *testing.T) {
	for _, declaration := range declarations(registry(t)) {
		t.Run(declaration.Name, func(t *testing.T) {
			if *update {
				writeMissing(t, declaration)
			}
			for schema := 1; schema <= declaration.Schema; schema++ {
				recorded, err := os.ReadFile(goldenFile(declaration.Name, schema))
				if errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("there is no golden file of schema %d: run\n\t%s\nand fill %s with a good example", schema, command, goldenFile(declaration.Name, schema))
				}
				if err != nil {
					t.Fatal(err)
				}
				event, err := declaration.Decode(schema, recorded)
				if err != nil {
					t.Fatalf("what was recorded in schema %d can't be read any more: %v", schema, err)
				}
				if schema == declaration.Schema {
					staysTheSame(t, declaration, recorded, event)
				}
			}
		})
	}
}

func writeMissing(t *testing.T, declaration *eventstore.Declaration) {
	t.Helper()
	name := goldenFile(declaration.Name, declaration.Schema)
	if _, err := os.Stat(name); err == nil {
		return // what was recorded is never changed
	}
	data, err := json.MarshalIndent(example(declaration.Type).Interface(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(golden, 0o755), os.WriteFile(name, append(data, '\n'), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// staysTheSame: reading an event of the current schema and writing it again loses and adds nothing, and
// its golden file shows every field.
func staysTheSame(t *testing.T, declaration *eventstore.Declaration, recorded []byte, event any) {
	t.Helper()
	written, err := declaration.Encode(event)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, recorded); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(compact.Bytes(), written) {
		t.Errorf("the event changed. Recorded:\n%s\nread and written again:\n%s\nIf it is meant: declare the next schema with eventstore.Upcasts "+
			"and keep this golden file; a new optional field needs only its example in %s.", compact.Bytes(), written, goldenFile(declaration.Name, declaration.Schema))
	}
	var shown any
	if err := json.Unmarshal(recorded, &shown); err != nil {
		t.Fatal(err)
	}
	for _, f := range fieldsOf(declaration.Type) {
		if !shows(shown, strings.Split(strings.ReplaceAll(f.name, "[]", ".[]"), ".")) {
			t.Errorf("%s does not show the field %s: add it there, so that nobody can rename it unnoticed", goldenFile(declaration.Name, declaration.Schema), f.name)
		}
	}
}

func shows(node any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if path[0] == "[]" {
		list, _ := node.([]any)
		return slices.ContainsFunc(list, func(element any) bool { return shows(element, path[1:]) })
	}
	object, _ := node.(map[string]any)
	member, is := object[path[0]]
	return is && shows(member, path[1:])
}

func TestNoGoldenFileIsLeftAlone(t *testing.T) {
	r := registry(t)
	entries, err := os.ReadDir(golden)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, declaration := range declarations(r) {
		for schema := 1; schema <= declaration.Schema; schema++ {
			known[filepath.Base(goldenFile(declaration.Name, schema))] = true
		}
	}
	for _, entry := range entries {
		if !known[entry.Name()] {
			t.Errorf("%s: the event of this golden file is no longer declared, but it was recorded: an event is never removed, renamed or put back to an older schema", entry.Name())
		}
	}
}

func TestDeclarationsAreComplete(t *testing.T) {
	fieldName := regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	r := registry(t)
	for _, category := range r.Categories() {
		if aggregateDoc(r.StateType(category)) == "" {
			t.Errorf("category %s: the comment on its aggregate does not say \"one stream per …\"", category)
		}
		for _, declaration := range r.Declarations(category) {
			if !strings.HasPrefix(declaration.Name, category+".") {
				t.Errorf("event %s does not start with its category %s", declaration.Name, category)
			}
			if !strings.HasSuffix(declaration.Doc, ".") && !strings.HasSuffix(declaration.Doc, "?") {
				t.Errorf("event %s: %q is no sentence that describes it", declaration.Name, declaration.Doc)
			}
			checkFields(t, declaration.Name, declaration.Type, fieldName)
		}
		checkFields(t, "state of "+category, r.StateType(category), fieldName)
	}
}

// checkFields: a wire name is declared, never that of a Go field.
func checkFields(t *testing.T, of string, typ reflect.Type, pattern *regexp.Regexp) {
	t.Helper()
	for _, f := range fieldsOf(typ) {
		if name := f.name[strings.LastIndexAny(f.name, ".")+1:]; !pattern.MatchString(name) {
			t.Errorf("%s: the field %q has no json tag in lower camel case", of, f.name)
		}
	}
}

func TestEveryAggregateIsInTheCatalogue(t *testing.T) {
	declared, err := aggregates("commands", "sagas", "projections", "polling", "adapters", "cmd")
	if err != nil {
		t.Fatal(err)
	}
	if listed := len(registry(t).Categories()); listed != declared {
		t.Errorf("%d aggregates are declared, %d are in the catalogue: add a line to commands.All or sagas.All", declared, listed)
	}
}

func TestTheDocumentsAreUpToDate(t *testing.T) {
	for name, write := range map[string]func(*eventstore.Registry) (string, error){
		"events.md": markdown, "asyncapi.yaml": asyncAPI,
	} {
		t.Run(name, func(t *testing.T) {
			want, err := write(registry(t))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(root, "docs", name)
			if *update {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(want), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil || string(got) != want {
				t.Errorf("docs/%s is out of date (%v): run\n\t%s", name, err, command)
			}
		})
	}
}

// What leaves the trusted part shows nothing sensitive, in any event.
func TestNothingSensitiveIsLeftAfterRedaction(t *testing.T) {
	for _, declaration := range declarations(registry(t)) {
		recorded, err := os.ReadFile(goldenFile(declaration.Name, declaration.Schema))
		if err != nil {
			t.Fatal(err)
		}
		redacted, replaced, err := declaration.Redact(recorded)
		if err != nil || len(replaced) < len(declaration.Sensitive) {
			t.Errorf("%s: replaced %v of %v, %v", declaration.Name, replaced, declaration.Sensitive, err)
		}
		for _, name := range []string{"token", "paymentToken", "secret", "email", "phone", "address"} {
			if value, known := texts[name]; known && bytes.Contains(redacted, []byte(`"`+value+`"`)) {
				t.Errorf("%s still shows %s", declaration.Name, name)
			}
		}
	}
}
