package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/reservation"
	"andes/commands/sku"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/commands/subscription"
	"andes/deadletters"
	"andes/eventstore"
	"andes/promo"
	"andes/quota"
	"andes/tuning"
)

// Codes of the edge itself. Those of the write side are declared where they are refused.
const (
	CodeUnauthenticated   eventstore.Code = "UNAUTHENTICATED"
	CodeForbidden         eventstore.Code = "FORBIDDEN"
	CodeRouteUnknown      eventstore.Code = "ROUTE_NOT_FOUND"
	CodeMethodNotAllowed  eventstore.Code = "METHOD_NOT_ALLOWED"
	CodeKeyRequired       eventstore.Code = "IDEMPOTENCY_KEY_REQUIRED"
	CodeKeyInvalid        eventstore.Code = "IDEMPOTENCY_KEY_INVALID"
	CodeMediaType         eventstore.Code = "UNSUPPORTED_MEDIA_TYPE"
	CodeBodyTooLarge      eventstore.Code = "BODY_TOO_LARGE"
	CodeBodyUnreadable    eventstore.Code = "BODY_UNREADABLE"
	CodeJSONMalformed     eventstore.Code = "JSON_MALFORMED"
	CodeDuplicateMember   eventstore.Code = "DUPLICATE_MEMBER"
	CodeValidation        eventstore.Code = "VALIDATION_FAILED"
	CodeMemberUnknown     eventstore.Code = "MEMBER_UNKNOWN"
	CodeMemberMissing     eventstore.Code = "MEMBER_MISSING"
	CodeTypeInvalid       eventstore.Code = "TYPE_INVALID"
	CodeTextInvalid       eventstore.Code = "TEXT_INVALID"
	CodeLengthInvalid     eventstore.Code = "LENGTH_INVALID"
	CodeNumberInvalid     eventstore.Code = "NUMBER_INVALID"
	CodeFormatInvalid     eventstore.Code = "FORMAT_INVALID"
	CodeAmountInvalid     eventstore.Code = "AMOUNT_INVALID"
	CodeCurrencyInvalid   eventstore.Code = "CURRENCY_INVALID"
	CodeQueryMalformed    eventstore.Code = "QUERY_MALFORMED"
	CodeParameterUnknown  eventstore.Code = "PARAMETER_UNKNOWN"
	CodeParameterMissing  eventstore.Code = "PARAMETER_MISSING"
	CodeParameterInvalid  eventstore.Code = "PARAMETER_INVALID"
	CodeTooManySKUs       eventstore.Code = "TOO_MANY_SKUS"
	CodeCursorInvalid     eventstore.Code = "CURSOR_INVALID"
	CodeTooManyFollowers  eventstore.Code = "TOO_MANY_FOLLOWERS"
	CodeSubscriptionLimit eventstore.Code = "SUBSCRIPTION_LIMIT"
	CodeSignatureInvalid  eventstore.Code = "SIGNATURE_INVALID"
	CodeWebhookInvalid    eventstore.Code = "WEBHOOK_INVALID"
	CodeFeedUnknown       eventstore.Code = "FEED_UNKNOWN"
	CodeFeedInvalid       eventstore.Code = "FEED_INVALID"
	CodeRateLimited       eventstore.Code = "RATE_LIMITED"
	CodeOverloaded        eventstore.Code = "OVERLOADED"
	CodeUnavailable       eventstore.Code = "UNAVAILABLE"
	CodeOutcomeUnknown    eventstore.Code = "OUTCOME_UNKNOWN"
	CodeInternal          eventstore.Code = "INTERNAL"
)

// retrySoon is how long a caller should wait after an answer that may soon be another one.
const retrySoon = time.Second

// meaning is what a code is in HTTP.
type meaning struct {
	status     int
	title      string
	retryAfter time.Duration // 0: no header
	free       bool          // an idempotency key is not spent by it
}

// meanings is the one table of problems. A code that is not in it is a bug and becomes INTERNAL.
var meanings = map[eventstore.Code]meaning{
	CodeUnauthenticated:  {status: 401, title: "A valid bearer token is needed"},
	CodeForbidden:        {status: 403, title: "The token does not permit this"},
	CodeRouteUnknown:     {status: 404, title: "There is no such route"},
	CodeMethodNotAllowed: {status: 405, title: "The route does not have this method"},
	CodeMediaType:        {status: 415, title: "The body is not plain application/json"},
	CodeBodyTooLarge:     {status: 413, title: "The body is too large"},
	CodeBodyUnreadable:   {status: 400, title: "The body could not be read"},
	CodeJSONMalformed:    {status: 400, title: "The body is not valid JSON"},
	CodeDuplicateMember:  {status: 400, title: "A member is there twice"},
	CodeQueryMalformed:   {status: 400, title: "The query string is not valid"},

	CodeValidation:       {status: 422, title: "The request is not valid"},
	CodeMemberUnknown:    {status: 422, title: "A member is not known"},
	CodeMemberMissing:    {status: 422, title: "A member is missing"},
	CodeTypeInvalid:      {status: 422, title: "A value has the wrong type"},
	CodeTextInvalid:      {status: 422, title: "A text has characters that are not allowed"},
	CodeLengthInvalid:    {status: 422, title: "A text or a list is too short or too long"},
	CodeNumberInvalid:    {status: 422, title: "A number is out of its range"},
	CodeFormatInvalid:    {status: 422, title: "A value does not have the right form"},
	CodeAmountInvalid:    {status: 422, title: "An amount is not a decimal of its currency"},
	CodeCurrencyInvalid:  {status: 422, title: "A currency is not known"},
	CodeParameterUnknown: {status: 422, title: "A parameter is not known"},
	CodeParameterMissing: {status: 422, title: "A parameter is missing"},
	CodeParameterInvalid: {status: 422, title: "A parameter is not valid"},
	CodeTooManySKUs:      {status: 422, title: "Too many SKUs in one request"},
	CodeCursorInvalid:    {status: 422, title: "The cursor is none of this feed"},
	CodeTooManyFollowers: {status: 429, title: "Too many streams and waiting requests of the partner at once", retryAfter: retrySoon, free: true},

	CodeKeyRequired:                     {status: 422, title: "An Idempotency-Key is needed"},
	CodeKeyInvalid:                      {status: 422, title: "The Idempotency-Key is not valid"},
	eventstore.CodeIdempotencyKeyReused: {status: 422, title: "The Idempotency-Key was used for another request"},
	eventstore.CodeRequestInProgress:    {status: 409, title: "The first request with this key is still running", retryAfter: retrySoon, free: true},
	eventstore.CodeEventTooLarge:        {status: 422, title: "The request is too large to be recorded"},
	eventstore.CodeTextNotStorable:      {status: 422, title: "A text can't be recorded"},

	order.CodeNotFound:            {status: 404, title: "There is no such resource"},
	order.CodeNotCancellable:      {status: 409, title: "The order can no longer be cancelled"},
	order.CodeDuplicateReference:  {status: 409, title: "The partnerOrderRef was used before"},
	order.CodeShippedAfterCancel:  {status: 409, title: "The order was dispatched after its cancellation"},
	order.CodeUnknownSKU:          {status: 422, title: "A product does not exist"},
	order.CodeQuantityInvalid:     {status: 422, title: "A quantity is not valid"},
	order.CodePaymentTokenInvalid: {status: 422, title: "The payment token is not valid"},
	order.CodeCurrencyMismatch:    {status: 422, title: "The currency is not the partner's"},
	order.CodePriceMismatch:       {status: 422, title: "A price differs from the partner's price"},
	order.CodeNoPrice:             {status: 422, title: "A product has no price for the partner"},
	order.CodeOrderInvalid:        {status: 422, title: "The order is not valid"},
	order.CodeTotalTooLarge:       {status: 422, title: "The order's total is too large"},

	reservation.CodeInsufficientStock: {status: 409, title: "There is not enough stock"},
	sku.CodeInvalid:                   {status: 422, title: "A SKU is not valid"},
	partner.CodeInvalid:               {status: 422, title: "The partner's configuration is not valid"},
	partner.CodeUnknown:               {status: 403, title: "The partner is not set up", free: true},
	subscription.CodeInvalid:          {status: 422, title: "The subscription is not valid"},
	CodeSubscriptionLimit:             {status: 409, title: "The partner has too many subscriptions"},
	price.CodeInvalid:                 {status: 422, title: "The price is not valid"},
	source.CodeWentBack:               {status: 409, title: "The source says something else at an older version"},
	price.CodeNotPositive:             {status: 422, title: "The price is not positive"},
	product.CodeInvalid:               {status: 422, title: "The product is not valid"},
	stock.CodeInvalid:                 {status: 422, title: "The stock level is not valid"},

	CodeSignatureInvalid: {status: 401, title: "The signature is not valid"},
	CodeWebhookInvalid:   {status: 422, title: "The webhook's content is not valid"},
	CodeFeedUnknown:      {status: 404, title: "There is no such feed"},
	CodeFeedInvalid:      {status: 422, title: "The changes can't be read"},

	deadletters.CodeConsumerUnknown: {status: 404, title: "There is no such consumer"},
	deadletters.CodeLetterUnknown:   {status: 404, title: "There is no such letter"},
	deadletters.CodeTopicUnknown:    {status: 422, title: "The consumer does not read this topic"},
	deadletters.CodeFilterInvalid:   {status: 422, title: "The filter is not valid"},
	deadletters.CodeFilterMissing:   {status: 422, title: "It is not said which letters are meant"},
	deadletters.CodeReasonMissing:   {status: 422, title: "A reason is needed"},
	deadletters.CodeCursorInvalid:   {status: 422, title: "The cursor is not valid"},
	deadletters.CodePayloadInvalid:  {status: 422, title: "The payload is not valid"},
	deadletters.CodeLetterSettled:   {status: 409, title: "The letter is settled already"},
	deadletters.CodeLetterForeign:   {status: 409, title: "The letter is none of ours"},
	deadletters.CodeNotReplayable:   {status: 409, title: "The consumer takes nothing back"},
	deadletters.CodeNotRunning:      {status: 409, title: "The consumer is not running"},
	deadletters.CodeWouldLoop:       {status: 409, title: "The letter would come back"},
	deadletters.CodeUnrestorable:    {status: 409, title: "Redacted fields can't be restored"},
	deadletters.CodeNotRehearsable:  {status: 409, title: "The consumer can't be rehearsed"},

	quota.CodeInvalid:  {status: 422, title: "The limits are not valid"},
	quota.CodeChanged:  {status: 409, title: "Others changed the limits"},
	tuning.CodeUnknown: {status: 404, title: "There is no such guard"},
	tuning.CodeInvalid: {status: 422, title: "The guard's settings make no sense"},
	tuning.CodeChanged: {status: 409, title: "Others changed the same setting"},

	promo.CodeInvalid:   {status: 422, title: "The promo makes no sense"},
	promo.CodeUnknown:   {status: 422, title: "A product of the promo does not exist"},
	promo.CodeStale:     {status: 409, title: "A product of the promo is too old"},
	promo.CodeCold:      {status: 409, title: "The read model is not ready for the promo"},
	promo.CodeOn:        {status: 409, title: "Promo mode is on already"},
	promo.CodeOff:       {status: 409, title: "Promo mode is off"},
	promo.CodeNoReport:  {status: 404, title: "There is no such report"},
	promo.CodeContended: {status: 409, title: "Others switch promo mode"},

	CodeRateLimited:    {status: 429, title: "The quota is used up", retryAfter: retrySoon, free: true},
	CodeOverloaded:     {status: 503, title: "Too many requests at once", retryAfter: retrySoon, free: true},
	CodeUnavailable:    {status: 503, title: "A needed part is not available", retryAfter: retrySoon, free: true},
	CodeOutcomeUnknown: {status: 503, title: "It is not known whether the request was done", retryAfter: retrySoon, free: true},
	CodeInternal:       {status: 500, title: "Something went wrong here", free: true},
}

// problemMedia is the media type of RFC 9457.
const problemMedia = "application/problem+json"

// docsPath is where the codes are explained; a problem's type points there.
const docsPath = "/docs"

// maxProblems bounds errors[] in one answer.
const maxProblems = 100

// problemBody is a problem document. Extra members of a refusal follow its own.
type problemBody struct {
	_             struct{}             `additionalProperties:"true"`
	Type          string               `json:"type" example:"/docs#INSUFFICIENT_STOCK" doc:"Where the code is explained"`
	Title         string               `json:"title" example:"There is not enough stock"`
	Status        int                  `json:"status" example:"409"`
	Code          eventstore.Code      `json:"code" example:"INSUFFICIENT_STOCK" doc:"Stable, for programs"`
	Detail        string               `json:"detail,omitempty" doc:"For people; its words may change"`
	CorrelationID string               `json:"correlationId" example:"0190b0a0-5c1d-7000-8000-1f2e3d4c5b6a" doc:"Names the request in the logs"`
	Errors        []eventstore.Problem `json:"errors,omitempty" doc:"What is wrong, and where: a JSON pointer into the body, or a parameter's name after #"`
	Extra         map[string]any       `json:",embed" hidden:"true"`
}

// refused gives the refusal that stands for any error: a business refusal itself, or a generic text.
func refused(err error) *eventstore.Refusal {
	if refusal, ok := errors.AsType[*eventstore.Refusal](err); ok {
		if _, known := meanings[refusal.Code]; known {
			return refusal
		}
	}
	switch {
	case errors.Is(err, eventstore.ErrOutcomeUnknown):
		return eventstore.Refuse(CodeOutcomeUnknown, "repeat the same request, with the same Idempotency-Key if it had one, to find out")
	case errors.Is(err, eventstore.ErrOverloaded):
		return eventstore.Refuse(CodeOverloaded, "nothing was done; repeat the request")
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrChanged),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return eventstore.Refuse(CodeUnavailable, "nothing was done; repeat the request")
	}
	return eventstore.Refuse(CodeInternal, "the fault is logged under the correlationId")
}

// renderProblem gives the status and the body of a refusal.
func renderProblem(refusal *eventstore.Refusal, correlation string) (int, []byte) {
	means := meanings[refusal.Code]
	body := problemBody{
		Type: docsPath + "#" + string(refusal.Code), Title: means.title, Status: means.status, Code: refusal.Code,
		Detail: refusal.Detail, CorrelationID: correlation,
		Errors: refusal.Problems[:min(len(refusal.Problems), maxProblems)], Extra: refusal.Extra,
	}
	data, err := json.Marshal(body, json.Deterministic(true), jsontext.EscapeForHTML(false))
	if err != nil {
		body.Extra = nil // an extra member that can't be written, or has the name of another
		data, _ = json.Marshal(body)
	}
	return means.status, data
}

// seconds gives a duration for Retry-After: whole seconds, rounded up, never 0.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// invalid makes one refusal of all problems. Its code is the problems' own when they agree, its detail that of a single one.
func invalid(problems []eventstore.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	code := problems[0].Code
	if slices.ContainsFunc(problems, func(p eventstore.Problem) bool { return p.Code != code }) {
		code = CodeValidation
	}
	detail := fmt.Sprintf("%d faults: see errors", len(problems))
	if len(problems) == 1 {
		detail = problems[0].Pointer + ": " + problems[0].Detail
	}
	return &eventstore.Refusal{Code: code, Detail: detail, Problems: problems}
}
