package main

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// checkAddresses tells which URLs and addresses, of these settings or of all, are none. It never repeats them: there may be a password in them.
func (s *settings) checkAddresses(names ...string) (faults []error) {
	complain := func(name, text string) {
		if len(names) > 0 && !slices.Contains(names, name) {
			return
		}
		faults = append(faults, fmt.Errorf("%s%s %s", envPrefix, strings.ToUpper(name), text))
	}
	urls := map[string]string{
		"erp_url": s.ERPURL, "wms_url": s.WMSURL, "oms_url": s.OMSURL, "payment_url": s.PaymentURL,
		"oidc_issuer": s.OIDCIssuer, "oidc_jwks": s.OIDCJWKS, "ops_url": s.OpsURL,
	}
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		if urls[name] == "" {
			continue
		}
		if parsed, err := url.Parse(urls[name]); err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "" {
			complain(name, "is no http:// or https:// URL")
		}
	}
	if strings.Contains(s.PostgresURL, "://") {
		if parsed, err := url.Parse(s.PostgresURL); err != nil || parsed.Scheme != "postgres" && parsed.Scheme != "postgresql" {
			complain("postgres_url", "is no postgres:// URL; % and the like in a password are written as %25")
		}
	}
	for name, addresses := range map[string]string{"redis_addrs": s.RedisAddrs, "kafka_brokers": s.KafkaBrokers} {
		if slices.ContainsFunc(list(addresses), func(address string) bool { return !hostAndPort(address) }) {
			complain(name, "is no comma-separated list of host:port")
		}
	}
	return faults
}

func hostAndPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || strings.ContainsAny(host, "@/") {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// ladder tells whether each delay is longer than the one before.
func ladder(delays []time.Duration) bool {
	for i, delay := range delays {
		if delay <= 0 || i > 0 && delay <= delays[i-1] {
			return false
		}
	}
	return true
}

// withoutUser gives a URL, or what should be one, as it may be shown: without user and password.
func withoutUser(address string) string {
	at := strings.LastIndex(address, "@")
	if at < 0 {
		return address
	}
	scheme, _, _ := strings.Cut(address[:at], "://")
	if scheme == address[:at] {
		return "…" + address[at:]
	}
	return scheme + "://…" + address[at:]
}
