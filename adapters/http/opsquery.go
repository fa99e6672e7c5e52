package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"andes/deadletters"
	"andes/eventstore"
)

// Bounds of what operators send.
const (
	maxOpsText = 512
	maxOpsPage = 500
)

// shortText is the schema of a text in a query.
func shortText() *huma.Schema {
	most := maxOpsText
	return &huma.Schema{Type: huma.TypeString, MaxLength: &most}
}

func letterParameters() []*huma.Param {
	flag := func(name, description string) *huma.Param {
		return queryParameter(name, description, false, &huma.Schema{Type: huma.TypeBoolean})
	}
	classes := make([]any, len(deadletters.Classes))
	for i, class := range deadletters.Classes {
		classes[i] = class
	}
	moment := &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	return []*huma.Param{
		queryParameter("topic", "That they were read from first", false, shortText()),
		queryParameter("class", "Of the error", false, &huma.Schema{Type: huma.TypeString, Enum: classes}),
		queryParameter("partner", "Whose order they are about, or who caused them", false, shortText()),
		queryParameter("key", "Of the records", false, shortText()),
		queryParameter("type", "Of the event", false, shortText()),
		queryParameter("error", "A part of the error's text", false, shortText()),
		queryParameter("header", "name=value; several are all needed", false, &huma.Schema{Type: huma.TypeArray, Items: shortText()}),
		queryParameter("since", "Parked then or later", false, moment),
		queryParameter("until", "Parked before", false, moment),
		flag("all", "Also those that are settled"),
		flag("payload", "With their payloads, masked"),
		queryParameter("limit", "1 to "+strconv.Itoa(maxOpsPage), false, &huma.Schema{Type: huma.TypeInteger}),
		queryParameter("cursor", "Of the page before", false, shortText()),
	}
}

func auditParameters() []*huma.Param {
	return []*huma.Param{
		queryParameter("before", "Only entries older than the one with this id", false, &huma.Schema{Type: huma.TypeInteger}),
		queryParameter("limit", "1 to "+strconv.Itoa(maxOpsPage), false, &huma.Schema{Type: huma.TypeInteger}),
		queryParameter("subject", "The consumer", false, shortText()),
		queryParameter("actor", "Who did it", false, shortText()),
		queryParameter("action", "What was done, as dlq.replay", false, shortText()),
		queryParameter("run", "Of which run", false, shortText()),
	}
}

// single reads a query string in which every parameter is there at most once, but for header.
func (c *call) single(names ...string) (url.Values, error) {
	values, err := c.query(names...)
	if err != nil {
		return nil, err
	}
	for name, texts := range values {
		if len(texts) > 1 && name != "header" {
			return nil, parameterProblem(CodeParameterInvalid, name, "the parameter is there twice")
		}
		for _, text := range texts {
			if text == "" || len(text) > maxOpsText {
				return nil, parameterProblem(CodeParameterInvalid, name, "1 to "+strconv.Itoa(maxOpsText)+" bytes are expected")
			}
		}
	}
	return values, nil
}

func (c *call) answerLetters() error {
	values, err := c.single("topic", "class", "partner", "key", "type", "error", "header", "since", "until", "all", "payload", "limit", "cursor")
	if err != nil {
		return err
	}
	query := deadletters.Query{
		Consumer: c.request.PathValue("consumer"), Cursor: values.Get("cursor"),
		Filter: deadletters.Filter{
			Topic: values.Get("topic"), Class: values.Get("class"), Partner: values.Get("partner"), Key: values.Get("key"),
			Type: values.Get("type"), Error: values.Get("error"),
		},
	}
	for name, field := range map[string]*time.Time{"since": &query.Filter.Since, "until": &query.Filter.Until} {
		if text := values.Get(name); text != "" {
			if *field, err = time.Parse(time.RFC3339, text); err != nil {
				return parameterProblem(CodeParameterInvalid, name, "an RFC 3339 time with its offset is expected, percent-encoded")
			}
		}
	}
	for name, field := range map[string]*bool{"all": &query.All, "payload": &query.Payload} {
		if text := values.Get(name); text != "" {
			if *field, err = strconv.ParseBool(text); err != nil {
				return parameterProblem(CodeParameterInvalid, name, "true or false is expected")
			}
		}
	}
	if text := values.Get("limit"); text != "" {
		if query.Limit, err = strconv.Atoi(text); err != nil || query.Limit < 1 || query.Limit > maxOpsPage {
			return parameterProblem(CodeParameterInvalid, "limit", "a whole number from 1 to "+strconv.Itoa(maxOpsPage)+" is expected")
		}
	}
	for _, text := range values["header"] {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return parameterProblem(CodeParameterInvalid, "header", "name=value is expected")
		}
		query.Filter.Headers = append(query.Filter.Headers, deadletters.Header{Name: name, Value: value})
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	page, err := c.api.DeadLetters.List(ctx, query)
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, page)
}

// runBody asks for a step of a run.
type runBody struct {
	Action string       `json:"action" enum:"replayed,discarded,edited" doc:"What becomes of the letters; edited goes on with the run of an edit"`
	Filter filterBody   `json:"filter,omitzero"`
	All    bool         `json:"all,omitzero" doc:"An empty filter is meant"`
	Limit  letterNumber `json:"limit,omitzero" doc:"Letters; 0: all. Those behind them go along and do not count"`
	Rate   letterNumber `json:"rate,omitzero" doc:"Letters a second; 0: as fast as it goes"`
	Force  bool         `json:"force,omitzero" doc:"Also what is likely to come back, and to a consumer that is not running"`
	Reason string       `json:"reason,omitempty" minLength:"1" maxLength:"1000" doc:"For the audit log; needed to discard"`
	Cursor string       `json:"cursor,omitempty" minLength:"1" maxLength:"16384" doc:"Of the answer before; without one a run begins"`
}

// rehearsalBody asks what a replay would do.
type rehearsalBody struct {
	Filter filterBody   `json:"filter,omitzero"`
	All    bool         `json:"all,omitzero" doc:"An empty filter is meant"`
	Limit  letterNumber `json:"limit,omitzero" doc:"Letters that are tried: at most 200"`
	Force  bool         `json:"force,omitzero"`
}

// editBody replaces a letter's payload.
type editBody struct {
	Payload string `json:"payload" minLength:"2" maxLength:"921600" pattern:"^\\s*\\{" patternDescription:"a JSON object, as a text that begins with {" example:"{\"onHand\":3}" doc:"The event's JSON, as a text"`
	Force   bool   `json:"force,omitzero"`
	Reason  string `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

// filterBody selects letters.
type filterBody struct {
	Topic   string       `json:"topic,omitempty" minLength:"1" maxLength:"512" doc:"That they were read from first"`
	Class   string       `json:"class,omitempty" enum:"permanent,transient,undecodable,behind" doc:"Of the error"`
	Partner string       `json:"partner,omitempty" minLength:"1" maxLength:"512" doc:"Whose order they are about, or who caused them"`
	Key     string       `json:"key,omitempty" minLength:"1" maxLength:"512"`
	Type    string       `json:"type,omitempty" minLength:"1" maxLength:"512" doc:"Of the event"`
	Error   string       `json:"error,omitempty" minLength:"1" maxLength:"512" doc:"A part of the error's text"`
	Headers []headerBody `json:"headers,omitempty" maxItems:"20" doc:"All of them"`
	Since   time.Time    `json:"since,omitzero" doc:"Parked then or later"`
	Until   time.Time    `json:"until,omitzero" doc:"Parked before"`
	Letters []string     `json:"letters,omitempty" maxItems:"500" doc:"These only: consumer/partition/offset"`
}

type headerBody struct {
	Name  string `json:"name" minLength:"1" maxLength:"512"`
	Value string `json:"value" maxLength:"512"`
}

// letterNumber is how many letters.
type letterNumber int64

// Schema implements huma.SchemaProvider.
func (letterNumber) Schema(huma.Registry) *huma.Schema {
	return bounded(huma.Schema{Type: huma.TypeInteger, Format: "int64"}, "", 0, 1_000_000)
}

func (f filterBody) filter() (deadletters.Filter, error) {
	filter := deadletters.Filter{
		Topic: f.Topic, Class: f.Class, Partner: f.Partner, Key: f.Key, Type: f.Type, Error: f.Error, Since: f.Since, Until: f.Until,
	}
	for _, header := range f.Headers {
		filter.Headers = append(filter.Headers, deadletters.Header(header))
	}
	for i, text := range f.Letters {
		ref, err := deadletters.ParseRef(text)
		if err != nil {
			return filter, invalid([]eventstore.Problem{{Pointer: "/filter/letters/" + strconv.Itoa(i), Code: CodeFormatInvalid, Detail: "consumer/partition/offset is expected"}})
		}
		filter.Letters = append(filter.Letters, ref)
	}
	return filter, nil
}
