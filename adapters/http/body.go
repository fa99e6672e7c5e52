package httpapi

import (
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"andes/eventstore"
)

// document is a request's body: JSON for certain, nothing more is known of it.
type document struct {
	sent      []byte
	canonical []byte // RFC 8785
}

// readBytes reads the whole body, up to the limit.
func (c *call) readBytes(limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.inner, c.request.Body, limit))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, eventstore.Refuse(CodeBodyTooLarge, "at most %d bytes are allowed", limit)
	}
	if err != nil {
		return nil, eventstore.Refuse(CodeBodyUnreadable, "the body ended before its end")
	}
	return body, nil
}

// readDocument reads the body as JSON.
func (c *call) readDocument() (document, error) {
	if err := checkMedia(c.request.Header); err != nil {
		return document{}, err
	}
	sent, err := c.readBytes(c.api.Limits.Body)
	if err != nil {
		return document{}, err
	}
	if nestedTooDeep(sent) {
		return document{}, eventstore.Refuse(CodeJSONMalformed, "the body is nested more than %d deep", maxNesting)
	}
	canonical := jsontext.Value(sent).Clone()
	if err := canonical.Canonicalize(); err != nil {
		return document{}, syntaxProblem(err)
	}
	return document{sent: sent, canonical: canonical}, nil
}

// maxNesting is more than any body needs. To sort the members of an object costs time for all that is in
// it, so a body that is nested thousands deep would cost its size squared.
const maxNesting = 32

// nestedTooDeep counts brackets; whether the text is JSON is another question.
func nestedTooDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > maxNesting {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

func checkMedia(header http.Header) error {
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return eventstore.Refuse(CodeMediaType, "a compressed body is not accepted")
	}
	media, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return eventstore.Refuse(CodeMediaType, "Content-Type has to be application/json")
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return eventstore.Refuse(CodeMediaType, "JSON is UTF-8")
	}
	return nil
}

// syntaxProblem says where the JSON is broken, without repeating any of it but the names around it.
func syntaxProblem(err error) error {
	code, detail := CodeJSONMalformed, "the text is not JSON from here on"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		code, detail = CodeDuplicateMember, "the member is there twice"
	}
	pointer := ""
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok && len(syntactic.JSONPointer) <= maxNamed && plainText(string(syntactic.JSONPointer)) {
		pointer = string(syntactic.JSONPointer)
	}
	return &eventstore.Refusal{
		Code: code, Detail: "the body can't be read as JSON",
		Problems: []eventstore.Problem{{Pointer: pointer, Code: code, Detail: detail}},
	}
}

// fingerprint identifies the request: its route and its canonical body.
func (d document) fingerprint(route string) [32]byte {
	hash := sha256.New()
	_, _ = io.WriteString(hash, route+"\n")
	_, _ = hash.Write(d.canonical)
	return [32]byte(hash.Sum(nil))
}

// decode checks the document against the schema that the endpoint shows and reads it. The numbers in
// the canonical form are whole where the schema wants that, however they were written.
func decode[B any](c *call, doc document) (B, error) {
	var body B
	if declared := c.endpoint.body; declared != reflect.TypeFor[B]() {
		panic("the endpoint " + c.endpoint.pattern() + " shows another body than it reads")
	}
	if problems := c.api.shapes.check(c.endpoint.body, doc.sent); len(problems) > 0 {
		return body, invalid(problems)
	}
	if err := json.Unmarshal(doc.canonical, &body, json.RejectUnknownMembers(true)); err != nil {
		pointer := ""
		if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
			pointer = string(semantic.JSONPointer)
		}
		return body, invalid([]eventstore.Problem{{Pointer: pointer, Code: CodeFormatInvalid, Detail: "the value can't be read"}})
	}
	return body, nil
}

// readBody reads and decodes in one go, for endpoints without an idempotency key.
func readBody[B any](c *call) (B, error) {
	doc, err := c.readDocument()
	if err != nil {
		var none B
		return none, err
	}
	return decode[B](c, doc)
}
