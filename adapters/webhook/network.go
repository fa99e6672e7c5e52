package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// errForbidden refuses to connect to an address that is not a partner's.
var errForbidden = errors.New("the endpoint's address is not a public one")

// Bounds of connections to partners.
const (
	maxHeaderBytes   = 16 << 10
	maxIdle          = 256
	maxIdlePerHost   = 8
	idleTimeout      = 30 * time.Second
	handshakeTimeout = 3 * time.Second
)

// client follows no redirect: it would lead away from the address that was checked.
func client(cfg Config) *http.Client {
	return &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// transport connects to partners. It uses no proxy: behind one, the address that is checked would be the
// proxy's.
func transport(cfg Config) *http.Transport {
	dialer := &net.Dialer{Timeout: cfg.Timeout}
	if !cfg.Development {
		dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			return checkAddress(address, cfg.Ports)
		}
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  cfg.Timeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
}

// checkAddress sees the resolved address right before the connection is made, so a name that resolves
// differently the second time gains nothing.
func checkAddress(address string, ports []int) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", errForbidden, err)
	}
	if !public(target.Addr()) || !slices.Contains(ports, int(target.Port())) {
		return errForbidden
	}
	return nil
}

// reserved are the networks that lead to ourselves, to our neighbours or nowhere, beside those that the
// netip package knows. IPv6 ones that carry an IPv4 address inside could carry any of these.
var reserved = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10", "::/96",
)

func prefixes(list ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(list))
	for i, text := range list {
		parsed[i] = netip.MustParsePrefix(text)
	}
	return parsed
}

func public(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(address) })
}
