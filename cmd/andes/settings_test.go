package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// configured gives the settings of a file.
func configured(t *testing.T, lines ...string) *settings {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, value) // to be set again afterwards
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "andes.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(append(lines, "env: development"), "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := loadSettings(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"retry_tiers: -5s":                           "RETRY_TIERS",
		"retry_tiers: 0s":                            "RETRY_TIERS",
		"retry_tiers: 1m,5s,5s":                      "RETRY_TIERS",
		"retry_tiers: 1m,1m":                         "RETRY_TIERS",
		"webhook_retry_tiers: 10s,-1m":               "WEBHOOK_RETRY_TIERS",
		"erp_url: ftp://x":                           "ERP_URL",
		"wms_url: x":                                 "WMS_URL",
		"oms_url: 'http://'":                         "OMS_URL",
		"payment_url: 'http://u:s3cret%zz@x'":        "PAYMENT_URL",
		"oidc_jwks: file:///etc/passwd":              "OIDC_JWKS",
		"oidc_issuer: issuer":                        "OIDC_ISSUER",
		"ops_url: 127.0.0.1:8080":                    "OPS_URL",
		"postgres_url: 'postgres://u:s3cret%zz@h/d'": "POSTGRES_URL",
		"postgres_url: mysql://u:s3cret@h/d":         "POSTGRES_URL",
		"redis_addrs: 'redis://u:s3cret@h:1'":        "REDIS_ADDRS",
		"redis_addrs: u:s3cret@h:1":                  "REDIS_ADDRS",
		"redis_addrs: h":                             "REDIS_ADDRS",
		"kafka_brokers: h:1,h":                       "KAFKA_BROKERS",
		"erp_pol: 5s":                                `"erp_pol"`,
		"erp: {poll: 5s}":                            `"erp.poll", which is no setting; did you mean ANDES_ERP_POLL?`,
		"stock_stale: -3s":                           "ANDES_STOCK_STALE is -3s, but must be above zero",
		"idempotency_ttl: 0s":                        "ANDES_IDEMPOTENCY_TTL is 0s, but must be above zero",
		"breaker_open_first: -1s":                    "ANDES_BREAKER_OPEN_FIRST is -1s, but must not be below zero",
		"erp_calls: 0":                               "ANDES_ERP_CALLS is 0, but must be above zero",
		"postgres_conns: 99999999999":                "ANDES_POSTGRES_CONNS is 99999999999, but must be at most 1000000",
	} {
		err := configured(t, line).check()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "%zz") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestAllFaultsOfSettingsAreToldAtOnce(t *testing.T) {
	err := configured(t, "retry_tiers: -5s", "erp_url: ftp://x", "erp_pol: 5s", "wms_pol: 5s").check()
	for _, want := range []string{"RETRY_TIERS", "ERP_URL", `"erp_pol"`, `"wms_pol"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing: %v", want, err)
		}
	}
}

func TestSettingsThatAreRightAreTaken(t *testing.T) {
	s := configured(t, "retry_tiers: 1s,1m", "erp_url: https://user:pw@erp.test/api", "postgres_url: 'host=/tmp user=andes'", "redis_addrs: 'h:1, [::1]:2'", "kafka_brokers: h:9092")
	if err := s.check(); err != nil {
		t.Error(err)
	}
	if err := configured(t, "postgres_url: 'postgres://u:p%25@h:5432/d?sslmode=disable'").check(); err != nil {
		t.Error(err)
	}
	if len(s.unknown) > 0 || s.ERPURL != "https://user:pw@erp.test/api" {
		t.Errorf("%v %s", s.unknown, s.ERPURL)
	}
}

func TestValuesThatCantBeReadAreToldWithTheirSettingInALineEach(t *testing.T) {
	path := filepath.Join(t.TempDir(), "andes.yaml")
	file := "stock_stale: soon\nprice_stale: 5\nerp_calls: ten\nwms_calls: 1.5\nquota_older_fields: perhaps\nerp_feed_secret: [s3cret]\n"
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := loadSettings(path)
	if err == nil {
		t.Fatal("taken")
	}
	got := lines(err)
	slices.Sort(got)
	want := []string{
		`ANDES_ERP_CALLS is "ten", which is no whole number`,
		`ANDES_ERP_FEED_SECRET must be one text, and not a list or a map`,
		`ANDES_PRICE_STALE is "5", which is no duration with its unit, as 30s or 5m`,
		`ANDES_QUOTA_OLDER_FIELDS is "perhaps", which is no true or false`,
		`ANDES_STOCK_STALE is "soon", which is no duration with its unit, as 30s or 5m`,
		`ANDES_WMS_CALLS is "1.5", which is no whole number`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestVariablesThatAreNoSettingsAreToldWithTheOneThatWasMeant(t *testing.T) {
	configured(t) // without those of the environment
	for name, want := range map[string]string{
		"ANDES_STOKC_STALE":  "ANDES_STOKC_STALE is set, which is no setting: it changes nothing; did you mean ANDES_STOCK_STALE?",
		"ANDES_SERVICE_HOST": "ANDES_SERVICE_HOST is set, which is no setting: it changes nothing",
		"ANDES_BROKER_KIND":  "",
		"ANDES_PRICE_STALE":  "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "3s")
			s, err := loadSettings("")
			if err != nil {
				t.Fatal(err)
			}
			ofFile, told := s.strangers()
			if len(ofFile) > 0 || len(told) > 1 || want == "" && len(told) > 0 || want != "" && (len(told) == 0 || told[0].Error() != want) {
				t.Errorf("%v %v, want %q", ofFile, told, want)
			}
			if f := checkNames(t.Context(), s); (f.mark == unknownMark) != (want != "") {
				t.Errorf("the doctor says %+v", f)
			}
		})
	}
}

func TestAnAddressIsShownWithoutItsUser(t *testing.T) {
	for address, want := range map[string]string{
		"http://erp.test/api":           "http://erp.test/api",
		"http://u:s3cret@erp.test/api":  "http://…@erp.test/api",
		"http://u:s3@cr/et%zz@erp.test": "http://…@erp.test",
		"u:s3cret%zz@h:1":               "…@h:1",
		"postgres://s3cret@h/d?x=a@b":   "postgres://…@b",
		"":                              "",
	} {
		if got := withoutUser(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}
