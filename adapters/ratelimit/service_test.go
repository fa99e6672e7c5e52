package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"andes/adapters/ratelimit"
	"andes/adapters/redis"
	"andes/commands/partner"
	"andes/quota"
	"andes/test/redistest"
)

// directory knows some partners, and fails for one.
type directory map[string]partner.State

func (d directory) Partner(_ context.Context, id string) (partner.State, bool, error) {
	if id == "unlucky" {
		return partner.State{}, false, errors.New("the database is away")
	}
	state, known := d[id]
	return state, known, nil
}

var known = directory{
	"shop": {ID: "shop", Tier: "bronze"}, "market": {ID: "market", Tier: "silver"},
	"group": {ID: "group", Tier: "bronze", Policy: partner.Policy{QuotaPerChannel: true}},
}

// start runs the service on quotas in a real Redis, and gives a client of it and the quotas.
func start(t *testing.T) (envoy.RateLimitServiceClient, *grpc.ClientConn, *quota.Quotas) {
	t.Helper()
	config := quota.DefaultConfig()
	tiers, err := quota.ParseTiers(quota.DefaultTiers, 1)
	if err != nil {
		t.Fatal(err)
	}
	config.Tiers, config.Store, config.Now, config.Logger = tiers, redis.NewQuota(redistest.New(t)), time.Now, slog.New(slog.DiscardHandler)
	config.Wait = time.Second
	quotas, err := quota.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(quotas.Close)
	service, err := ratelimit.New(t.Context(), ratelimit.Config{Addr: "127.0.0.1:0", Domain: "andes", Quotas: quotas, Partners: known, Logger: config.Logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	conn, err := grpc.NewClient(service.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return envoy.NewRateLimitServiceClient(conn), conn, quotas
}

// describes makes a descriptor of keys and values in turn.
func describes(entries ...string) *common.RateLimitDescriptor {
	descriptor := &common.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		descriptor.Entries = append(descriptor.Entries, &common.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return descriptor
}

func asking(hits uint32, descriptors ...*common.RateLimitDescriptor) *envoy.RateLimitRequest {
	return &envoy.RateLimitRequest{Domain: "andes", HitsAddend: hits, Descriptors: descriptors}
}

func fieldOf(response *envoy.RateLimitResponse, name string) string {
	for _, header := range response.GetResponseHeadersToAdd() {
		if header.GetKey() == name {
			return header.GetValue()
		}
	}
	return ""
}

func TestAMeshAndTheAPIShareOneQuota(t *testing.T) {
	t.Parallel()
	client, _, quotas := start(t)
	orders := describes("partner", "shop", "route_group", "orders")
	response, err := client.ShouldRateLimit(t.Context(), asking(0, orders))
	if err != nil {
		t.Fatal(err)
	}
	of := response.GetStatuses()[0]
	if response.GetOverallCode() != envoy.RateLimitResponse_OK || of.GetLimitRemaining() != 1 || of.GetCurrentLimit().GetRequestsPerUnit() != 2 ||
		fieldOf(response, "RateLimit-Policy") != `"orders";q=2;w=1` || fieldOf(response, "RateLimit") != `"orders";r=1;t=1` || fieldOf(response, "Retry-After") != "" {
		t.Errorf("%v", response)
	}
	ask := quota.Ask{Key: quota.Key{Group: quota.Orders, Partner: "shop"}, Tier: "bronze", Cost: 1}
	if verdict := quotas.Take(t.Context(), ask); !verdict.Allowed || verdict.Remaining != 0 {
		t.Errorf("%+v", verdict)
	}
	response, err = client.ShouldRateLimit(t.Context(), asking(2, orders)) // 2 need a second, whatever has passed
	if err != nil {
		t.Fatal(err)
	}
	if response.GetOverallCode() != envoy.RateLimitResponse_OVER_LIMIT || response.GetStatuses()[0].GetCode() != envoy.RateLimitResponse_OVER_LIMIT ||
		fieldOf(response, "Retry-After") != "1" || !strings.Contains(string(response.GetRawBody()), `"code":"RATE_LIMITED"`) {
		t.Errorf("%v", response)
	}
	if response, err = client.ShouldRateLimit(t.Context(), asking(0, describes("partner", "shop", "route_group", "reads"))); err != nil || response.GetOverallCode() != envoy.RateLimitResponse_OK {
		t.Errorf("reads: %v, %v", response, err)
	}
}

func TestDescriptorsAreDecidedEachAndTogether(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t)
	heavy := describes("partner", "shop", "route_group", "orders")
	heavy.HitsAddend = wrapperspb.UInt64(2)
	request := asking(1, heavy, describes("partner", "market", "route_group", "orders"))
	for i, want := range []envoy.RateLimitResponse_Code{envoy.RateLimitResponse_OK, envoy.RateLimitResponse_OVER_LIMIT} {
		response, err := client.ShouldRateLimit(t.Context(), request)
		if err != nil || response.GetOverallCode() != want || len(response.GetStatuses()) != 2 ||
			response.GetStatuses()[0].GetCode() != want || response.GetStatuses()[1].GetCode() != envoy.RateLimitResponse_OK {
			t.Errorf("%d: %v, %v", i, response, err)
		}
	}
}

func TestChannelsShareAQuotaUnlessThePolicySaysOtherwise(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t)
	for _, c := range []struct {
		partner, channel string
		want             envoy.RateLimitResponse_Code
	}{
		{"shop", "a", envoy.RateLimitResponse_OK}, {"shop", "b", envoy.RateLimitResponse_OVER_LIMIT},
		{"group", "a", envoy.RateLimitResponse_OK}, {"group", "b", envoy.RateLimitResponse_OK}, {"group", "a", envoy.RateLimitResponse_OVER_LIMIT},
		{"nobody", "a", envoy.RateLimitResponse_OK}, {"nobody", "b", envoy.RateLimitResponse_OVER_LIMIT},
	} {
		response, err := client.ShouldRateLimit(t.Context(), asking(2, describes("partner", c.partner, "route_group", "orders", "channel", c.channel)))
		if err != nil || response.GetOverallCode() != c.want {
			t.Errorf("%s %s: %v, %v", c.partner, c.channel, response, err)
		}
	}
}

// Field case: a server that answered OK to everything because it did not understand its configuration.
func TestWhatIsNotUnderstoodIsAnErrorAndNeverOK(t *testing.T) {
	t.Parallel()
	client, _, _ := start(t)
	good := func() *common.RateLimitDescriptor { return describes("partner", "shop", "route_group", "reads") }
	negative, limited := good(), good()
	negative.IsNegativeHits = true
	limited.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
	many := asking(1)
	for range 17 {
		many.Descriptors = append(many.Descriptors, good())
	}
	for name, c := range map[string]struct {
		request *envoy.RateLimitRequest
		want    codes.Code
	}{
		"another domain":       {&envoy.RateLimitRequest{Domain: "other", Descriptors: []*common.RateLimitDescriptor{good()}}, codes.InvalidArgument},
		"no descriptor":        {asking(1), codes.InvalidArgument},
		"too many descriptors": {many, codes.InvalidArgument},
		"no partner":           {asking(1, describes("route_group", "reads")), codes.InvalidArgument},
		"no group":             {asking(1, describes("partner", "shop")), codes.InvalidArgument},
		"another group":        {asking(1, describes("partner", "shop", "route_group", "all")), codes.InvalidArgument},
		"another entry":        {asking(1, describes("partner", "shop", "route_group", "reads", "path", "/")), codes.InvalidArgument},
		"an entry twice":       {asking(1, describes("partner", "shop", "partner", "market", "route_group", "reads")), codes.InvalidArgument},
		"no partner's id":      {asking(1, describes("partner", "a b", "route_group", "reads")), codes.InvalidArgument},
		"negative hits":        {asking(1, negative), codes.InvalidArgument},
		"a limit of its own":   {asking(1, limited), codes.InvalidArgument},
		"endless hits":         {asking(1<<31, good()), codes.InvalidArgument},
		"a failing look-up":    {asking(1, describes("partner", "unlucky", "route_group", "reads")), codes.Unavailable},
	} {
		if response, err := client.ShouldRateLimit(t.Context(), c.request); status.Code(err) != c.want {
			t.Errorf("%s: %v, %v", name, response, err)
		}
	}
}

func TestAWrongConfigurationRefusesToStart(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.New(t.Context(), ratelimit.Config{})
	for _, part := range []string{"an address", "a domain", "Quotas, Partners"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	_, _, quotas := start(t)
	config := ratelimit.Config{Addr: "127.0.0.1:no", Domain: "andes", Quotas: quotas, Partners: known, Logger: slog.New(slog.DiscardHandler)}
	if _, err := ratelimit.New(t.Context(), config); err == nil {
		t.Error("an address that is none is taken")
	}
}

func TestTheServiceTellsItsHealth(t *testing.T) {
	t.Parallel()
	_, conn, _ := start(t)
	health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", health, err)
	}
}
