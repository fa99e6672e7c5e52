package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"andes/changes"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

// memoryLog is the log of a store in memory; woken is told of nothing, so the feed polls.
type memoryLog struct{ *edge }

func (l memoryLog) End(context.Context) (end, published int64, err error) {
	n := int64(l.events())
	return n, n, nil
}

func (l memoryLog) Read(ctx context.Context, after, to int64, limit int) (changes.Slice, error) {
	records, err := l.store.ReadAll(ctx, after, limit)
	part := changes.Slice{Reached: after, More: len(records) == limit}
	for _, record := range records {
		if record.Position > to {
			break
		}
		if part.Reached = record.Position; changes.Concerns(record.Stream) {
			part.Changes = append(part.Changes, changes.Change{Position: record.Position, Stream: record.Stream})
		}
	}
	return part, err
}

func (l memoryLog) Changed(context.Context, eventstore.Stream) (time.Time, error) {
	return time.Time{}, nil
}

func (l memoryLog) Before(ctx context.Context, at time.Time) (position int64, err error) {
	records, err := l.store.ReadAll(ctx, 0, l.events()+1)
	for _, record := range records {
		if record.RecordedAt.Before(at) {
			position = record.Position
		}
	}
	return position, err
}

func (l memoryLog) Listen(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }

// sinceShelf is the shelf, which is never behind.
type sinceShelf struct{ *edge }

func skusOf(least map[string]int64) (skus []string) {
	for sku := range least {
		skus = append(skus, sku)
	}
	return skus
}

func (s sinceShelf) StockSince(ctx context.Context, least map[string]int64) (queries.Copied[queries.StockView], error) {
	found, err := s.shelf.Stock(ctx, skusOf(least))
	return queries.Copied[queries.StockView]{Found: found}, err
}

func (s sinceShelf) PricesSince(ctx context.Context, list string, least map[string]int64) (queries.Copied[queries.PriceView], error) {
	found, err := s.shelf.Prices(ctx, list, skusOf(least))
	return queries.Copied[queries.PriceView]{Found: found}, err
}

func (s sinceShelf) ProductsSince(ctx context.Context, least map[string]int64) (queries.Copied[queries.ProductView], error) {
	found, err := s.shelf.Products(ctx, skusOf(least))
	return queries.Copied[queries.ProductView]{Found: found}, err
}

func (s sinceShelf) Watermark(ctx context.Context, feed string) (time.Time, error) {
	return s.shelf.Watermark(ctx, feed)
}

// followedEdge is an edge with a feed that polls quickly, until the test ends.
func followedEdge(t *testing.T, change ...func(*Config)) *edge {
	t.Helper()
	late := &edge{}
	config := changes.DefaultConfig()
	config.Log, config.Copy, config.Reader, config.Watermarks = memoryLog{late}, sinceShelf{late}, sinceShelf{late}, sinceShelf{late}
	config.Now, config.Logger = time.Now, slog.New(slog.DiscardHandler)
	config.Pause, config.Poll = time.Millisecond, 5*time.Millisecond
	feed, err := changes.New(config)
	if err != nil {
		t.Fatal(err)
	}
	e := newEdge(t, append([]func(*Config){func(c *Config) { c.Changes = feed }}, change...)...)
	late.t, late.store, late.shelf = t, e.store, e.shelf
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = feed.Run(ctx) }()
	t.Cleanup(func() { stop(); <-stopped })
	return e
}

// pageOf is a page as a caller reads it.
type pageOf struct {
	Stock, Prices *struct {
		Items    []map[string]any
		NotFound []string
	}
	NextCursor, Reason string
	HasMore, Resync    bool
}

func (p pageOf) empty() bool {
	return !p.Resync && (p.Stock == nil || len(p.Stock.Items)+len(p.Stock.NotFound) == 0) && (p.Prices == nil || len(p.Prices.Items)+len(p.Prices.NotFound) == 0)
}

func (e *edge) changes(query string) pageOf {
	e.t.Helper()
	var page pageOf
	got := e.ask(http.MethodGet, "/v1/changes?"+query, "")
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK {
		e.t.Fatalf("%s: %d %s", query, got.status, got.body)
	}
	e.holds(got, http.MethodGet, "/v1/changes")
	return page
}

// begun gives a cursor to go on from, once the feed has begun and told all that there is.
func (e *edge) begun(query string) string {
	e.t.Helper()
	for {
		got := e.ask(http.MethodGet, "/v1/changes?"+query, "")
		var page pageOf
		if got.status == http.StatusOK && json.Unmarshal([]byte(got.body), &page) == nil {
			if !page.Resync || page.Reason != string(changes.NoCursor) || page.Stock != nil {
				e.t.Fatalf("%s", got.body)
			}
			return e.drainedFrom(query, page.NextCursor)
		}
		is(e.t, got, 503, CodeUnavailable)
	}
}

func (e *edge) drainedFrom(query, cursor string) string {
	e.t.Helper()
	for {
		page := e.changes(query + "&since=" + cursor)
		cursor = page.NextCursor
		if at, err := changes.ParseCursor(cursor); err != nil || at.Position >= int64(e.events()) {
			return cursor
		}
	}
}

func TestChangesAreToldAsTheReadsWouldAnswer(t *testing.T) {
	e := followedEdge(t)
	cursor := e.begun("limit=100")
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	e.do(price.Report{List: "retail", SKU: "B", Amount: "9.00", Currency: "GBP", SourceVersion: 2, At: testStart})
	e.do(price.Report{List: "retail", SKU: "A", Removed: true, SourceVersion: 2, At: testStart})
	var told []string
	for at := cursor; len(told) < 3; {
		got := e.ask(http.MethodGet, "/v1/changes?wait=20s&limit=100&since="+at, "")
		var page struct {
			Stock, Prices json.RawMessage
			NextCursor    string
		}
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if strings.Contains(string(page.Stock), `"A"`) {
			told = append(told, "stock")
			if want := e.ask(http.MethodGet, "/v1/stock?sku=A", "").body; string(page.Stock) != want {
				t.Errorf("%s, GET answers %s", page.Stock, want)
			}
		}
		for _, sku := range []string{"B", "A"} {
			if strings.Contains(string(page.Prices), `"`+sku+`"`) {
				told = append(told, sku)
			}
		}
		if want := e.ask(http.MethodGet, "/v1/prices?sku=B,A", "").body; strings.Contains(string(page.Prices), `"A"`) && strings.Contains(string(page.Prices), `"B"`) && string(page.Prices) != want {
			t.Errorf("%s, GET answers %s", page.Prices, want)
		}
		at = page.NextCursor
	}
}

func TestAFollowerIsToldOnlyWhatItAskedFor(t *testing.T) {
	e := followedEdge(t)
	all, onlyB, onlyPrices := e.begun("kinds=stock,prices"), e.begun("sku=B&kinds=stock"), e.begun("kinds=prices")
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	e.do(stock.Report{SKU: "B", OnHand: 4, SourceVersion: 2, At: testStart})
	if page := e.changes("kinds=stock&sku=B&wait=20s&since=" + onlyB); page.Prices != nil || len(page.Stock.Items) != 1 || page.Stock.Items[0]["sku"] != "B" || page.Stock.Items[0]["available"] != 4.0 {
		t.Errorf("%+v", page.Stock)
	}
	if page := e.changes("kinds=prices&since=" + onlyPrices); page.Stock != nil || !page.empty() || page.NextCursor == onlyPrices {
		t.Errorf("%+v", page)
	}
	if page := e.changes("limit=1&kinds=prices,stock&since=" + all); len(page.Stock.Items) != 1 || !page.HasMore {
		t.Errorf("%+v", page)
	}
	for _, query := range []string{"kinds=stock", "sku=A", "sku=A,B&kinds=prices"} {
		if page := e.changes(query + "&since=" + all); page.Reason != string(changes.QuestionChanged) {
			t.Errorf("%s: %+v", query, page)
		}
	}
}

func TestAChangeOfPolicyIsABeginning(t *testing.T) {
	e := followedEdge(t)
	cursor := e.begun("kinds=stock")
	e.do(partner.Configure{Partner: partner.State{ID: "acme", Name: "a", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP", SafetyBuffer: 2}}})
	page := e.changes("kinds=stock&wait=20s&since=" + cursor)
	if page.Reason != string(changes.PolicyChanged) || !page.Resync {
		t.Fatalf("%+v", page)
	}
	if page = e.changes("kinds=stock&since=" + page.NextCursor); page.Resync {
		t.Errorf("again: %+v", page)
	}
}

func TestWhatIsNoQuestionAboutChangesIsRefused(t *testing.T) {
	e := followedEdge(t)
	cursor := e.begun("")
	for query, code := range map[string]eventstore.Code{
		"since=x": CodeCursorInvalid, "since=": CodeCursorInvalid, "since=" + cursor[:len(cursor)-1] + "!": CodeCursorInvalid, "since=" + strings.Repeat("a", 5000): CodeCursorInvalid,
		"since=" + cursor + "&since=" + cursor: CodeParameterInvalid, "kinds=": CodeParameterInvalid, "kinds=stock,": CodeParameterInvalid, "kinds=Stock": CodeParameterInvalid,
		"limit=0": CodeParameterInvalid, "limit=1001": CodeParameterInvalid, "limit=01": CodeParameterInvalid, "limit=x": CodeParameterInvalid, "limit=": CodeParameterInvalid,
		"wait=21s": CodeParameterInvalid, "wait=-1s": CodeParameterInvalid, "wait=1": CodeParameterInvalid, "wait=1m": CodeParameterInvalid, "wait=1.5s": CodeParameterInvalid, "wait=99999999999999999999s": CodeParameterInvalid,
		"cursor=" + cursor: CodeParameterUnknown, "sku=" + strings.Repeat("A,", 100) + "A": CodeTooManySKUs,
		"sku=": CodeParameterMissing, "sku=,&sku": CodeParameterMissing, // else it would be all
	} {
		is(t, e.ask(http.MethodGet, "/v1/changes?"+query, ""), meanings[code].status, code)
		if !strings.Contains(query, "wait") {
			is(t, e.ask(http.MethodGet, "/v1/changes/stream?"+query, ""), meanings[code].status, code)
		}
	}
	if got := e.ask(http.MethodGet, "/v1/changes?sku="+strings.Repeat("A,", 101), ""); !strings.Contains(got.body, "at most 100 SKUs; leave sku out to follow all") {
		t.Errorf("%s", got.body)
	}
	if page := e.changes("kinds=stock&sku=A,,B,&since=" + e.begun("kinds=stock&sku=A,B")); page.Resync {
		t.Errorf("empty elements make another question: %+v", page)
	}
	is(t, e.ask(http.MethodGet, "/v1/changes/stream?wait=1s", ""), 422, CodeParameterUnknown)
	is(t, e.ask(http.MethodGet, "/v1/changes/stream", "", resumeHeader, "x"), 422, CodeCursorInvalid)
	is(t, e.ask(http.MethodGet, "/v1/changes", "", "Authorization", "Bearer nobody"), 403, partner.CodeUnknown)
	is(t, e.ask(http.MethodGet, "/v1/changes", "", "-Authorization", ""), 401, CodeUnauthenticated)
}

func TestAPageCostsByWhatItMayHold(t *testing.T) {
	left := &allowance{left: 1000}
	e := followedEdge(t, func(c *Config) { c.Quota = left })
	e.begun("")
	for query, cost := range map[string]int{"": 1, "limit=100": 1, "limit=101": 2, "limit=1000": 10, "wait=0s": 1} {
		before := left.left
		e.changes(query)
		if got := before - left.left; got != cost {
			t.Errorf("%s costs %d, want %d", query, got, cost)
		}
	}
	left.left = 5
	is(t, e.ask(http.MethodGet, "/v1/changes?limit=1000", ""), 429, CodeRateLimited)
}

// event is one server-sent event, or a comment.
type event struct {
	name, id, data string
	comment        bool
	retry          string
}

// listener reads a stream.
type listener struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
}

func (s *testServer) listen(query string, headers ...string) *listener {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/v1/changes/stream?"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer acme")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	return &listener{s.t, response, bufio.NewScanner(response.Body)}
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// next reads an event; false: the stream has ended.
func (l *listener) next() (event, bool) {
	l.t.Helper()
	var e event
	for l.lines.Scan() {
		line := l.lines.Text()
		if line == "" {
			return e, true
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			e.comment = true
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "retry":
			e.retry = value
		default:
			l.t.Fatalf("the line %q", line)
		}
	}
	return e, false
}

// until reads events up to one that is right.
func (l *listener) until(right func(event) bool) event {
	l.t.Helper()
	for {
		e, more := l.next()
		if !more {
			l.t.Fatalf("the stream ended: %v", l.lines.Err())
		}
		if right(e) {
			return e
		}
	}
}

func (e event) has(text string) bool { return e.name == "changes" && strings.Contains(e.data, text) }

func TestAStreamTellsChangesAndResumes(t *testing.T) {
	e := followedEdge(t)
	e.begun("")
	server := startServer(t, e)
	l := server.listen("kinds=stock")
	if got := l.response.Header.Get("Content-Type"); got != "text/event-stream" || l.response.StatusCode != 200 {
		t.Fatalf("%d %s", l.response.StatusCode, got)
	}
	if first, _ := l.next(); first.retry == "" {
		t.Errorf("%+v", first)
	}
	if begin, _ := l.next(); begin.name != "resync" || begin.id == "" || !strings.Contains(begin.data, `"reason":"NO_CURSOR"`) {
		t.Errorf("%+v", begin)
	}
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	told := l.until(func(e event) bool { return e.has(`"available":3`) })
	_ = l.response.Body.Close()
	e.do(stock.Report{SKU: "A", OnHand: 4, SourceVersion: 3, At: testStart}) // while nobody listens
	l = server.listen("kinds=stock&since=nonsense", resumeHeader, told.id)
	if l.response.StatusCode != 422 {
		t.Errorf("a bad cursor beside a good one: %d", l.response.StatusCode)
	}
	l = server.listen("kinds=stock", resumeHeader, told.id)
	l.until(func(e event) bool {
		if e.name == "resync" {
			t.Errorf("%+v", e)
		}
		return e.has(`"available":4`)
	})
}

func TestAStreamOnWhichNothingHappensShowsThatItLivesAndMovesOn(t *testing.T) {
	e := followedEdge(t, func(c *Config) {
		c.Following = DefaultFollowing
		c.Following.Heartbeat, c.Following.Pace = 20*time.Millisecond, time.Millisecond
	})
	cursor := e.begun("kinds=prices")
	l := startServer(t, e).listen("kinds=prices&since=" + cursor)
	l.until(func(e event) bool { return e.comment })
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	beat := l.until(func(e event) bool { return e.id != "" })
	at, err := changes.ParseCursor(beat.id)
	if before, _ := changes.ParseCursor(cursor); err != nil || !beat.comment || beat.data != "" || at.Position <= before.Position {
		t.Errorf("%+v, %v", beat, err)
	}
}

// The pace parts pages from each other: it keeps nobody waiting who has heard nothing for longer than that.
func TestWhatHappensAfterAWhileOfNothingIsToldAtOnce(t *testing.T) {
	e := followedEdge(t, func(c *Config) {
		c.Following = DefaultFollowing
		c.Following.Pace = time.Hour
	})
	l := startServer(t, e).listen("kinds=stock&since=" + e.begun("kinds=stock"))
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	l.until(func(e event) bool { return e.has(`"available":3`) })
}

// ended waits until a stream has ended, and the reason is counted.
func (e *edge) ended(l *listener, why string) {
	e.t.Helper()
	for {
		if _, more := l.next(); !more {
			break
		}
	}
	want := fmt.Sprintf("andes_changes_streams_ended_total{why=%q} 1", why)
	for deadline := time.Now().Add(patience); !strings.Contains(e.ask(http.MethodGet, "/metrics", "").body, want); {
		if time.Now().After(deadline) {
			e.t.Fatalf("it did not end by %s", why)
		}
	}
}

func TestStreamsEnd(t *testing.T) {
	for why, kind := range map[string]struct {
		config func(*Config)
		end    func(e *edge, s *testServer, l *listener)
	}{
		endedToken: {func(c *Config) {
			c.Verify = func(ctx context.Context, token string) (Principal, error) {
				principal, err := verifyTest(ctx, token)
				principal.Expires = testStart.Add(30 * time.Millisecond)
				return principal, err
			}
		}, func(*edge, *testServer, *listener) {}},
		endedAge:      {func(c *Config) { c.Following.MaxAge = 20 * time.Millisecond }, func(*edge, *testServer, *listener) {}},
		endedStop:     {func(*Config) {}, func(_ *edge, s *testServer, _ *listener) { s.stop() }},
		endedByClient: {func(*Config) {}, func(_ *edge, _ *testServer, l *listener) { _ = l.response.Body.Close() }},
		endedFault: {func(*Config) {}, func(e *edge, _ *testServer, _ *listener) {
			e.shelf.fail(eventstore.ErrUnavailable)
			e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
		}},
	} {
		t.Run(why, func(t *testing.T) {
			e := followedEdge(t, func(c *Config) {
				c.Following = DefaultFollowing
				c.Following.Pace, c.Following.Heartbeat = time.Millisecond, 10*time.Millisecond
				kind.config(c)
			})
			e.begun("")
			server := startServer(t, e)
			l := server.listen("")
			l.until(func(e event) bool { return e.name == "resync" })
			kind.end(e, server, l)
			e.ended(l, why)
		})
	}
}

// unread is a connection whose client reads the beginning and then nothing more.
type unread struct {
	*httptest.ResponseRecorder
	room     int // bytes
	deadline time.Time
}

func (u *unread) SetWriteDeadline(at time.Time) error { u.deadline = at; return nil }
func (u *unread) SetReadDeadline(time.Time) error     { return nil }
func (u *unread) FlushError() error                   { return nil }

func (u *unread) Write(data []byte) (int, error) {
	if u.room -= len(data); u.room < 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return u.ResponseRecorder.Write(data)
}

func TestAClientThatDoesNotReadIsLeftByItsStream(t *testing.T) {
	e := followedEdge(t)
	e.begun("")
	request := httptest.NewRequest(http.MethodGet, "/v1/changes/stream?kinds=stock", nil)
	request.Header.Set("Authorization", "Bearer acme")
	connection, began := &unread{ResponseRecorder: httptest.NewRecorder(), room: 20}, time.Now()
	e.ServeHTTP(connection, request) // returns
	if got := e.ask(http.MethodGet, "/metrics", "").body; !strings.Contains(got, `andes_changes_streams_ended_total{why="slow"} 1`) || !strings.Contains(got, `andes_changes_followers{by="stream"} 0`) {
		t.Errorf("%s", got)
	}
	if connection.deadline.Before(began.Add(DefaultFollowing.Stall)) {
		t.Errorf("the deadline of a write is %s", connection.deadline)
	}
}

func TestFollowersAreBounded(t *testing.T) {
	e := followedEdge(t, func(c *Config) {
		c.Following = DefaultFollowing
		c.Following.PerPartner, c.Following.Total = 2, 3
	})
	cursor := e.begun("")
	server := startServer(t, e)
	first := server.listen("")
	server.listen("")
	got := e.ask(http.MethodGet, "/v1/changes/stream", "")
	is(t, got, 429, CodeTooManyFollowers)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("%v", got.header)
	}
	is(t, e.ask(http.MethodGet, "/v1/changes?wait=20s&since="+cursor, ""), 429, CodeTooManyFollowers)
	if page := e.changes("since=" + cursor); !page.empty() { // who does not wait needs no place
		t.Errorf("%+v", page)
	}
	server.listen("", "Authorization", "Bearer other")
	is(t, e.ask(http.MethodGet, "/v1/changes/stream", "", "Authorization", "Bearer other"), 503, CodeOverloaded)
	_ = first.response.Body.Close()
	for deadline := time.Now().Add(patience); ; { // its place is free again
		again := server.listen("")
		if again.response.StatusCode == 200 {
			break
		}
		_ = again.response.Body.Close()
		if time.Now().After(deadline) {
			t.Fatal("the place is not given back")
		}
	}
}

func TestWhoeverWaitsIsAnsweredWhenItsTimeIsOverOrTheInstanceStops(t *testing.T) {
	e := followedEdge(t)
	cursor := e.begun("kinds=prices")
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	if page := e.changes("kinds=prices&wait=1s&since=" + cursor); !page.empty() || page.NextCursor == cursor {
		t.Errorf("%+v", page)
	}
	answered := make(chan pageOf, 1)
	go func() { answered <- e.changes("kinds=prices&wait=20s&since=" + cursor) }()
	for !strings.Contains(e.ask(http.MethodGet, "/metrics", "").body, `andes_changes_followers{by="poll"} 1`) {
		if len(answered) > 0 {
			break
		}
	}
	e.Drain()
	if page := <-answered; !page.empty() {
		t.Errorf("%+v", page)
	}
}

// TestAWaitOutlastsTheTimeForReading: the server's own limits of a connection are those of requests that are
// answered at once.
func TestAWaitOutlastsTheServersLimits(t *testing.T) {
	e := followedEdge(t, func(c *Config) {
		c.Following = DefaultFollowing
		c.Following.Heartbeat = 20 * time.Millisecond
	})
	cursor := e.begun("kinds=stock")
	server := startServer(t, e, func(c *ServerConfig) { c.ReadTimeout, c.WriteTimeout = shortly, shortly })
	l := server.listen("kinds=stock&since=" + cursor)
	for range 10 { // longer than both
		l.until(func(e event) bool { return e.comment })
	}
	got := server.get("/v1/changes?wait=1s&kinds=stock&since=" + cursor)
	if got.status != 200 || !strings.Contains(got.body, `"resync":false`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	l.until(func(e event) bool { return e.has(`"available":3`) })
}
