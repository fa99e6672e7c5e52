package httpapi

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"andes/eventstore"
)

// TestEveryCodeHasItsMeaning reads the sources, so that a new refusal can't be forgotten in the table.
func TestEveryCodeHasItsMeaning(t *testing.T) {
	found := map[eventstore.Code]string{}
	for _, folder := range []string{"../../eventstore", "../../commands", "../../sagas", "../../deadletters", "../../quota", "../../tuning", "../../promo", "."} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return codesIn(path, found)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 40 {
		t.Errorf("only %d codes were found", len(found))
	}
	for code, where := range found {
		if _, known := meanings[code]; !known {
			t.Errorf("%s of %s has no meaning in HTTP", code, where)
		}
	}
	shape := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	for code, means := range meanings {
		if found[code] == "" || means.title == "" || means.status < 400 || !shape.MatchString(string(code)) {
			t.Errorf("%s: %+v is declared nowhere, or is not complete", code, means)
		}
	}
}

// codesIn collects the constants of type Code.
func codesIn(path string, found map[eventstore.Code]string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		named, _ := spec.Type.(*ast.Ident)
		selected, _ := spec.Type.(*ast.SelectorExpr)
		literal, isText := spec.Values[0].(*ast.BasicLit)
		if isText && (named != nil && named.Name == "Code" || selected != nil && selected.Sel.Name == "Code") {
			text, _ := strconv.Unquote(literal.Value)
			found[eventstore.Code(text)] = path
		}
		return true
	})
	return nil
}

func TestAnUnknownCodeIsABug(t *testing.T) {
	if got := refused(eventstore.Refuse("NEW_CODE", "details of the inside")); got.Code != CodeInternal || strings.Contains(got.Detail, "inside") {
		t.Errorf("%+v", got)
	}
}

func TestExtraMembersStandBesideTheOthers(t *testing.T) {
	_, body := renderProblem(&eventstore.Refusal{Code: CodeValidation, Detail: "<&>", Extra: map[string]any{"b": 1, "a": []string{"x"}}}, "c")
	want := `{"type":"/docs#VALIDATION_FAILED","title":"The request is not valid","status":422,"code":"VALIDATION_FAILED","detail":"<&>","correlationId":"c","a":["x"],"b":1}`
	if string(body) != want {
		t.Errorf("%s", body)
	}
	for _, extra := range []map[string]any{{"status": 1}, {"x": make(chan int)}} {
		_, body := renderProblem(&eventstore.Refusal{Code: CodeValidation, Extra: extra}, "c")
		if !json.Valid(body) || !strings.Contains(string(body), `"status":422`) {
			t.Errorf("%v: %s", extra, body)
		}
	}
}

func TestTheDetailOfAnInvalidRequestSaysWhatIsWrong(t *testing.T) {
	one := eventstore.Problem{Pointer: "/skus", Code: CodeLengthInvalid, Detail: "at least 1 items are needed"}
	other := eventstore.Problem{Pointer: "/sku", Code: CodeMemberUnknown, Detail: "there is no such member"}
	for want, problems := range map[string][]eventstore.Problem{
		"LENGTH_INVALID: /skus: at least 1 items are needed": {one},
		"VALIDATION_FAILED: 2 faults: see errors":            {one, other},
	} {
		var refusal *eventstore.Refusal
		if err := invalid(problems); !errors.As(err, &refusal) || string(refusal.Code)+": "+refusal.Detail != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
