package tryton_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"andes/adapters/guard"
	"andes/adapters/tryton"
)

func TestASessionThatEndedIsOpenedAnew(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products)
	b.tryton.SQL(`DELETE FROM ir_session`)
	b.poll(b.erp.Products)
	var sessions int
	conn := b.tryton.Connect()
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM ir_session`).Scan(&sessions); err != nil || sessions != 1 {
		t.Errorf("%d sessions, %v", sessions, err)
	}
}

func TestALoginThatIsRefusedIsNotHammered(t *testing.T) {
	b := open(t)
	b.client = b.clientOf("zz-wrong-password")
	b.openERP()
	began := time.Now()
	b.now = began
	for i := range 5 {
		_, err := b.erp.Products.Poll(t.Context())
		if !errors.Is(err, tryton.ErrAccess) || strings.Contains(err.Error(), "zz-wrong") {
			t.Fatalf("poll %d: %v", i, err)
		}
	}
	if n := b.attempts(); n != 1 {
		t.Errorf("%d logins", n)
	}
	b.now = began.Add(2 * time.Minute)
	_, err := b.erp.Products.Poll(t.Context())
	if n := b.attempts(); n != 2 || !errors.Is(err, tryton.ErrAccess) {
		t.Errorf("%d logins after a while, %v", n, err)
	}
}

// attempts are the logins that Tryton refused.
func (b *bench) attempts() int {
	b.T.Helper()
	conn := b.tryton.Connect()
	defer func() { _ = conn.Close(b.T.Context()) }()
	var n int
	if err := conn.QueryRow(b.T.Context(), `SELECT count(*) FROM res_user_login_attempt`).Scan(&n); err != nil {
		b.T.Fatal(err)
	}
	return n
}

func TestAServerThatFailsIsBlamedAndOneThatRefusesIsNot(t *testing.T) {
	b := open(t)
	b.poll(b.wms.Stock)
	b.tryton.SQL(`ALTER TABLE stock_move RENAME TO stock_move_away`)
	_, err := b.wms.Stock.Poll(t.Context())
	if fault, is := errors.AsType[*guard.Fault](err); !is || fault.Status != http.StatusInternalServerError {
		t.Errorf("a server whose table is away: %v", err)
	}
	b.tryton.SQL(`ALTER TABLE stock_move_away RENAME TO stock_move`)
	b.poll(b.wms.Stock)
}

// answering is a transport with one answer.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(a))),
	}, nil
}

func TestOnlyErrorsThatNobodyForesawAreFailures(t *testing.T) {
	for answer, want := range map[string]int{
		`{"id":1,"result":["UserError"]}`:                               http.StatusOK,
		`{"id":1,"error":["UserError",["no","",null]]}`:                 http.StatusOK,
		`{"id":1,"error":["UserWarning",["n","no",""]]}`:                http.StatusOK,
		`{"id":1,"error":["ConcurrencyException","no"]}`:                http.StatusOK,
		`{"id":1,"error":["could not connect to server: \"x\"",""]}`:    http.StatusInternalServerError,
		`{"id":1,"error":["` + strings.Repeat("long ", 1000) + `",""]}`: http.StatusInternalServerError,
		`{"id":12345, "error": ["UserErrors",""]}`:                      http.StatusInternalServerError,
		`{"id":1,"error":["",""]}`:                                      http.StatusInternalServerError,
		`{"id":1,"result":{"text":"\"error\":[\"x\""}}`:                 http.StatusOK,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://tryton/x/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := tryton.Transport{Base: answering(answer)}.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(response.Body)
		if err != nil || string(whole) != answer || response.StatusCode != want {
			t.Errorf("%.60s: status %d, %d bytes, %v", answer, response.StatusCode, len(whole), err)
		}
	}
}

func TestASecretIsInNoError(t *testing.T) {
	_, err := tryton.New(tryton.Config{URL: "http://user:zz-secret@host:1", Database: "d", User: "u", Password: "zz-secret"})
	if err == nil || strings.Contains(err.Error(), "zz-secret") {
		t.Errorf("%v", err)
	}
	_, err = tryton.New(tryton.Config{URL: "http://zz-secret@host:1 %", Password: "zz-secret"})
	if err == nil || strings.Contains(err.Error(), "zz-secret") {
		t.Errorf("%v", err)
	}
}
