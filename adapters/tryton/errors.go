package tryton

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Names of the errors that Tryton's own code raises. They come with status 200.
const (
	userError            = "UserError"
	userWarning          = "UserWarning"
	loginException       = "LoginException"
	concurrencyException = "ConcurrencyException"
)

// Refusal is Tryton's word that it won't do what it is asked, because of what it was asked.
type Refusal struct {
	Name    string // UserError or UserWarning
	Message string
}

func (r *Refusal) Error() string { return fmt.Sprintf("tryton: %s: %.200s", r.Name, r.Message) }

// ErrConflict says that another transaction changed the record in the meantime. It passes.
var ErrConflict = errors.New("tryton: another transaction changed the record")

// ErrFailed says that the server failed by itself. It may pass.
var ErrFailed = errors.New("tryton: the server failed")

// refusal reads the member error of an answer: a name and what belongs to it, or a text alone when the
// server failed in a way that nobody foresaw.
func refusal(raw json.RawMessage) error {
	var parts []json.RawMessage
	var name string
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 || json.Unmarshal(parts[0], &name) != nil {
		return fmt.Errorf("%w: the error can't be read", ErrFailed)
	}
	switch name {
	case userError, userWarning:
		return &Refusal{Name: name, Message: message(name, parts)}
	case concurrencyException:
		return ErrConflict
	case loginException:
		return ErrAccess
	}
	return fmt.Errorf("%w: %.200s", ErrFailed, name)
}

// message is (message, description, domain) of a UserError, (name, message, description) of a UserWarning.
func message(name string, parts []json.RawMessage) string {
	var texts []json.RawMessage
	var text string
	at := 0
	if name == userWarning {
		at = 1
	}
	if len(parts) < 2 || json.Unmarshal(parts[1], &texts) != nil || len(texts) <= at || json.Unmarshal(texts[at], &text) != nil {
		return "without a text"
	}
	return text
}

var errNoCompany = errors.New("tryton: the user has no company")
