package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const bronze = "bronze=20/2,silver=100/10,gold=50000/50000"

func TestAPartnerHasOneQuotaAtAllInstancesAndInTheMesh(t *testing.T) {
	const perSecond = 5 // few enough that a slow machine asks for more
	policy := fmt.Sprintf(`"reads";q=%d;w=1`, perSecond)
	s := start(t, options{apart: []string{"", "query"}, settings: map[string]string{
		"RATELIMIT_ADDR": "127.0.0.1:0", "QUOTA_WAIT": "20s", // a busy machine must not look like a failing Redis
		"QUOTA_TIERS": fmt.Sprintf("bronze=%d/2,silver=100/10,gold=50000/50000", perSecond),
	}})
	operator, flooder := s.clientOf("operator", "ops-admin"), s.newPartner("flooder")
	configure := func(tier string) {
		operator.must(http.StatusOK, http.MethodPut, "/ops/partners/flooder", map[string]any{
			"name": "Flooder", "tier": tier, "policy": map[string]any{"priceList": "retail", "currency": "GBP"},
		}, nil)
	}
	configure("bronze")
	var at []*client
	for _, i := range s.running() {
		at = append(at, flooder.on(i))
	}
	const callers = 8
	var accepted, refused atomic.Int64
	began := time.Now()
	var flood sync.WaitGroup
	for n := range callers {
		flood.Go(func() {
			enough := func() bool { return accepted.Load() >= perSecond && refused.Load() > 0 }
			for time.Since(began) < 2*time.Second || !enough() && time.Since(began) < patience {
				got, err := at[n%2].do(http.MethodGet, "/v1/stock?sku=A", nil)
				switch {
				case err != nil:
					t.Error(err)
				case got.status == http.StatusOK:
					accepted.Add(1)
				case got.code() != "RATE_LIMITED" || got.status != 429 || got.header.Get("Retry-After") != "1" || got.header.Get("RateLimit-Policy") != policy:
					t.Errorf("%d %v %s", got.status, got.header, got.body)
				default:
					refused.Add(1)
				}
			}
		})
	}
	flood.Wait()
	if most := perSecond + perSecond*time.Since(began).Seconds() + 1; refused.Load() == 0 || float64(accepted.Load()) > most || accepted.Load() < perSecond {
		t.Errorf("%d passed, %d to %.0f may; %d refused", accepted.Load(), perSecond, most, refused.Load())
	}
	if got, err := s.partner.do(http.MethodGet, "/v1/stock?sku=A", nil); err != nil || got.status != http.StatusOK {
		t.Errorf("its neighbour: %d %s %v", got.status, got.body, err)
	}
	flooder.order("tok_visa", line{"A", 1}) // orders have a quota of their own
	meshRefuses := func(i *instance) error {
		response, err := s.mesh(i).ShouldRateLimit(t.Context(), &envoy.RateLimitRequest{Domain: "andes", HitsAddend: perSecond, Descriptors: []*common.RateLimitDescriptor{{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: "partner", Value: "flooder"}, {Key: "route_group", Value: "reads"}},
		}}})
		if err != nil || response.GetOverallCode() != envoy.RateLimitResponse_OVER_LIMIT {
			return fmt.Errorf("%v, %w", response, err)
		}
		return nil
	}
	for _, i := range s.running() {
		s.eventually("the mesh's question sees what the API counted", func() error {
			if _, err := at[0].do(http.MethodGet, "/v1/stock?sku=A", nil); err != nil {
				return err
			}
			return meshRefuses(i)
		})
	}
}

// mesh is a client of an instance's rate limit service, whose address is in its log.
func (s *scene) mesh(i *instance) envoy.RateLimitServiceClient {
	s.t.Helper()
	var address string
	s.eventually("the rate limit service tells its address", func() error {
		_, after, found := strings.Cut(i.log.String(), `"grpc":"`)
		if !found {
			return errors.New("not in the log")
		}
		address, _, _ = strings.Cut(after, `"`)
		return nil
	})
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return envoy.NewRateLimitServiceClient(conn)
}

func TestOperatorsChangeLimitsWhileEverythingRuns(t *testing.T) {
	s := start(t, options{instances: 2})
	operator := s.clientOf("operator", "ops-admin")
	policyAt := func(i *instance) string {
		got, err := s.partner.on(i).do(http.MethodGet, "/v1/stock?sku=A", nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.header.Get("RateLimit-Policy")
	}
	raised, was := "bronze=20/2,silver=100/10,gold=700/70", bronze
	for _, c := range []struct{ tiers, policy string }{{raised, `"reads";q=700;w=1`}, {"", `"reads";q=50000;w=1`}} {
		policy := c.policy
		var standing struct{ Tiers, Configured string }
		operator.must(http.StatusOK, http.MethodPut, "/ops/quotas", map[string]any{"tiers": c.tiers, "was": was, "reason": "a test"}, &standing)
		if want := cmp.Or(c.tiers, bronze); standing.Configured != bronze || standing.Tiers != want {
			t.Errorf("%+v", standing)
		}
		late := operator.must(http.StatusConflict, http.MethodPut, "/ops/quotas", map[string]any{"tiers": c.tiers, "was": was, "reason": "who did not look"}, nil)
		if late.code() != "QUOTA_CHANGED" {
			t.Errorf("%s", late.body)
		}
		was = standing.Tiers
		for _, i := range s.running() {
			s.eventually("an instance follows", func() error {
				if told := policyAt(i); told != policy {
					return errors.New(told)
				}
				return nil
			})
		}
	}
	got := operator.must(http.StatusUnprocessableEntity, http.MethodPut, "/ops/quotas", map[string]any{"tiers": "gold=1/1", "was": was, "reason": "a test"}, nil)
	if got.code() != "QUOTA_INVALID" {
		t.Errorf("%s", got.body)
	}
}
