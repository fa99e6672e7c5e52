// Package oidc verifies bearer tokens (JWT) by the issuer's key set (JWKS), and holds the development
// issuer.
//
//	token ──► seen before and not expired? ──yes──► principal
//	            │no
//	            ▼
//	          header: alg as configured, no crit ──► key of its kid ──► signature ──► claims ──► principal
//	                                                   │unknown
//	                                                   ▼
//	                                          fetch the key set, at most once per MinRefetch
//
// Nothing in a token leads anywhere: jku, x5u and an embedded key are not looked at, and the algorithm is
// the configured one, so a token can choose neither. Keys that were read once are used while the issuer
// is down; an empty answer does not take them away. A key that left the issuer's set is refused CacheFor
// later at the latest, also to a token that is remembered; while the issuer is down, keys are kept.
package oidc
