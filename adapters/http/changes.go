package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"andes/changes"
	"andes/commands/sku"
	"andes/eventstore"
	"andes/queries"
	"andes/quota"
)

// changesBody is a page of changes. Stock and prices look like the answers about them.
type changesBody struct {
	Stock      *stockBody  `json:"stock,omitempty" doc:"What stock is now where it changed; drop from your copy what is under notFound. Not there with resync"`
	Prices     *pricesBody `json:"prices,omitempty" doc:"The same for prices"`
	NextCursor string      `json:"nextCursor" example:"AQAAAAAAAAAHAAAAAAAAAAAAAAAA0pf5Dw" doc:"Where to go on"`
	HasMore    bool        `json:"hasMore" doc:"There is more already"`
	Resync     bool        `json:"resync" doc:"Read everything again, after this answer, and go on with nextCursor"`
	Reason     string      `json:"reason,omitempty" enum:"NO_CURSOR,CURSOR_TOO_OLD,QUESTION_CHANGED,POLICY_CHANGED,LOG_RESTORED" doc:"Of resync"`
}

// How many values a page has, and how long a request may wait for one.
const (
	someChanges = 100
	mostChanges = 1000
	maxWait     = 20 * time.Second
)

const changesDescription = "What changed for the partner since the cursor, by its channel policy and price list, as `GET /v1/stock` and `GET /v1/prices` would answer. " +
	"A cursor is valid at every instance. Apply each page as it comes: a SKU that changed several times may be told once, and one may be told again.\n\n" +
	"With `resync` read all that you keep once more by `POST /v1/stock/query` and `POST /v1/prices/query`, then go on with `nextCursor`. It happens without a cursor, with one that is too old or of another question " +
	"(partner, kinds, SKUs), and when the partner's policy changes or a window of its discounts begins or ends; then once more about a minute later, as instances keep policies for so long.\n\n" +
	"Costs 1 of the quota of reads for each 100 of `limit` or part of them, also when it waits."

const streamDescription = "The same pages as server-sent events: `changes` with a page as data, and `resync` with the reason; the id of each is its cursor, and `Last-Event-ID` resumes. " +
	"A line `:` comes where nothing changes, with an id of its own now and then. A stream ends with its token, after an hour, when the instance stops and when the client does not read; clients reconnect. " +
	"Costs 1 of the quota of reads when it opens; how many may be open at once is bounded."

var (
	sinceParameter   = queryParameter("since", "nextCursor of the last page", false, &huma.Schema{Type: huma.TypeString})
	kindsParameter   = queryParameter("kinds", "What is followed, separated by commas: stock, prices. Both without it.", false, &huma.Schema{Type: huma.TypeString, Examples: []any{"stock,prices"}})
	onlyParameter    = queryParameter("sku", "Only these SKUs, up to 100, as repeated parameters or separated by commas; empty ones are left out. All without it.", false, skuParameter.Schema)
	waitParameter    = queryParameter("wait", "How long to wait for a change, in whole seconds up to 20s", false, &huma.Schema{Type: huma.TypeString, Pattern: `^[0-9]{1,2}s$`, Examples: []any{"20s"}})
	changesParameter = queryParameter("limit", "Most values in a page", false, bounded(huma.Schema{Type: huma.TypeInteger, Default: someChanges}, "", 1, mostChanges))
	resumeParameter  = &huma.Param{Name: resumeHeader, In: "header", Description: "The id of the last event; it counts more than since", Schema: &huma.Schema{Type: huma.TypeString}}
)

const resumeHeader = "Last-Event-ID"

func (a *API) changesEndpoints() []*endpoint {
	if a.Changes == nil {
		return nil
	}
	refusals := []eventstore.Code{CodeParameterMissing, CodeParameterInvalid, CodeCursorInvalid, CodeTooManySKUs, sku.CodeInvalid, CodeTooManyFollowers, CodeOverloaded}
	return []*endpoint{
		{
			method: http.MethodGet, path: "/v1/changes", id: "changes", tag: "catalogue", summary: "Changes of stock and prices since a cursor", description: changesDescription,
			access: partners, quota: quota.Reads, frequent: true, lasting: true, refusals: refusals,
			parameters: []*huma.Param{sinceParameter, kindsParameter, onlyParameter, changesParameter, waitParameter},
			answers:    []answer{{status: 200, description: "A page; without changes it has a cursor all the same", body: reflect.TypeFor[changesBody]()}},
			handle:     (*call).answerChanges,
		},
		{
			method: http.MethodGet, path: "/v1/changes/stream", id: "changesStream", tag: "catalogue", summary: "Changes of stock and prices as they come", description: streamDescription,
			access: partners, quota: quota.Reads, frequent: true, lasting: true, refusals: refusals,
			parameters: []*huma.Param{sinceParameter, kindsParameter, onlyParameter, changesParameter, resumeParameter},
			answers:    []answer{{status: 200, description: "Server-sent events; the data of each is a page", media: "text/event-stream", body: reflect.TypeFor[string]()}},
			handle:     (*call).streamChanges,
		},
	}
}

// follower is what a caller wants to follow.
type follower struct {
	kinds changes.Kinds
	skus  []string // nil: all
	limit int
	since *changes.Cursor
	wait  time.Duration
}

// followed reads the parameters; names are those of the endpoint.
func (c *call) followed(names ...string) (follower, error) {
	f := follower{limit: someChanges}
	values, err := c.query(names...)
	if err != nil {
		return f, err
	}
	for name, sent := range values {
		if len(sent) > 1 && name != "sku" {
			return f, parameterProblem(CodeParameterInvalid, name, "the parameter is there twice")
		}
	}
	if f.kinds, err = kindsOf(values.Get("kinds"), values.Has("kinds")); err != nil {
		return f, err
	}
	for _, list := range values["sku"] {
		if f.skus, err = appendSKUs(f.skus, list, hintFollow); err != nil {
			return f, err
		}
	}
	if values.Has("sku") && len(f.skus) == 0 {
		return f, parameterProblem(CodeParameterMissing, "sku", "at least one SKU is needed; "+hintFollow)
	}
	if text := values.Get("limit"); values.Has("limit") {
		if f.limit, err = strconv.Atoi(text); err != nil || f.limit < 1 || f.limit > mostChanges || strconv.Itoa(f.limit) != text {
			return f, parameterProblem(CodeParameterInvalid, "limit", "a whole number from 1 to "+strconv.Itoa(mostChanges)+" is expected")
		}
	}
	if text := values.Get("wait"); values.Has("wait") {
		seconds, err := strconv.Atoi(strings.TrimSuffix(text, "s"))
		if f.wait = time.Duration(seconds) * time.Second; err != nil || strconv.Itoa(seconds)+"s" != text || seconds < 0 || f.wait > maxWait {
			return f, parameterProblem(CodeParameterInvalid, "wait", "whole seconds up to "+maxWait.String()+" are expected")
		}
	}
	if values.Has("since") {
		err = f.from(values.Get("since"), "since")
	}
	return f, err
}

func (f *follower) from(text, name string) error {
	cursor, err := changes.ParseCursor(text)
	if err != nil {
		return parameterProblem(CodeCursorInvalid, name, err.Error())
	}
	f.since = &cursor
	return nil
}

func kindsOf(text string, sent bool) (changes.Kinds, error) {
	if !sent {
		return changes.Kinds{Stock: true, Prices: true}, nil
	}
	var kinds changes.Kinds
	for kind := range strings.SplitSeq(text, ",") {
		switch kind {
		case "stock":
			kinds.Stock = true
		case "prices":
			kinds.Prices = true
		default:
			return kinds, parameterProblem(CodeParameterInvalid, "kinds", "the kinds are stock and prices")
		}
	}
	return kinds, nil
}

// answerChanges gives one page, and waits for it if it is asked to.
func (c *call) answerChanges() error {
	f, err := c.followed("since", "kinds", "sku", "limit", "wait")
	if err != nil {
		return err
	}
	if err := c.takeMore(costOf(f.limit)); err != nil {
		return err
	}
	body := newPage()
	defer body.keep()
	told, err := c.tellChanges(body, f)
	if err == nil && told.Empty() && !told.More && f.wait > 0 {
		told, err = c.awaitChanges(body, f, told)
	}
	if err != nil {
		return err
	}
	c.send(http.StatusOK, jsonMedia, body.b)
	return nil
}

// awaitChanges is answerChanges for a caller that waits.
func (c *call) awaitChanges(body *page, f follower, told changes.Page) (changes.Page, error) {
	leave, err := c.api.followers.enter(c.principal.Partner, followsByPolling)
	if err != nil {
		return told, err
	}
	defer leave()
	c.outlast()
	timer := time.NewTimer(f.wait)
	defer timer.Stop()
	for {
		over := false
		select {
		case <-c.api.Changes.News(told.Next.Position):
		case <-timer.C:
			over = true
		case <-c.api.drained:
			over = true
		case <-c.request.Context().Done():
			return told, context.Cause(c.request.Context())
		}
		f.since = &told.Next
		if told, err = c.tellChanges(body, f); err != nil || over || !told.Empty() {
			return told, err
		}
	}
}

// outlast lifts the server's limits for a request that waits. Where there are none, nothing has to be lifted.
func (c *call) outlast() {
	connection := http.NewResponseController(c.inner)
	_ = connection.SetReadDeadline(time.Time{})
	_ = connection.SetWriteDeadline(time.Now().Add(maxWait + c.api.Following.Stall))
}

// tellChanges writes the next page.
func (c *call) tellChanges(body *page, f follower) (changes.Page, error) {
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	c.caller = nil // a policy may change while somebody waits
	channel, err := c.channel(ctx)
	if err != nil {
		return changes.Page{}, err
	}
	told, err := c.api.Changes.Page(ctx, changes.Question{Partner: *channel, Kinds: f.kinds, SKUs: f.skus, Limit: f.limit}, f.since)
	if err != nil {
		return told, err
	}
	body.clear()
	body.literal("{")
	now, limits := c.api.Clock(), c.api.Thresholds
	if f.kinds.Stock && told.Resync == "" {
		answers, notFound, err := queries.Stock(ctx, told.Values, channel.Policy, limits, now, told.Stock)
		if err != nil {
			return told, err
		}
		body.literal(`"stock":`)
		body.stockLists(answers, notFound)
		body.literal(",")
	}
	if f.kinds.Prices && told.Resync == "" {
		answers, notFound, err := queries.Prices(ctx, told.Values, channel.Policy, limits, now, told.Prices)
		if err != nil {
			return told, err
		}
		body.literal(`"prices":`)
		body.priceLists(answers, notFound)
		body.literal(",")
	}
	body.literal(`"nextCursor":"` + told.Next.Encode() + `","hasMore":` + strconv.FormatBool(told.More) + `,"resync":` + strconv.FormatBool(told.Resync != ""))
	if told.Resync != "" {
		body.literal(`,"reason":"` + string(told.Resync) + `"`)
	}
	body.literal("}")
	return told, nil
}
