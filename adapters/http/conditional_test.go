package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
)

// get asks with the tag of an earlier answer.
func (e *edge) get(target, tag string) reply {
	e.t.Helper()
	return e.ask(http.MethodGet, target, "", ifNoneMatchHeader, tag)
}

func TestWhoHasTheSameAnswerIsToldSoWithoutABody(t *testing.T) {
	e := newEdge(t)
	for _, target := range []string{"/v1/stock?sku=A,B,nothing", "/v1/prices?sku=A,B,nothing", "/v1/products/A"} {
		first := e.ask(http.MethodGet, target, "")
		tag := first.header.Get(etagHeader)
		if first.status != 200 || tag == "" || first.header.Get("Cache-Control") != "private, no-cache" {
			t.Fatalf("%s: %d %v", target, first.status, first.header)
		}
		if weak := strings.HasPrefix(tag, "W/"); weak != strings.Contains(first.body, "asOf") {
			t.Errorf("%s: the tag is %s", target, tag)
		}
		for _, sent := range []string{tag, "*", `"other", ` + tag, strings.TrimPrefix(tag, "W/"), `W/"a,b",W/` + strings.TrimPrefix(tag, "W/"), " " + tag + " ,"} {
			got := e.get(target, sent)
			if got.status != 304 || got.body != "" || got.header.Get(etagHeader) != tag || got.header.Get("Content-Type") != "" {
				t.Errorf("%s with %s: %d %q %v", target, sent, got.status, got.body, got.header)
			}
			if asOf := got.header.Get(asOfHeader); asOf != "" && !strings.Contains(first.body, `"asOf":"`+asOf) || asOf == "" && strings.Contains(first.body, "asOf") {
				t.Errorf("%s: as of %q", target, asOf)
			}
			if got.header.Get(stateHeader) == "" && e.Quota != nil {
				t.Errorf("%s: nothing is told of the quota", target)
			}
		}
		for _, sent := range []string{`"other"`, "", strings.Trim(tag, `W/"`), strings.TrimSuffix(tag, `"`), `"` + tag, "W/", ","} {
			if got := e.get(target, sent); got.status != 200 || got.body != first.body {
				t.Errorf("%s with %s: %d %q", target, sent, got.status, got.body)
			}
		}
	}
}

// What a partner would see changes the tag; when it was last looked at does not.
func TestATagStandsForWhatIsSaid(t *testing.T) {
	e := newEdge(t)
	const stocks, prices, products = "/v1/stock?sku=A,B", "/v1/prices?sku=A,B", "/v1/products/A"
	tags := func() (all [3]string) {
		for i, target := range []string{stocks, prices, products} {
			all[i] = e.ask(http.MethodGet, target, "").header.Get(etagHeader)
		}
		return all
	}
	last := tags()
	for _, step := range []struct {
		name    string
		change  func()
		changes [3]bool
	}{
		{"a sync that changes nothing", func() {
			e.pass(time.Minute)
			for _, feed := range []string{source.WMSStock, source.ERPPrices} {
				e.do(source.Advance{Feed: feed, SyncedAt: e.clock(), Cursor: "1"})
			}
		}, [3]bool{}},
		{"units are sold", func() { e.do(stock.Report{SKU: "A", OnHand: 4, SourceVersion: 2, At: e.clock()}) }, [3]bool{true, false, false}},
		{"another price", func() {
			e.do(price.Report{List: "retail", SKU: "B", Amount: "11.00", Currency: "GBP", SourceVersion: 9, At: e.clock()})
		}, [3]bool{false, true, false}},
		{"another name", func() {
			e.do(product.Report{SKU: "A", Name: "Another", SourceVersion: 9, At: e.clock()})
		}, [3]bool{false, false, true}},
		{"values become stale", func() { e.pass(31 * time.Minute) }, [3]bool{true, true, false}},
		{"a discount", func() {
			e.do(partner.Configure{Partner: partner.State{ID: "acme", Name: "a", Tier: "gold", Policy: partner.Policy{
				PriceList: "retail", Currency: "GBP", Discounts: []partner.Discount{{Percent: "10"}},
			}}})
		}, [3]bool{false, true, false}},
	} {
		step.change()
		next := tags()
		for i := range next {
			if changed := next[i] != last[i]; changed != step.changes[i] {
				t.Errorf("%s: answer %d changed its tag: %v", step.name, i, changed)
			}
		}
		last = next
	}
}

func TestEqualAnswersAreEqualBytesAndEveryInstanceTagsThemAlike(t *testing.T) {
	targets := []string{"/v1/stock?sku=A,B,x", "/v1/stock?sku=B,A,x", "/v1/prices?sku=A", "/v1/products/B"}
	answers := func() (all []string) {
		e := newEdge(t)
		for _, target := range targets {
			got := e.ask(http.MethodGet, target, "")
			all = append(all, got.header.Get(etagHeader)+got.body)
		}
		return all
	}
	one, other := answers(), answers()
	seen := map[string]string{}
	for i, target := range targets {
		if one[i] != other[i] {
			t.Errorf("%s: %s and %s", target, one[i], other[i])
		}
		tag := strings.SplitN(one[i], "{", 2)[0]
		if earlier := seen[tag]; earlier != "" {
			t.Errorf("%s and %s have one tag", target, earlier)
		}
		seen[tag] = target
	}
}

func TestABatchHasNoTag(t *testing.T) {
	e := newEdge(t)
	got := e.ask(http.MethodPost, "/v1/stock/query", `{"skus":["A"]}`, ifNoneMatchHeader, "*")
	if got.status != 200 || got.header.Get(etagHeader) != "" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", got.status, got.header)
	}
}

func TestTimesAreWrittenAsTheyAreFormatted(t *testing.T) {
	zone := time.FixedZone("east", 5*3600+1800)
	for _, at := range []time.Time{
		{}, testStart, time.Date(1, 1, 1, 0, 0, 0, 1e6, time.UTC), time.Date(999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 1, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 2, 3, 4, 5, 6, 7e6, time.UTC), time.Date(2024, 2, 29, 1, 2, 3, 45e6, zone), time.Unix(0, 0),
	} {
		if got, want := string(appendStamp(nil, at)), at.UTC().Format(stampFormat); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTextsAreQuotedAsJSONWantsIt(t *testing.T) {
	e := newEdge(t)
	for _, text := range odd {
		e.sell(text, "1.00", 7)
		body := fmt.Sprintf(`{"skus":[%s]}`, quoted(text))
		got := e.ask(http.MethodPost, "/v1/stock/query", body)
		if want := `{"items":[{"sku":` + quoted(text) + `,`; !strings.HasPrefix(got.body, want) {
			t.Errorf("%s, want %s", got.body, want)
		}
	}
}

func quoted(text string) string {
	b, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		panic(err)
	}
	return string(b)
}
