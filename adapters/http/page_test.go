package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestEveryLinkOnThePageLeadsSomewhere(t *testing.T) {
	e := newEdge(t, func(c *Config) { c.Development, c.DevIssuer = true, http.NotFoundHandler() })
	page := e.ask(http.MethodGet, docsPath, "", "-Authorization", "").body
	ids := map[string]bool{}
	for _, found := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[found[1]] {
			t.Errorf("two places are called %s", found[1])
		}
		ids[found[1]] = true
	}
	links := regexp.MustCompile(` href="([^"]*)"`).FindAllStringSubmatch(page, -1)
	for _, found := range links {
		link := found[1]
		switch {
		case strings.HasPrefix(link, "#"):
			if !ids[link[1:]] {
				t.Errorf("%s leads nowhere", link)
			}
		case strings.HasPrefix(link, "/"):
			if got := e.ask(http.MethodGet, link, ""); got.status != 200 {
				t.Errorf("%s: %d", link, got.status)
			}
		}
	}
	if len(links) < 100 || strings.Contains(page, "`") || strings.Contains(page, "ZgotmplZ") {
		t.Errorf("%d links", len(links))
	}
}

func TestAProcessWithoutPartnersDoesNotExplainThem(t *testing.T) {
	e := newEdge(t, func(c *Config) { c.Roles = []Role{Health} })
	if page := e.ask(http.MethodGet, docsPath, "").body; strings.Contains(page, "A first order") || !strings.Contains(page, "/healthz") {
		t.Error(page)
	}
}

func TestTheExamplesAreWhatTheySay(t *testing.T) {
	e := newEdge(t)
	for name, schema := range e.shapes.registry.Map() {
		if shown := e.shapes.ofPage(name, schema); !json.Valid([]byte(shown.Example)) {
			t.Errorf("the example of %s is not JSON: %s", name, shown.Example)
		}
	}
	for _, served := range e.endpoints() {
		if served.body == nil || served.access == anyone {
			continue
		}
		example := e.shapes.ofPage("", e.shapes.schema(served.body)).Example
		for _, problem := range e.shapes.check(served.body, []byte(example)) {
			t.Errorf("the example of %s: %+v", served.pattern(), problem)
		}
	}
	e.sell("85123A", "2.55", 10)
	for _, call := range bodies[:4] {
		for _, served := range e.endpoints() {
			if served.method+served.path == call.method+call.target {
				example := e.shapes.ofPage("", e.shapes.schema(served.body)).Example
				if got := e.ask(call.method, call.target, example, call.headers...); got.status != call.good {
					t.Errorf("the example of %s: %d %s", served.pattern(), got.status, got.body)
				}
			}
		}
	}
}

// TestTheFirstOrderOnThePageIsAccepted runs the body that the page begins with.
func TestTheFirstOrderOnThePageIsAccepted(t *testing.T) {
	e := newEdge(t)
	e.sell("85123A", "2.55", 10)
	e.placed("K", between(pageSource, "-d '", "'</code>"))
}

func TestTheDocumentExplainsEveryCode(t *testing.T) {
	e := newEdge(t)
	var document struct {
		Codes map[string]struct {
			Status int
			Title  string
		} `json:"x-problem-codes"`
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal(e.document, &document); err != nil {
		t.Fatal(err)
	}
	for code, means := range meanings {
		if told := document.Codes[string(code)]; told.Status != means.status || told.Title != means.title {
			t.Errorf("%s is explained as %+v", code, told)
		}
	}
	for path, item := range document.Paths {
		for method, operation := range item {
			for status, response := range operation.Responses {
				codes, isProblem := strings.CutPrefix(response.Description, "Problem: ")
				for code := range strings.SplitSeq(codes, ", ") {
					if isProblem && fmt.Sprint(document.Codes[code].Status) != status {
						t.Errorf("%s %s: %s is not explained with %s", method, path, code, status)
					}
				}
			}
		}
	}
	if _, told := document.Paths["/v1/orders"]["post"].Responses["409"]; !told {
		t.Error("POST /v1/orders does not show 409")
	}
}

func TestNumbersAreGrouped(t *testing.T) {
	for number, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1_000_000: "1,000,000", -1000: "-1,000", -100: "-100"} {
		if got := grouped(number); got != want {
			t.Errorf("%d: %s", number, got)
		}
	}
}
