package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Answers to GETs of the catalogue carry an entity tag (RFC 9110, 8.8.3), and a request that names it in
// If-None-Match is answered 304 without a body.
//
// The tag stands for all that an answer says but asOf, which moves with every sync of a source whether anything
// changed or not: with it nobody would ever hear that nothing changed. stale counts. As answers that differ in asOf
// alone have one tag, the tags of stock and prices are weak ones; a 304 tells in As-Of what the body would, the oldest
// asOf of its items. A product's tag is strong.

// entity is an answer to a GET of the catalogue.
type entity struct {
	body []byte
	tag  string
	asOf time.Time // zero: the body has none
}

const (
	etagHeader        = "ETag"
	asOfHeader        = "As-Of"
	ifNoneMatchHeader = "If-None-Match"
)

const (
	conditionalDescription = "The same values are the same bytes, from every instance: members in the order shown, no white space, no escapes that JSON does not " +
		"demand, items in the order asked. Whoever sends the ETag of the last answer in If-None-Match is told 304 if nothing has changed."
	weakDescription = " The ETag stands for everything but asOf, which moves with every sync of the source; a 304 tells the oldest asOf of the items in As-Of."
)

// ifNoneMatch is a parameter of endpoints that answer 304.
var ifNoneMatch = &huma.Param{
	Name: ifNoneMatchHeader, In: "header", Description: "ETags of answers that the caller has, or *", Schema: &huma.Schema{Type: huma.TypeString},
}

// conditional adds the entity tag to the answers of a GET, and the answer that they have not changed.
func conditional(good []answer, headers ...string) []answer {
	tagged := make([]answer, len(good), len(good)+1)
	for i, each := range good {
		each.headers = append(slices.Clone(each.headers), etagHeader)
		tagged[i] = each
	}
	return append(tagged, answer{
		status: http.StatusNotModified, description: "What the caller has says the same", headers: append([]string{etagHeader}, headers...),
	})
}

// The same and others, as http.Header has them.
var (
	etagKey         = http.CanonicalHeaderKey(etagHeader)
	cacheControlKey = http.CanonicalHeaderKey("Cache-Control")
	ifNoneMatchKey  = http.CanonicalHeaderKey(ifNoneMatchHeader)
)

// revalidate lets the partner keep an answer, and nobody else, and has it ask again before it uses it.
var revalidate = []string{"private, no-cache"}[:1:1]

// give answers 200, or 304 to a caller that has an answer that says the same.
func (c *call) give(e entity) {
	if method := c.request.Method; method != http.MethodGet && method != http.MethodHead {
		c.send(http.StatusOK, jsonMedia, e.body)
		return
	}
	c.field(etagKey, e.tag)
	header := c.Header()
	header[cacheControlKey] = revalidate
	if !matchesTag(c.request.Header[ifNoneMatchKey], e.tag) {
		c.send(http.StatusOK, jsonMedia, e.body)
		return
	}
	if !e.asOf.IsZero() {
		header.Set(asOfHeader, string(appendStamp(nil, e.asOf)))
	}
	c.send(http.StatusNotModified, "", nil)
}

// entityTag writes a tag; kind is "W/" for a weak one.
func entityTag(kind string, sum uint64) string {
	tag := make([]byte, 0, len(`W/"0123456789abcdef"`))
	tag = append(append(tag, kind...), '"')
	for shift := 60; shift >= 0; shift -= 4 {
		tag = append(tag, "0123456789abcdef"[sum>>shift&0xf])
	}
	return string(append(tag, '"'))
}

// matchesTag compares weakly, as If-None-Match has it (RFC 9110, 13.1.2). What is no list of tags matches nothing.
func matchesTag(fields []string, tag string) bool {
	opaque := strings.TrimPrefix(tag, "W/")
	for _, field := range fields {
		rest := strings.Trim(field, " \t")
		if rest == "*" {
			return true
		}
		for rest != "" {
			rest = strings.TrimPrefix(strings.TrimLeft(rest, ", \t"), "W/")
			if !strings.HasPrefix(rest, `"`) {
				break
			}
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				break
			}
			if rest[:end+2] == opaque {
				return true
			}
			rest = rest[end+2:]
		}
	}
	return false
}
