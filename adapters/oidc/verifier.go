package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"

	"andes/commands/partner"
)

// Principal is whom a token stands for.
type Principal struct {
	Subject string
	Partner string
	Roles   []string
	Expires time.Time // with the leeway
}

// clone keeps what is remembered apart from what a caller may change.
func (p Principal) clone() Principal {
	p.Roles = slices.Clone(p.Roles)
	return p
}

// Config of a verifier. The zero durations and bounds are their defaults.
type Config struct {
	Issuer   string // exactly as in the claim iss
	Audience string
	Alg      string // the one algorithm that is accepted, such as RS256 or ES256
	Keys     Source

	Leeway       time.Duration // for clocks that differ: 30 s
	CacheFor     time.Duration // of the key set: 10 min
	MinRefetch   time.Duration // between two fetches: 10 s
	FetchTimeout time.Duration // 5 s
	Patience     time.Duration // how long a token waits for a fetch while an older key set is there: 1 s
	MaxToken     int           // bytes: 16 KiB
	CachedTokens int           // verified tokens that are remembered: 10,000
	Now          func() time.Time
	Logger       *slog.Logger // told when the key set can't be read; nil: nobody is
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	config Config
	alg    jwa.SignatureAlgorithm
	keys   keyCache
	last   lastTokens
	seen   tokenCache
}

// NewVerifier checks the configuration.
func NewVerifier(config Config) (*Verifier, error) {
	var faults []error
	if config.Issuer == "" || config.Audience == "" || config.Keys == nil || config.Now == nil {
		faults = append(faults, errors.New("oidc: issuer, audience, keys and clock are needed"))
	}
	alg, known := jwa.LookupSignatureAlgorithm(config.Alg)
	if !known || alg.IsSymmetric() || config.Alg == jwa.NoSignature().String() {
		faults = append(faults, fmt.Errorf("oidc: %q is no algorithm with a public key", config.Alg))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	orDefault(&config.Leeway, 30*time.Second)
	orDefault(&config.CacheFor, 10*time.Minute)
	orDefault(&config.MinRefetch, 10*time.Second)
	orDefault(&config.FetchTimeout, 5*time.Second)
	orDefault(&config.Patience, time.Second)
	orDefault(&config.MaxToken, 16<<10)
	orDefault(&config.CachedTokens, 10_000)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Verifier{
		config: config, alg: alg,
		keys: keyCache{
			source: config.Keys, now: config.Now, cacheFor: config.CacheFor, minRefetch: config.MinRefetch,
			timeout: config.FetchTimeout, patience: config.Patience, logger: config.Logger,
		},
		last: lastTokens{seed: maphash.MakeSeed()},
		seen: newTokenCache(config.CachedTokens),
	}, nil
}

func orDefault[T comparable](field *T, standard T) {
	var zero T
	if *field == zero {
		*field = standard
	}
}

// Refusals of tokens. Which one it was is for operators; the caller learns only that the token is not valid.
var (
	ErrMalformed = errors.New("oidc: the token is malformed")
	ErrKey       = errors.New("oidc: the token's key is unknown")
	ErrSignature = errors.New("oidc: the signature does not fit")
	ErrClaims    = errors.New("oidc: the claims do not fit")
)

// outage says that the token could not be judged: no key set could ever be read.
type outage struct{ error }

func (o outage) Unwrap() error { return o.error }

// Outage marks the error for the edge.
func (outage) Outage() bool { return true }

// Verify gives whom the token stands for.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
	if len(token) > v.config.MaxToken {
		return Principal{}, ErrMalformed
	}
	now := v.config.Now()
	if verified, valid := v.last.get(token, now); valid {
		return verified.principal.clone(), nil
	}
	digest := sha256.Sum256([]byte(token))
	if verified, valid := v.seen.get(digest, now); valid {
		v.last.put(token, verified)
		return verified.principal.clone(), nil
	}
	kid, err := v.header(token)
	if err != nil {
		return Principal{}, err
	}
	key, until, err := v.keys.find(ctx, kid)
	switch {
	case err != nil:
		return Principal{}, outage{fmt.Errorf("oidc: %w", err)}
	case key == nil:
		return Principal{}, ErrKey
	}
	payload, err := jws.Verify([]byte(token), jws.WithKey(v.alg, key))
	if err != nil {
		return Principal{}, ErrSignature
	}
	principal, expires, err := v.claims(payload, now)
	if err != nil {
		return Principal{}, err
	}
	// A remembered token is looked at again when its key is: it does not outlive the key.
	v.last.put(token, v.seen.put(digest, principal.clone(), earlier(expires, until)))
	return principal, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// header reads the key's id. The algorithm has to be the configured one, and nothing may be critical.
func (v *Verifier) header(token string) (kid string, err error) {
	first, rest, parts := strings.Cut(token, ".")
	if !parts || strings.Count(rest, ".") != 1 {
		return "", ErrMalformed
	}
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return "", ErrMalformed
	}
	var header struct {
		Alg  string         `json:"alg"`
		Kid  string         `json:"kid"`
		Crit jsontext.Value `json:"crit"`
	}
	if err := json.Unmarshal(text, &header); err != nil || header.Kid == "" || header.Alg != v.config.Alg || header.Crit != nil {
		return "", ErrMalformed
	}
	return header.Kid, nil
}

// claimSet is what is read of the claims. Names are exact, and none may be there twice: no claim that
// only looks like partner_id can stand in for it.
type claimSet struct {
	Issuer    string         `json:"iss"`
	Subject   string         `json:"sub"`
	Audience  audience       `json:"aud"`
	Expires   jsontext.Value `json:"exp"`
	NotBefore jsontext.Value `json:"nbf"`
	IssuedAt  jsontext.Value `json:"iat"`
	Partner   string         `json:"partner_id"`
	Roles     []string       `json:"roles"`
	Realm     realm          `json:"realm_access"` // where Keycloak puts them
}

type realm struct {
	Roles []string `json:"roles"`
}

// audience is a text or a list of texts.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return err
	}
	*a = many
	return nil
}

func (a audience) has(name string) bool {
	for _, each := range a {
		if each == name {
			return true
		}
	}
	return false
}

// nameable: the token of an operator names no partner.
func nameable(id string) bool { return id == "" || partner.ValidID(id) }

func (v *Verifier) claims(payload []byte, now time.Time) (Principal, time.Time, error) {
	var claims claimSet
	if err := json.Unmarshal(payload, &claims); err != nil {
		return Principal{}, time.Time{}, ErrClaims
	}
	expires, hasExpiry := instant(claims.Expires)
	notBefore, hasStart := instant(claims.NotBefore)
	issuedAt, hasIssue := instant(claims.IssuedAt)
	leeway := v.config.Leeway
	switch {
	case claims.Issuer != v.config.Issuer, !claims.Audience.has(v.config.Audience), !nameable(claims.Partner),
		!hasExpiry, claims.NotBefore != nil && !hasStart, claims.IssuedAt != nil && !hasIssue,
		!now.Before(expires.Add(leeway)),
		hasStart && now.Add(leeway).Before(notBefore),
		hasIssue && now.Add(leeway).Before(issuedAt):
		return Principal{}, time.Time{}, ErrClaims
	}
	ends := expires.Add(leeway)
	return Principal{Subject: claims.Subject, Partner: claims.Partner, Roles: append(claims.Roles, claims.Realm.Roles...), Expires: ends}, ends, nil
}

// maxInstant is far enough in the future for a token and keeps arithmetic on times exact.
const maxInstant = 1 << 40

// instant reads seconds since 1970. Fractions are allowed by RFC 7519; a text or null is not a number.
func instant(number jsontext.Value) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(number), 64)
	if err != nil || math.Abs(seconds) > maxInstant {
		return time.Time{}, false
	}
	return time.Unix(int64(math.Floor(seconds)), 0), true
}
