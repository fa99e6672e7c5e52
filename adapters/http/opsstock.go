package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"andes/commands/stock"
	"andes/eventstore"
)

// StockDesk is where operators see what stock can't keep its promises.
type StockDesk interface {
	Oversold(ctx context.Context, after string, limit int) ([]stock.Oversold, error)
}

const (
	defaultOversold = 50
	maxOversold     = 100
)

type oversoldListBody struct {
	Items []stock.Oversold `json:"items"`
	Next  string           `json:"next,omitempty" doc:"There is more: ask with after=<this>"`
}

func (a *API) stockDeskEndpoints() []*endpoint {
	if a.StockDesk == nil {
		return nil
	}
	after := queryParameter("after", "The SKU behind which the list goes on", false, shortText())
	limit := queryParameter("limit", "How many; none: "+strconv.Itoa(defaultOversold), false, bounded(huma.Schema{Type: huma.TypeInteger}, "", 1, maxOversold))
	return []*endpoint{{
		method: http.MethodGet, path: "/ops/stock/oversold", id: "oversold", tag: "operations", summary: "SKUs of which orders hold more units than there are",
		description: "The WMS lowered their level after the units were held. Nothing more is sold of them, and they leave the list when a level comes that suffices.",
		access:      opsViewers, parameters: []*huma.Param{after, limit}, handle: (*call).answerOversold,
		answers:  []answer{{status: http.StatusOK, description: "The SKUs, with the orders", body: reflect.TypeFor[oversoldListBody]()}},
		refusals: []eventstore.Code{CodeParameterInvalid},
	}}
}

func (c *call) answerOversold() error {
	values, err := c.single("after", "limit")
	if err != nil {
		return err
	}
	limit := defaultOversold
	if text := values.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxOversold {
			return parameterProblem(CodeParameterInvalid, "limit", "a number from 1 to "+strconv.Itoa(maxOversold)+" is expected")
		}
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	list, err := c.api.StockDesk.Oversold(ctx, values.Get("after"), limit)
	if err != nil {
		return toOperator(err)
	}
	body := oversoldListBody{Items: append([]stock.Oversold{}, list...)}
	if len(list) == limit {
		body.Next = list[limit-1].SKU
	}
	return c.json(http.StatusOK, body)
}
