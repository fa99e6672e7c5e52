// Package httpapi is the HTTP edge: the partner API, the payment gateway's webhook, partner
// administration, health, metrics and the API's own documentation.
//
// One table of endpoints (see endpoint) is the router, the OpenAPI document, the page for people and the
// access rules at once. A request body's Go type gives the schema in the document, and that schema is what checks the
// body (shape.go), so the document can't promise what the code doesn't do. Every error is a problem
// document made from one table of codes (problem.go); the document lists those of each endpoint
// (refusals.go).
//
// A request passes, in this order: correlation id, route, bearer token, role, query string, quota,
// idempotency key, media type, size, nesting, JSON syntax, and only then the meaning of its body. Members and
// parameters that are not known are refused, on every endpoint that needs a token: what looks like "dryRun"
// must not be done for real.
//
// The quota is charged one unit before the body is read, and the rest when a batch turns out to be larger
// (quota.go). A refused request leaves its idempotency key free.
//
// # Numbers
//
// A whole number is written in digits; a fraction of zeros (6.0), as some languages write it, is
// accepted and means the same. An exponent (1e3) is refused, like any other fraction.
//
// # Idempotency
//
// Two requests with one key are the same request when their canonical JSON (RFC 8785) and their route
// are: white space, the order of members, 1 or 1.0 and the character set in Content-Type do not
// matter, every other difference does. A finished answer, also a refusal, is kept and given again byte
// for byte, with the correlationId of the first call in its body. What is not kept leaves the key free:
// faults on our side, a partner that is not set up yet, and bodies that are no JSON. Whoever does not
// know what became of a request repeats it with the same key; whoever changes it takes a new one.
package httpapi
