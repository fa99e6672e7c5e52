package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
)

// DevIssuer is the built-in issuer of development: it gives anybody any token. It can't be made for
// production.
type DevIssuer struct {
	config DevConfig
	key    jwk.Key // private
	public jwk.Set
	mux    *http.ServeMux
}

// DevConfig of the development issuer.
type DevConfig struct {
	Production bool // refused
	Issuer     string
	Audience   string
	KeyFile    string        // keeps the key over restarts; empty: a new key for each process
	TTL        time.Duration // of a token: 1 h
	Roles      []string      // that there are; a token with another one would be refused where nobody sees why
	Now        func() time.Time
}

// DevAlg is the algorithm of the development issuer's tokens.
const DevAlg = "ES256"

// ErrProduction refuses the development issuer.
var ErrProduction = errors.New("oidc: the development issuer does not run in production")

// NewDevIssuer makes the issuer, with its key.
func NewDevIssuer(config DevConfig) (*DevIssuer, error) {
	if config.Production {
		return nil, ErrProduction
	}
	orDefault(&config.TTL, time.Hour)
	private, err := loadKey(config.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("oidc: development key: %w", err)
	}
	key, err := jwk.Import(private)
	if err != nil {
		return nil, err
	}
	if err := jwk.AssignKeyID(key); err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	set := jwk.NewSet()
	if err := set.AddKey(public); err != nil {
		return nil, err
	}
	issuer := &DevIssuer{config: config, key: key, public: set, mux: http.NewServeMux()}
	issuer.mux.HandleFunc("GET /dev/jwks.json", issuer.serveKeys)
	issuer.mux.HandleFunc("POST /dev/token", issuer.serveToken)
	return issuer, nil
}

// loadKey reads the key, or makes one and keeps it where only its owner can read it. Processes that start
// at the same time agree on the first one's key.
func loadKey(path string) (*ecdsa.PrivateKey, error) {
	if path == "" {
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	key, err := readKey(path)
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if err := keepKey(path, key); err != nil {
		return nil, err
	}
	return readKey(path)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// keepKey puts the whole file in place at once, unless there is one already.
func keepKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	err = pem.Encode(file, &pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// Keys is the issuer's key set, for a verifier in the same process.
func (d *DevIssuer) Keys(context.Context) (jwk.Set, error) { return d.public, nil }

// ServeHTTP implements http.Handler.
func (d *DevIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.ServeHTTP(w, r) }

func (d *DevIssuer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, d.public)
}

// tokenRequest asks for a token.
type tokenRequest struct {
	Partner string   `json:"partner_id"`
	Roles   []string `json:"roles"`
	TTL     int      `json:"ttlSeconds"`
}

const (
	maxTokenRequest = 4 << 10
	maxRoles        = 20
	maxTTL          = 24 * time.Hour
)

func (d *DevIssuer) serveToken(w http.ResponseWriter, r *http.Request) {
	var request tokenRequest
	ttl := d.config.TTL
	err := json.UnmarshalRead(io.LimitReader(r.Body, maxTokenRequest), &request, json.RejectUnknownMembers(true))
	if request.TTL > 0 && request.TTL <= int(maxTTL/time.Second) {
		ttl = time.Duration(request.TTL) * time.Second
	}
	if err != nil || !nameable(request.Partner) || len(request.Roles) > maxRoles || request.TTL < 0 || request.TTL > int(maxTTL/time.Second) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_request", "error_description": `expected {"partner_id":"…","roles":[…]}`})
		return
	}
	if role := slices.IndexFunc(request.Roles, func(role string) bool { return !slices.Contains(d.config.Roles, role) }); role >= 0 {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_scope", "error_description": "the roles are: " + strings.Join(d.config.Roles, ", ")})
		return
	}
	token, err := d.Token(request.Partner, request.Roles, ttl)
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": "server_error"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(ttl.Seconds())})
}

// Token makes a token.
func (d *DevIssuer) Token(partner string, roles []string, ttl time.Duration) (string, error) {
	now := d.config.Now()
	payload, err := json.Marshal(map[string]any{
		"iss": d.config.Issuer, "aud": d.config.Audience, "sub": "dev:" + partner, "partner_id": partner, "roles": append([]string{}, roles...),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(ttl).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed, err := jws.Sign(payload, jws.WithKey(jwa.ES256(), d.key))
	return string(signed), err
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body) // the status is sent; a caller that left is no fault
}
