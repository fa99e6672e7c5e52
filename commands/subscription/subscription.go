// Package subscription is a partner's wish to be told of events by webhook.
package subscription

import (
	"net/url"
	"slices"

	"andes/eventstore"
)

// Types are the events that a partner can subscribe to; AllTypes stands for every one.
var Types = []string{
	"order.placed", "order.confirmed", "order.dispatched", "order.delivered", "order.cancelled",
	"payment.approved", "payment.rejected", "payment.refunded", "subscription.paused",
}

// AllTypes subscribes to everything.
const AllTypes = "*"

// State is a subscription.
type State struct {
	ID      string   `json:"id"`
	Partner string   `json:"partner"`
	URL     string   `json:"url"`
	Types   []string `json:"types"`
	Secret  string   `json:"secret"`
	Removed bool     `json:"removed,omitempty"`
}

// Wants tells whether the subscription is for an event type.
func (s State) Wants(eventType string) bool {
	return !s.Removed && (slices.Contains(s.Types, AllTypes) || slices.Contains(s.Types, eventType))
}

// Aggregate is one stream per subscription. Its state holds a secret and is not published.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:   "subscription",
	Owner:  func(s *State) string { return s.Partner },
	Events: []eventstore.Definition[State]{created, removed},
})

// Created says that a partner subscribed.
type Created struct {
	ID      string   `json:"id"`
	Partner string   `json:"partner"`
	URL     string   `json:"url"`
	Types   []string `json:"types"`
	Secret  string   `json:"secret" sensitive:"true"`
}

var created = eventstore.Define("subscription.created", func(s *State, e Created) {
	*s = State{ID: e.ID, Partner: e.Partner, URL: e.URL, Types: e.Types, Secret: e.Secret}
}, eventstore.Doc("A partner asked to be told of events by webhook."))

// Removed says that the subscription ended.
type Removed struct {
	Reason string `json:"reason"`
}

var removed = eventstore.Define("subscription.removed", func(s *State, _ Removed) {
	s.Removed, s.Secret = true, ""
}, eventstore.Doc("A webhook subscription ended."))

// Refusals of subscriptions.
const (
	CodeInvalid eventstore.Code = "SUBSCRIPTION_INVALID"
	CodeUnknown eventstore.Code = "NOT_FOUND"
)

const maxURL = 2000

// Create subscribes. AllowInsecure permits http URLs, for development only.
type Create struct {
	ID            string
	Partner       string
	URL           string
	Types         []string
	Secret        string
	AllowInsecure bool
}

// Needs implements eventstore.Command.
func (c Create) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.ID)} }

// Decide implements eventstore.Command.
func (c Create) Decide(u *eventstore.Unit) (any, error) {
	var problems []eventstore.Problem
	if !c.validURL() {
		problems = append(problems, eventstore.Problem{Pointer: "/url", Code: CodeInvalid, Detail: "the URL is not an absolute https URL without user information"})
	}
	if len(c.Types) == 0 {
		problems = append(problems, eventstore.Problem{Pointer: "/types", Code: CodeInvalid, Detail: "at least one event type is needed"})
	}
	for _, name := range c.Types {
		if name != AllTypes && !slices.Contains(Types, name) {
			problems = append(problems, eventstore.Problem{Pointer: "/types", Code: CodeInvalid, Detail: "unknown event type"})
		}
	}
	if len(problems) > 0 {
		return nil, &eventstore.Refusal{Code: CodeInvalid, Detail: "the subscription is not valid", Problems: problems}
	}
	return Aggregate.Append(u, c.ID, Created{ID: c.ID, Partner: c.Partner, URL: c.URL, Types: slices.Compact(slices.Sorted(slices.Values(c.Types))), Secret: c.Secret}), nil
}

func (c Create) validURL() bool {
	target, err := url.Parse(c.URL)
	if err != nil || len(c.URL) > maxURL || target.Host == "" || target.User != nil || target.Fragment != "" {
		return false
	}
	return target.Scheme == "https" || c.AllowInsecure && target.Scheme == "http"
}

// Remove ends a subscription of the partner.
type Remove struct {
	ID      string
	Partner string
	Reason  string
}

// Needs implements eventstore.Command.
func (c Remove) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.ID)} }

// Decide implements eventstore.Command.
func (c Remove) Decide(u *eventstore.Unit) (any, error) {
	known, version := Aggregate.Load(u, c.ID)
	if version == 0 || known.Partner != c.Partner {
		return nil, eventstore.Refuse(CodeUnknown, "there is no such subscription")
	}
	if !known.Removed {
		Aggregate.Append(u, c.ID, Removed{Reason: c.Reason})
	}
	return nil, nil
}
