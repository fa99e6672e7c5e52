package httpapi

import (
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"andes/commands/money"
)

// Answers of the endpoints that are asked thousands of times a second are appended to a pooled buffer
// by hand. A test holds them to the schemas of the API document.
//
// They are stable byte for byte: members come in the order of the document, without white space, numbers and
// times in one form, texts with the fewest escapes that JSON allows; items in the order asked. The same values
// are the same bytes, from every instance.

// page is an answer that is being written.
type page struct {
	b []byte

	// meaning hashes what the answer says, for its entity tag; hashed is up to where.
	meaning xxhash.Digest
	hashed  int

	asOf  time.Time // the oldest of the items
	fresh time.Time // the oldest of those that are not stale

	// The last time that was written: that of the source's last sync is that of most items.
	at   time.Time
	text []byte // empty: none yet
}

// maxPooled bounds the buffers that are kept.
const maxPooled = 256 << 10

var pages = sync.Pool{New: func() any { return &page{b: make([]byte, 0, 4<<10)} }}

// raw answers 200 with what write appends.
func (c *call) raw(write func(p *page)) {
	p := newPage()
	write(p)
	p.mean()
	answer := entity{body: p.b, tag: p.tag(), asOf: p.asOf}
	c.caught(answer, p.fresh)
	c.recollect(answer, p.fresh)
	c.give(answer)
	p.keep()
}

func newPage() *page {
	p := pages.Get().(*page)
	p.clear()
	return p
}

func (p *page) clear() {
	p.b, p.hashed, p.asOf, p.fresh, p.text = p.b[:0], 0, time.Time{}, time.Time{}, p.text[:0]
	p.meaning.Reset()
}

// keep gives the page back to those who write the next.
func (p *page) keep() {
	if cap(p.b) <= maxPooled {
		pages.Put(p)
	}
}

// mean has what was written since the last mean or pass count for the entity tag; pass leaves it out.
func (p *page) mean() {
	_, _ = p.meaning.Write(p.b[p.hashed:])
	p.hashed = len(p.b)
}

func (p *page) pass() { p.hashed = len(p.b) }

// tag is the entity tag of what was written, whichever instance writes it.
func (p *page) tag() string {
	kind := ""
	if !p.asOf.IsZero() {
		kind = "W/" // the same may be said by other bytes
	}
	return entityTag(kind, p.meaning.Sum64())
}

func (p *page) literal(text string) { p.b = append(p.b, text...) }

func (p *page) number(n int64) { p.b = strconv.AppendInt(p.b, n, 10) }

// quoted writes a text. Invalid UTF-8 would be replaced; there is none here.
func (p *page) quoted(text string) {
	if plain(text) {
		p.b = append(append(append(p.b, '"'), text...), '"')
		return
	}
	p.b, _ = jsontext.AppendQuote(p.b, text)
}

// plain tells whether a text needs no escapes.
func plain(text string) bool {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b >= 0x7f || b == '"' || b == '\\' {
			return false
		}
	}
	return true
}

func (p *page) list(name string, texts []string) {
	p.literal(`,"` + name + `":[`)
	for i, text := range texts {
		if i > 0 {
			p.b = append(p.b, ',')
		}
		p.quoted(text)
	}
	p.b = append(p.b, ']')
}

func (p *page) time(at time.Time) {
	if len(p.text) == 0 || !at.Equal(p.at) {
		p.at, p.text = at, appendStamp(p.text[:0], at)
	}
	p.b = append(append(append(p.b, '"'), p.text...), '"')
}

// appendStamp is AppendFormat with stampFormat, for the years that have four digits.
func appendStamp(b []byte, at time.Time) []byte {
	at = at.UTC()
	year, month, day := at.Date()
	if year < 0 || year > 9999 {
		return at.AppendFormat(b, stampFormat)
	}
	hour, minute, second := at.Clock()
	b = digits(b, year, 4)
	b = append(digits(append(b, '-'), int(month), 2), '-')
	b = append(digits(b, day, 2), 'T')
	b = append(digits(b, hour, 2), ':')
	b = append(digits(b, minute, 2), ':')
	b = append(digits(b, second, 2), '.')
	return append(digits(b, at.Nanosecond()/int(time.Millisecond), 3), 'Z')
}

func digits(b []byte, n, width int) []byte {
	for range width {
		b = append(b, '0')
	}
	for i := len(b) - 1; n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// money needs no escapes: an amount is digits and a currency is letters.
func (p *page) money(m money.Money) {
	p.literal(`{"amount":"`)
	p.b = m.AppendAmount(p.b)
	p.literal(`","currency":"`)
	p.literal(m.Currency)
	p.literal(`"}`)
}

func (p *page) freshness(asOf time.Time, stale bool) {
	if p.asOf.IsZero() || asOf.Before(p.asOf) {
		p.asOf = asOf
	}
	if !stale && (p.fresh.IsZero() || asOf.Before(p.fresh)) {
		p.fresh = asOf
	}
	p.literal(`,"asOf":`)
	p.mean()
	p.time(asOf)
	p.pass()
	if stale {
		p.literal(`,"stale":true}`)
	} else {
		p.literal(`,"stale":false}`)
	}
}
