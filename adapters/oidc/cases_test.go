package oidc

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
)

func (b *bench) fetched() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fetches
}

// unsigned is a token of a key that nobody has.
func unsigned(kid string) string {
	head, _ := json.Marshal(map[string]string{"alg": "ES256", "kid": kid})
	return base64.RawURLEncoding.EncodeToString(head) + ".e30.c2ln"
}

// AUTH-01: 2,000 random key ids in 20 s; the key is rotated in the middle.
func TestAFloodNeitherDrivesTrafficNorHidesARotation(t *testing.T) {
	const tokens, cooldown = 2000, 10 * time.Second
	b := newBench(t)
	b.accepts(b.token("k1", nil))
	rotated, accepted := time.Time{}, time.Time{}
	for i := range tokens {
		if b.pass(10 * time.Millisecond); i == tokens/4 {
			b.rotate("k2")
			rotated = b.clock()
		}
		b.refuses(unsigned(fmt.Sprint("random-", i)), ErrKey)
		if rotated.IsZero() {
			b.accepts(b.token("k1", map[string]any{"sub": fmt.Sprint(i)}))
			continue
		}
		_, err := b.verifier.Verify(t.Context(), b.token("k2", map[string]any{"sub": fmt.Sprint(i)}))
		if err == nil && accepted.IsZero() {
			accepted = b.clock()
		}
		if err != nil && !accepted.IsZero() {
			t.Fatalf("token %d of the new key was refused after it had been accepted: %v", i, err)
		}
	}
	if accepted.IsZero() || accepted.Sub(rotated) > cooldown {
		t.Errorf("the new key was accepted %s after the rotation", accepted.Sub(rotated))
	}
	if got := b.fetched(); got > 3 { // the first, and one in each cooldown of 20 s
		t.Errorf("%d fetches", got)
	}
}

// AUTH-01: the endpoint answers 500, or {}, for longer than keys are kept, while unknown keys are asked for.
func TestAFloodDuringAnOutageKeepsTheKeys(t *testing.T) {
	for name, turn := range map[string]func(*bench){
		"down":  func(b *bench) { b.health(errors.New("500"), nil) },
		"empty": func(b *bench) { b.health(nil, jwk.NewSet()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.accepts(b.token("k1", nil))
			before := b.fetched()
			turn(b)
			for i := range 1200 { // 20 min
				b.pass(time.Second)
				b.refuses(unsigned(fmt.Sprint("random-", i)), ErrKey)
				b.accepts(b.token("k1", map[string]any{"sub": fmt.Sprint(i)}))
			}
			if got := b.fetched() - before; got > 121 {
				t.Errorf("%d fetches in 20 min", got)
			}
		})
	}
}

// AUTH-01: an endpoint that is slow for long costs the first tokens their patience, and no later ones: it is
// known by then.
func TestASlowIssuerDoesNotDelayKnownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var slow atomic.Bool
		verifier, err := NewVerifier(Config{
			Issuer: "https://issuer.test", Audience: "andes", Alg: "ES256", Now: time.Now,
			Keys: func(ctx context.Context) (jwk.Set, error) {
				if slow.Load() {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return b.fetch(ctx)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		endless := map[string]any{"iat": nil, "nbf": nil, "exp": time.Now().Unix() + 1<<34}
		delay := func(token string, want error) time.Duration {
			t.Helper()
			began := time.Now()
			if _, err := verifier.Verify(t.Context(), token); !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
			return time.Since(began)
		}
		delay(b.token("k1", endless), nil)
		slow.Store(true)
		time.Sleep(11 * time.Minute) // virtual
		if got := delay(b.token("k1", endless), nil); got > time.Second {
			t.Errorf("the first token waited %s", got)
		}
		time.Sleep(5 * time.Second) // the fetch has failed
		for i := range 60 {
			time.Sleep(time.Second)
			endless["sub"] = fmt.Sprint(i)
			if got := delay(b.token("k1", endless), nil); got > 0 {
				t.Errorf("token %d waited %s for an issuer that is known to be ill", i, got)
			}
			if got := delay(unsigned(fmt.Sprint("random-", i)), ErrKey); got > time.Second {
				t.Errorf("an unknown key waited %s", got)
			}
		}
		slow.Store(false)
		time.Sleep(time.Minute)
		delay(b.token("k1", endless), nil)
		synctest.Wait()
	})
}

// AUTH-02: the old key is refused CacheFor after its removal, also for a token that was remembered just
// before the key set became too old.
func TestARememberedTokenDoesNotOutliveItsKey(t *testing.T) {
	b := newBench(t)
	b.accepts(b.token("k1", nil))
	b.pass(time.Second)
	token := b.token("k1", map[string]any{"sub": "late"})
	b.rotate("k2") // k1 is removed at once
	b.pass(9*time.Minute + 58*time.Second)
	b.accepts(token)
	b.pass(2 * time.Second)
	b.refuses(token, ErrKey)
}

// AUTH-02: two issuers that use the same key id.
func TestKeyIDsBelongToTheirIssuer(t *testing.T) {
	one, other := newBench(t), newBench(t)
	one.accepts(one.token("k1", nil))
	other.accepts(other.token("k1", nil))
	one.refuses(other.token("k1", nil), ErrSignature)
	other.refuses(one.token("k1", nil), ErrSignature)
	other.verifier.config.Issuer = "https://other.test"
	other.refuses(other.token("k1", map[string]any{"sub": "x"}), ErrClaims)
}

// AUTH-03: the very edges of the leeway.
func TestTheLeewayEndsWhereItSays(t *testing.T) {
	b := newBench(t)
	now := b.clock().Unix()
	for name, changes := range map[string]map[string]any{
		"expired 29 s ago": {"exp": now - 29},
		"valid in 30 s":    {"nbf": now + 30},
		"issued in 30 s":   {"iat": now + 30},
	} {
		t.Run(name, func(t *testing.T) { b.accepts(b.token("k1", changes)) })
	}
	for name, changes := range map[string]map[string]any{
		"expired 30 s ago":          {"exp": now - 30},
		"valid in 31 s":             {"nbf": now + 31},
		"issued in 31 s":            {"iat": now + 31},
		"start as text":             {"nbf": fmt.Sprint(now)},
		"issue as text":             {"iat": fmt.Sprint(now)},
		"list without us":           {"aud": []string{"a", "b"}},
		"empty list":                {"aud": []string{}},
		"audience as a number":      {"aud": 1},
		"issuer in capitals":        {"iss": "HTTPS://issuer.test"},
		"partner of 65 bytes":       {"partner_id": strings.Repeat("p", 65)},
		"partner with a line break": {"partner_id": "acme\n"},
	} {
		t.Run(name, func(t *testing.T) { b.refuses(b.token("k1", changes), ErrClaims) })
	}
}

// AUTH-03: being remembered prolongs nothing.
func TestARememberedTokenExpires(t *testing.T) {
	b := newBench(t)
	token := b.token("k1", map[string]any{"exp": b.clock().Unix() + 60})
	b.accepts(token)
	b.pass(89 * time.Second)
	b.accepts(token)
	b.pass(time.Second)
	b.refuses(token, ErrClaims)
}

// AUTH-04: HS256 with the text of an RSA key's public half as its secret, in every shape it is handed around.
func TestThePublicKeyIsNoSecret(t *testing.T) {
	b := newBench(t)
	raw, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwk.Import(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Set(jwk.KeyIDKey, "r1"); err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	set := jwk.NewSet()
	if err := set.AddKey(public); err != nil {
		t.Fatal(err)
	}
	b.health(nil, set)
	verifier, err := NewVerifier(Config{Issuer: "https://issuer.test", Audience: "andes", Alg: "RS256", Keys: b.fetch, Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.verifier = verifier
	good, err := jws.Sign(b.claims(nil), jws.WithKey(jwa.RS256(), key))
	if err != nil {
		t.Fatal(err)
	}
	b.accepts(string(good))
	wrong, err := jws.Sign(b.claims(nil), jws.WithKey(jwa.PS256(), key))
	if err != nil {
		t.Fatal(err)
	}
	b.refuses(string(wrong), ErrMalformed)
	der, err := x509.MarshalPKIXPublicKey(&raw.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, secret := range map[string][]byte{
		"PEM": text, "PEM without its line end": bytes.TrimSpace(text), "DER": der,
		"PKCS #1": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&raw.PublicKey)}),
	} {
		confused, err := jws.Sign(b.claims(nil), jws.WithKey(jwa.HS256(), secret, jws.WithProtectedHeaders(header(t, "r1"))))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { b.refuses(string(confused), ErrMalformed) })
	}
}

// AUTH-04: addresses in a header are not called, and a key id is only compared.
func TestNothingInAHeaderLeadsAnywhere(t *testing.T) {
	b, attacker := newBench(t), newBench(t)
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_ = json.NewEncoder(w).Encode(attacker.set)
	}))
	defer server.Close()
	public, _ := attacker.set.Key(0)
	signed := func(kid string) string {
		headers := header(t, kid)
		for name, value := range map[string]any{jws.JWKSetURLKey: server.URL, jws.X509URLKey: server.URL, jws.JWKKey: public} {
			if err := headers.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		token, err := jws.Sign(b.claims(nil), jws.WithKey(jwa.ES256(), attacker.keys["k1"], jws.WithProtectedHeaders(headers)))
		if err != nil {
			t.Fatal(err)
		}
		return string(token)
	}
	_, err := b.verifier.Verify(t.Context(), signed("k1"))
	if err == nil {
		t.Error("a token by the attacker's key was accepted")
	}
	for _, kid := range []string{"../../x", "' OR 1=1 --", "\x00", server.URL} {
		b.refuses(unsigned(kid), ErrKey)
	}
	if got := calls.Load(); got != 0 {
		t.Errorf("%d calls of addresses in headers", got)
	}
}

// AUTH-04: the bound of a token, and the other spellings of no signature.
func TestTheBoundOfATokenIsExact(t *testing.T) {
	b := newBench(t)
	b.verifier.config.MaxToken = len(b.token("k1", nil))
	b.accepts(b.token("k1", nil))
	b.refuses(b.token("k1", nil)+"A", ErrMalformed)
	for _, alg := range []string{"NONE", "nOnE", "", "es256", "ES256 "} {
		head := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":%q,"kid":"k1"}`, alg))
		b.refuses(head+".e30.", ErrMalformed)
	}
	b.refuses(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","alg":"ES256","kid":"k1"}`))+".e30.", ErrMalformed)
}

// A key of a kind that is not known here must not make the whole set unreadable: issuers add kinds.
func TestAKeyOfAnUnknownKindIsPassedOver(t *testing.T) {
	b := newBench(t)
	mine, err := json.Marshal(b.set)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(string(mine), `"keys":[`, `"keys":[{"kty":"FUTURE","kid":"f1","pub":"AA"},{"kty":"RSA","kid":"half"},`, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	b.verifier.keys.source = FromURL(server.Client(), server.URL)
	b.accepts(b.token("k1", nil))
	b.refuses(unsigned("f1"), ErrKey)
}

func TestWhoGetsAPrincipalOwnsIt(t *testing.T) {
	b := newBench(t)
	token := b.token("k1", nil)
	for range 2 {
		first, err := b.verifier.Verify(t.Context(), token)
		if err != nil || len(first.Roles) != 1 || first.Roles[0] != "ops-viewer" {
			t.Fatalf("%+v, %v", first, err)
		}
		first.Roles[0] = "ops-admin"
	}
}

func TestTheDevelopmentIssuerBoundsWhatItGives(t *testing.T) {
	issuer, err := NewDevIssuer(DevConfig{Issuer: "dev", Audience: "andes", Now: time.Now, Roles: []string{"ops-viewer"}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(body string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		issuer.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/dev/token", strings.NewReader(body)))
		return recorder
	}
	for _, bad := range []string{
		``, `null x`, `{"partner_id":"a","partner_id":"b"}`, `{"partner_id":"a"}{}`, `{"Partner_Id":"a"}`,
		`{"partner_id":"a","ttlSeconds":86401}`, `{"partner_id":"a","ttlSeconds":18446744100}`, `{"partner_id":"a","ttlSeconds":1.5}`,
		`{"partner_id":"` + strings.Repeat("a", maxTokenRequest) + `"}`, `{"roles":["nope"]}`, `{"roles":["ops-viewer","Ops-Viewer"]}`, `{"roles":[""]}`,
	} {
		if got := ask(bad); got.Code != http.StatusBadRequest {
			t.Errorf("%.60s: %d %s", bad, got.Code, got.Body)
		}
	}
	if got := ask(`{"partner_id":"a","roles":[],"ttlSeconds":60}`); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"expires_in":60`) {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// An operator learns that old keys are in use, at most once in a cooldown.
func TestAFailedFetchIsLogged(t *testing.T) {
	b := newBench(t)
	var log bytes.Buffer
	b.verifier.keys.logger = slog.New(slog.NewTextHandler(&log, nil))
	b.accepts(b.token("k1", nil))
	b.health(errors.New("issuer down"), nil)
	b.pass(11 * time.Second)
	for i := range 100 {
		b.refuses(unsigned(fmt.Sprint(i)), ErrKey)
	}
	if got := strings.Count(log.String(), "issuer down"); got != 1 {
		t.Errorf("%d lines: %s", got, log.String())
	}
}

// Tokens that came last are found as they are; a long one is not kept, only its digest.
func TestALongTokenIsRememberedByItsDigestAlone(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		subject string
		kept    bool
	}{"short": {"s", true}, "long": {strings.Repeat("s", maxLast), false}} {
		token := b.token("k1", map[string]any{"sub": c.subject})
		b.accepts(token)
		b.accepts(token)
		if _, kept := b.verifier.last.get(token, b.clock()); kept != c.kept {
			t.Errorf("%s: kept %v", name, kept)
		}
		if _, known := b.verifier.seen.get(sha256.Sum256([]byte(token)), b.clock()); !known {
			t.Errorf("%s: its digest is not remembered", name)
		}
		b.pass(2 * time.Hour)
		b.refuses(token, ErrClaims)
		b.accepts(b.token("k1", nil))
	}
}
