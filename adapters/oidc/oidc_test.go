package oidc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an issuer whose keys, clock and health a test turns.
type bench struct {
	t        *testing.T
	mu       sync.Mutex
	now      time.Time
	set      jwk.Set
	down     error
	fetches  int
	keys     map[string]jwk.Key
	verifier *Verifier
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), keys: map[string]jwk.Key{}}
	b.rotate("k1")
	verifier, err := NewVerifier(Config{Issuer: "https://issuer.test", Audience: "andes", Alg: "ES256", Keys: b.fetch, Now: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.verifier = verifier
	return b
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// health makes the issuer fail, or answer with a set; nil leaves its keys.
func (b *bench) health(down error, set jwk.Set) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down = down; set != nil {
		b.set = set
	}
}

func (b *bench) fetch(context.Context) (jwk.Set, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fetches++
	return b.set, b.down
}

// rotate replaces the issuer's keys by a new one.
func (b *bench) rotate(kid string) {
	b.t.Helper()
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	key, err := jwk.Import(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := key.Set(jwk.KeyIDKey, kid); err != nil {
		b.t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		b.t.Fatal(err)
	}
	set := jwk.NewSet()
	if err := set.AddKey(public); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[kid], b.set = key, set
}

// claims of a valid token, with changes; nil removes a claim.
func (b *bench) claims(changes map[string]any) []byte {
	b.t.Helper()
	now := b.clock().Unix()
	all := map[string]any{
		"iss": "https://issuer.test", "aud": "andes", "sub": "s", "partner_id": "acme", "roles": []string{"ops-viewer"},
		"iat": now, "nbf": now, "exp": now + 3600,
	}
	for name, value := range changes {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	payload, err := json.Marshal(all)
	if err != nil {
		b.t.Fatal(err)
	}
	return payload
}

func (b *bench) token(kid string, changes map[string]any) string {
	b.t.Helper()
	signed, err := jws.Sign(b.claims(changes), jws.WithKey(jwa.ES256(), b.keys[kid]))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(signed)
}

func (b *bench) accepts(token string) {
	b.t.Helper()
	if principal, err := b.verifier.Verify(b.t.Context(), token); err != nil || principal.Partner != "acme" {
		b.t.Errorf("a valid token was refused: %+v, %v", principal, err)
	}
}

func (b *bench) refuses(token string, want error) {
	b.t.Helper()
	if _, err := b.verifier.Verify(b.t.Context(), token); !errors.Is(err, want) {
		b.t.Errorf("error %v, want %v", err, want)
	}
}

func TestAValidTokenNamesItsPartner(t *testing.T) {
	b := newBench(t)
	principal, err := b.verifier.Verify(t.Context(), b.token("k1", map[string]any{"realm_access": map[string]any{"roles": []string{"ops-admin"}}}))
	if err != nil || principal.Partner != "acme" || fmt.Sprint(principal.Roles) != "[ops-viewer ops-admin]" {
		t.Errorf("%+v, %v", principal, err)
	}
}

func TestAFloodOfRandomKeyIDsFetchesOncePerCooldown(t *testing.T) {
	b := newBench(t)
	valid := b.token("k1", nil)
	b.accepts(valid)
	flood := func() {
		for i := range 500 {
			head := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":"random-%d"}`, i))
			b.refuses(head+".e30.c2ln", ErrKey)
			b.accepts(valid)
		}
	}
	flood()
	b.pass(11 * time.Second)
	flood()
	b.pass(11 * time.Second)
	b.rotate("k2") // during the flood
	flood()
	b.accepts(b.token("k2", nil))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fetches > 4 {
		t.Errorf("%d fetches", b.fetches)
	}
}

func TestARotatedKeyIsPickedUpAndTheOldOneRunsOut(t *testing.T) {
	b := newBench(t)
	b.accepts(b.token("k1", nil))
	b.rotate("k2")
	b.pass(11 * time.Second)
	b.accepts(b.token("k2", nil))
	b.refuses(b.token("k1", map[string]any{"sub": "another token"}), ErrKey)
	b.pass(11 * time.Minute)
	b.refuses(b.token("k1", nil), ErrKey)
}

func TestKeysOutliveAnIssuerThatIsDown(t *testing.T) {
	b := newBench(t)
	b.accepts(b.token("k1", nil))
	b.health(errors.New("down"), nil)
	for range 10 {
		b.pass(10 * time.Minute)
		b.accepts(b.token("k1", nil))
	}
	b.health(nil, jwk.NewSet()) // {} does not lock everybody out
	b.pass(10 * time.Minute)
	b.accepts(b.token("k1", nil))
}

func TestAnIssuerThatHangsHoldsNobodyUp(t *testing.T) {
	b := newBench(t)
	b.accepts(b.token("k1", nil))
	asked, hang := make(chan struct{}), make(chan struct{})
	b.verifier.keys.source = func(context.Context) (jwk.Set, error) {
		close(asked)
		<-hang
		return nil, errors.New("too late")
	}
	b.verifier.keys.patience = 0
	b.pass(11 * time.Minute) // the set is too old, and so is what was remembered
	b.accepts(b.token("k1", nil))
	<-asked
	b.refuses(b.token("k1", map[string]any{"partner_id": "a/b"}), ErrClaims)
	b.accepts(b.token("k1", map[string]any{"sub": "another"}))
	close(hang)
}

func TestManyAtOnceShareAFetch(t *testing.T) {
	b := newBench(t)
	valid := b.token("k1", nil)
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() { b.accepts(valid) })
	}
	callers.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fetches != 1 {
		t.Errorf("%d fetches", b.fetches)
	}
}

func TestKeySetsAreReadFromTheirAddress(t *testing.T) {
	b := newBench(t)
	answers := map[string]func(http.ResponseWriter){
		"good":  func(w http.ResponseWriter) { _ = json.NewEncoder(w).Encode(b.set) },
		"500":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"empty": func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) },
		"html":  func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"large": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(" ", maxKeySet) + `]}`))
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Path[1:]](w) }))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	for name := range answers {
		b.verifier.keys.source = FromURL(server.Client(), server.URL+"/"+name)
		b.verifier.keys.set, b.verifier.keys.triedAt = nil, time.Time{}
		_, _, err := b.verifier.keys.find(t.Context(), "k1")
		if (err == nil) != (name == "good") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATokenThatCantBeJudgedIsAnOutage(t *testing.T) {
	b := newBench(t)
	b.health(errors.New("down"), nil)
	_, err := b.verifier.Verify(t.Context(), b.token("k1", nil))
	var judged interface{ Outage() bool }
	if !errors.As(err, &judged) || !judged.Outage() {
		t.Errorf("error %v", err)
	}
	b.health(nil, nil)
	b.pass(11 * time.Second)
	b.accepts(b.token("k1", nil))
}

func TestClaimsAreCheckedWithASmallLeeway(t *testing.T) {
	b := newBench(t)
	now := b.clock().Unix()
	for name, changes := range map[string]map[string]any{
		"issuer a second ahead": {"iat": now + 1, "nbf": now + 5},
		"expired just now":      {"exp": now - 5},
		"audience in a list":    {"aud": []string{"other", "andes"}},
		"fraction of a second":  {"exp": float64(now) + 60.5},
		"no nbf and iat":        {"nbf": nil, "iat": nil},
	} {
		t.Run(name, func(t *testing.T) { b.accepts(b.token("k1", changes)) })
	}
	for name, changes := range map[string]map[string]any{
		"expired":              {"exp": now - 120},
		"not yet valid":        {"nbf": now + 120},
		"issued in the future": {"iat": now + 120},
		"no expiry":            {"exp": nil},
		"expiry as text":       {"exp": fmt.Sprint(now + 3600)},
		"endless expiry":       {"exp": 1e20},
		"null expiry":          {"exp": json.RawMessage("null")},
		"another audience":     {"aud": "other"},
		"no audience":          {"aud": nil},
		"another issuer":       {"iss": "https://issuer.test/"},
		"partner with a slash": {"partner_id": "a/b"},
		"partner as a number":  {"partner_id": 1},
		"roles as text":        {"roles": "ops-admin"},
		"partner in capitals":  {"partner_id": "a/b", "PARTNER_ID": "acme"},
	} {
		t.Run(name, func(t *testing.T) { b.refuses(b.token("k1", changes), ErrClaims) })
	}
}

func TestATokenChoosesNeitherAlgorithmNorKey(t *testing.T) {
	b := newBench(t)
	key, _ := b.set.Key(0)
	var raw ecdsa.PublicKey
	if err := jwk.Export(key, &raw); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&raw)
	if err != nil {
		t.Fatal(err)
	}
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	confused, err := jws.Sign(b.claims(nil), jws.WithKey(jwa.HS256(), secret, jws.WithProtectedHeaders(header(t, "k1"))))
	if err != nil {
		t.Fatal(err)
	}
	payload := base64.RawURLEncoding.EncodeToString(b.claims(nil))
	with := func(head string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + payload + "."
	}
	signature := b.token("k1", nil)[strings.LastIndex(b.token("k1", nil), ".")+1:]
	for name, token := range map[string]string{
		"HS256 with the public key": string(confused),
		"none":                      with(`{"alg":"none","kid":"k1"}`),
		"None":                      with(`{"alg":"None","kid":"k1"}`),
		"critical header":           with(`{"alg":"ES256","kid":"k1","crit":["x"],"x":1}`) + signature,
		"no kid":                    with(`{"alg":"ES256"}`) + signature,
		"two parts":                 "a.b", "empty": "", "no base64": "!.!.!",
		"five parts": "a.b.c.d.e",
		"huge":       strings.Repeat("a", 17<<10),
	} {
		t.Run(name, func(t *testing.T) { b.refuses(token, ErrMalformed) })
	}
	for name, token := range map[string]string{
		"path as kid":  with(`{"alg":"ES256","kid":"../../etc/passwd"}`) + signature,
		"embedded key": with(`{"alg":"ES256","kid":"mine","jwk":{"kty":"EC"},"jku":"http://127.0.0.1:1/x","x5u":"http://127.0.0.1:1/y"}`) + signature,
	} {
		t.Run(name, func(t *testing.T) { b.refuses(token, ErrKey) })
	}
	t.Run("empty signature", func(t *testing.T) { b.refuses(with(`{"alg":"ES256","kid":"k1"}`), ErrSignature) })
	t.Run("another key of that name", func(t *testing.T) {
		other := newBench(t)
		b.refuses(other.token("k1", nil), ErrSignature)
	})
}

func header(t *testing.T, kid string) jws.Headers {
	t.Helper()
	h := jws.NewHeaders()
	if err := h.Set(jws.KeyIDKey, kid); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestSymmetricAlgorithmsAreNoConfiguration(t *testing.T) {
	for _, alg := range []string{"HS256", "none", "", "XX"} {
		_, err := NewVerifier(Config{Issuer: "i", Audience: "a", Alg: alg, Keys: func(context.Context) (jwk.Set, error) { return nil, nil }, Now: time.Now})
		if err == nil {
			t.Errorf("%q was accepted", alg)
		}
	}
}

func TestRememberedTokensAreBounded(t *testing.T) {
	b := newBench(t)
	b.verifier.seen = newTokenCache(10)
	for i := range 50 {
		b.accepts(b.token("k1", map[string]any{"sub": fmt.Sprint(i)}))
	}
	if got := b.verifier.seen.order.Len(); got != 10 || len(b.verifier.seen.byKey) != 10 {
		t.Errorf("%d tokens are remembered", got)
	}
}

func TestTheDevelopmentIssuerIsRefusedInProduction(t *testing.T) {
	if _, err := NewDevIssuer(DevConfig{Production: true, Now: time.Now}); !errors.Is(err, ErrProduction) {
		t.Errorf("error %v", err)
	}
}

func TestProcessesThatStartTogetherShareTheKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	keys := make([]*ecdsa.PrivateKey, 20)
	var starts sync.WaitGroup
	for i := range keys {
		starts.Go(func() {
			key, err := loadKey(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	starts.Wait()
	for _, key := range keys {
		if !keys[0].Equal(key) {
			t.Fatal("two keys")
		}
	}
	left, err := filepath.Glob(path + "*")
	if info, fault := os.Stat(path); err != nil || fault != nil || len(left) != 1 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v %v", left, err, fault)
	}
}

func TestTheDevelopmentIssuersTokensSurviveARestart(t *testing.T) {
	config := DevConfig{Issuer: "dev", Audience: "andes", KeyFile: filepath.Join(t.TempDir(), "key.pem"), Now: time.Now, Roles: []string{"ops-admin"}}
	first, err := NewDevIssuer(config)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	first.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/dev/token", bytes.NewReader([]byte(`{"partner_id":"acme","roles":["ops-admin"]}`))))
	var granted struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &granted); err != nil || recorder.Code != http.StatusOK {
		t.Fatalf("%d %s", recorder.Code, recorder.Body)
	}
	published := httptest.NewRecorder()
	first.ServeHTTP(published, httptest.NewRequest(http.MethodGet, "/dev/jwks.json", nil))
	if set, err := jwk.Parse(published.Body.Bytes()); err != nil || set.Len() != 1 || strings.Contains(published.Body.String(), `"d"`) {
		t.Errorf("%v %s", err, published.Body)
	}
	second, err := NewDevIssuer(config)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := NewVerifier(Config{Issuer: "dev", Audience: "andes", Alg: DevAlg, Keys: second.Keys, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if principal, err := verifier.Verify(t.Context(), granted.AccessToken); err != nil || principal.Partner != "acme" {
		t.Errorf("%+v, %v", principal, err)
	}
	for _, bad := range []string{`{}x`, `[]`, `{"partner_id":"a/b"}`, `{"other":1}`, `{"partner_id":"a","ttlSeconds":-1}`} {
		recorder := httptest.NewRecorder()
		first.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/dev/token", strings.NewReader(bad)))
		if recorder.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, recorder.Code)
		}
	}
}
