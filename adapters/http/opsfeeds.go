package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
)

// FeedDesk is where operators see how the legacy systems' feeds stand, and what of them can't be used.
type FeedDesk interface {
	Standings(ctx context.Context) ([]polling.FeedStanding, error)
	Rejects(ctx context.Context, feed, after string, limit int) ([]polling.Rejected, error)
	Reread(ctx context.Context, feed string, ids []string, actor, reason string) (count int, err error)
	Discard(ctx context.Context, feed string, ids []string, actor, reason string) (count int, err error)
}

const (
	defaultRejects = 100
	maxRejects     = 1000
)

type feedsBody struct {
	Items []polling.FeedStanding `json:"items"`
}

type rejectsBody struct {
	Items []polling.Rejected `json:"items"`
	Next  string             `json:"next,omitempty" doc:"There is more: ask with after=<this>"`
}

// rereadBody names records.
type rereadBody struct {
	IDs    []string `json:"ids" minItems:"1" maxItems:"500" doc:"As the list of records has them"`
	Reason string   `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

type rereadAnswer struct {
	Count int `json:"count" doc:"Of the records that will be read once more"`
}

// discardRecordsBody names records.
type discardRecordsBody struct {
	IDs    []string `json:"ids" minItems:"1" maxItems:"500" doc:"As the list of records has them"`
	Reason string   `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

type discardRecordsAnswer struct {
	Count int `json:"count" doc:"Of the records that were struck out"`
}

func (a *API) feedDeskEndpoints() []*endpoint {
	if a.FeedDesk == nil {
		return nil
	}
	after := queryParameter("after", "The id behind which the list goes on", false, &huma.Schema{Type: huma.TypeString})
	limit := queryParameter("limit", "How many", false, bounded(huma.Schema{Type: huma.TypeInteger}, "", 1, maxRejects))
	return []*endpoint{
		{
			method: http.MethodGet, path: "/ops/feeds", id: "feeds", tag: "operations", summary: "How the legacy systems' feeds stand",
			access: opsViewers, handle: (*call).answerFeeds,
			answers: []answer{{status: 200, description: "The feeds", body: reflect.TypeFor[feedsBody]()}},
		},
		{
			method: http.MethodGet, path: "/ops/feeds/{feed}/rejects", id: "feedRejects", tag: "operations", summary: "Records of a feed that can't be used",
			description: "A record leaves the list when its source has put it right.",
			access:      opsViewers, parameters: []*huma.Param{after, limit}, handle: (*call).answerFeedRejects,
			answers:  []answer{{status: 200, description: "The records", body: reflect.TypeFor[rejectsBody]()}},
			refusals: []eventstore.Code{CodeFeedUnknown, CodeParameterInvalid},
		},
		{
			method: http.MethodPost, path: "/ops/feeds/{feed}/reread", id: "rereadRecords", tag: "operations", summary: "Read records of a feed once more",
			description: "Needs the role ops-admin. Those of the list of rejects are read with the next poll, alone, where the feed gives single records; else the next comparison of all reads them.",
			access:      opsAdmins, body: reflect.TypeFor[rereadBody](), handle: (*call).rereadRecords,
			answers:  []answer{{status: 200, description: "Noted", body: reflect.TypeFor[rereadAnswer]()}},
			refusals: []eventstore.Code{CodeFeedUnknown},
		},
		{
			method: http.MethodPost, path: "/ops/feeds/{feed}/discard", id: "discardRecords", tag: "operations", summary: "Strike records of a feed out that their source no longer has",
			description: "Needs the role ops-admin. A record that can't be used and that its source has no more would stay in the list of rejects for ever. One that the source still has comes back with its next version, or once the process that reads the feed is started again.",
			access:      opsAdmins, body: reflect.TypeFor[discardRecordsBody](), handle: (*call).discardRecords,
			answers:  []answer{{status: 200, description: "Struck out", body: reflect.TypeFor[discardRecordsAnswer]()}},
			refusals: []eventstore.Code{CodeFeedUnknown},
		},
	}
}

func (c *call) answerFeeds() error {
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	standings, err := c.api.FeedDesk.Standings(ctx)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, feedsBody{Items: standings})
}

// feedAsked gives the feed in the path.
func (c *call) feedAsked() (string, error) {
	feed := c.request.PathValue("feed")
	if !slices.Contains(source.Feeds, feed) {
		return "", eventstore.Refuse(CodeFeedUnknown, "there is no such feed; the feeds are: %s", strings.Join(source.Feeds, ", "))
	}
	return feed, nil
}

func (c *call) answerFeedRejects() error {
	feed, err := c.feedAsked()
	if err != nil {
		return err
	}
	values, err := c.query("after", "limit")
	if err != nil {
		return err
	}
	limit := defaultRejects
	if text := values.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxRejects {
			return parameterProblem(CodeParameterInvalid, "limit", "a number from 1 to "+strconv.Itoa(maxRejects)+" is expected")
		}
	}
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	list, err := c.api.FeedDesk.Rejects(ctx, feed, values.Get("after"), limit)
	if err != nil {
		return err
	}
	body := rejectsBody{Items: append([]polling.Rejected{}, list...)}
	if len(list) == limit {
		body.Next = list[limit-1].ID
	}
	return c.json(http.StatusOK, body)
}

func (c *call) rereadRecords() error {
	body, err := readBody[rereadBody](c)
	if err != nil {
		return err
	}
	count, err := c.workOnRecords(c.api.FeedDesk.Reread, body.IDs, body.Reason)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, rereadAnswer{Count: count})
}

func (c *call) discardRecords() error {
	body, err := readBody[discardRecordsBody](c)
	if err != nil {
		return err
	}
	count, err := c.workOnRecords(c.api.FeedDesk.Discard, body.IDs, body.Reason)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, discardRecordsAnswer{Count: count})
}

// workOnRecords does something with records of the feed in the path.
func (c *call) workOnRecords(work func(ctx context.Context, feed string, ids []string, actor, reason string) (int, error), ids []string, reason string) (int, error) {
	feed, err := c.feedAsked()
	if err != nil {
		return 0, err
	}
	ctx, cancel := c.timeout(c.api.Limits.CommandTimeout)
	defer cancel()
	return work(ctx, feed, ids, c.operator(), reason)
}
