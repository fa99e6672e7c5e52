package httpapi

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"andes/commands/money"
)

// Answers of the endpoints that are asked thousands of times a second are appended to a pooled buffer
// by hand. A test holds them to the schemas of the API document.

// maxPooled bounds the buffers that are kept.
const maxPooled = 256 << 10

var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 4<<10)) }}

// raw answers 200 with what write appends.
func (c *call) raw(write func(b []byte) []byte) {
	buffer := buffers.Get().(*[]byte)
	*buffer = write((*buffer)[:0])
	c.send(http.StatusOK, "application/json", *buffer)
	if cap(*buffer) <= maxPooled {
		buffers.Put(buffer)
	}
}

func appendText(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // invalid UTF-8 would be replaced; there is none here
	return b
}

func appendTexts(b []byte, name string, texts []string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":[`...)
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, text)
	}
	return append(b, ']')
}

func appendTime(b []byte, at time.Time) []byte {
	b = append(b, '"')
	b = at.UTC().AppendFormat(b, stampFormat)
	return append(b, '"')
}

// appendMoney needs no escapes: an amount is digits and a currency is letters.
func appendMoney(b []byte, m money.Money) []byte {
	b = append(b, `{"amount":"`...)
	b = append(b, m.Amount()...)
	b = append(b, `","currency":"`...)
	b = append(b, m.Currency...)
	return append(b, `"}`...)
}

func appendFreshness(b []byte, asOf time.Time, stale bool) []byte {
	b = append(b, `,"asOf":`...)
	b = appendTime(b, asOf)
	if stale {
		return append(b, `,"stale":true}`...)
	}
	return append(b, `,"stale":false}`...)
}
