package httpapi

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"andes/commands/subscription"
	"andes/eventstore"
)

// eventType is a type of events that a partner can be told of.
type eventType string

// Schema implements huma.SchemaProvider.
func (eventType) Schema(huma.Registry) *huma.Schema {
	schema := bounded(huma.Schema{Type: huma.TypeString, Description: "A type of events, or * for all"}, "", 1, 64)
	schema.Enum = []any{subscription.AllTypes}
	for _, name := range subscription.Types {
		schema.Enum = append(schema.Enum, name)
	}
	return schema
}

type subscriptionBody struct {
	URL   string      `json:"url" minLength:"1" maxLength:"2000" pattern:"^https?://[^@/?#\\s]+([/?][^#\\s]*)?$" patternDescription:"an http or https URL without user information and fragment" example:"https://shop.example.com/hooks/andes" doc:"An absolute https URL without user information"`
	Types []eventType `json:"types" minItems:"1" maxItems:"20"`
}

// subscriptionView is a subscription in answers. Its secret is told once, when it is created.
type subscriptionView struct {
	ID     string   `json:"id" example:"0190b0a0-6f00-7abc-8000-2b3c4d5e6f70"`
	URL    string   `json:"url" example:"https://shop.example.com/hooks/andes"`
	Types  []string `json:"types" example:"[\"order.placed\",\"order.cancelled\"]"`
	Secret string   `json:"secret,omitempty" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" doc:"Of the Standard Webhooks signatures; told this once"`
}

type subscriptionsBody struct {
	Items []subscriptionView `json:"items"`
}

// maxSubscriptions is how many a partner may have. Two requests at once may exceed it by one.
const maxSubscriptions = 20

func (a *API) subscriptionEndpoints() []*endpoint {
	return []*endpoint{
		{
			method: http.MethodPost, path: "/v1/subscriptions", id: "subscribe", tag: "webhooks", summary: "Subscribe to events by webhook",
			access: partners, body: reflect.TypeFor[subscriptionBody](),
			answers:  []answer{{status: 201, description: "The subscription, with its secret", body: reflect.TypeFor[subscriptionView](), headers: []string{"Location"}}},
			refusals: slices.Concat(commandCodes, []eventstore.Code{subscription.CodeInvalid, CodeSubscriptionLimit}),
			handle:   (*call).subscribe,
		},
		{
			method: http.MethodGet, path: "/v1/subscriptions", id: "subscriptions", tag: "webhooks", summary: "The partner's subscriptions",
			description: "Those that are not ended. A subscription's secret is told once, when it is made.",
			access:      partners,
			answers:     []answer{{status: 200, description: "All of them", body: reflect.TypeFor[subscriptionsBody]()}},
			handle:      (*call).answerSubscriptions,
		},
		{
			method: http.MethodDelete, path: "/v1/subscriptions/{id}", id: "unsubscribe", tag: "webhooks", summary: "End a subscription",
			access:   partners,
			answers:  []answer{{status: 204, description: "It ended, now or before"}},
			refusals: slices.Concat(commandCodes, []eventstore.Code{subscription.CodeUnknown}),
			handle:   (*call).unsubscribe,
		},
	}
}

// secretBytes is within the 24 to 64 bytes of Standard Webhooks.
const secretBytes = 32

func newSecret() string {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	return webhookSecretPrefix + base64.StdEncoding.EncodeToString(random)
}

func (c *call) subscribe() error {
	body, err := readBody[subscriptionBody](c)
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	held, err := c.api.Subscriptions.Subscriptions(ctx, c.principal.Partner)
	if err != nil {
		return err
	}
	if len(held) >= maxSubscriptions {
		return eventstore.Refuse(CodeSubscriptionLimit, "a partner has at most %d subscriptions", maxSubscriptions)
	}
	types := make([]string, len(body.Types))
	for i, name := range body.Types {
		types[i] = string(name)
	}
	create := subscription.Create{
		ID: c.api.NewID(), Partner: c.principal.Partner, URL: body.URL, Types: types, Secret: newSecret(), AllowInsecure: c.api.Development,
	}
	result, err := c.execute(create, c.meta())
	if err != nil {
		return err
	}
	c.Header().Set("Location", "/v1/subscriptions/"+create.ID)
	view := subscriptionView{ID: create.ID, URL: create.URL, Types: types, Secret: create.Secret}
	if state, ok := result.(subscription.State); ok {
		view.Types = state.Types
	}
	return c.json(http.StatusCreated, view)
}

func (c *call) answerSubscriptions() error {
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	held, err := c.api.Subscriptions.Subscriptions(ctx, c.principal.Partner)
	if err != nil {
		return err
	}
	body := subscriptionsBody{Items: make([]subscriptionView, len(held))}
	for i, each := range held {
		body.Items[i] = subscriptionView{ID: each.ID, URL: each.URL, Types: each.Types}
	}
	return c.json(http.StatusOK, body)
}

func (c *call) unsubscribe() error {
	id := c.request.PathValue("id")
	if !saneID(id) {
		return eventstore.Refuse(subscription.CodeUnknown, "there is no such subscription")
	}
	remove := subscription.Remove{ID: id, Partner: c.principal.Partner, Reason: "removed by the partner"}
	if _, err := c.execute(remove, c.meta()); err != nil {
		return err
	}
	c.send(http.StatusNoContent, "", nil)
	return nil
}
