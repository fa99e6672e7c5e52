package ratelimit

import (
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"andes/quota"
)

// problem is the body of a refusal, as the partner API writes it.
const problem = `{"type":"/docs#RATE_LIMITED","title":"The quota is used up","status":429,"code":"RATE_LIMITED"}`

// answer gives each descriptor's status, and the fields of the verdict that counts: the refusal with
// the longest wait, or else the one with the least left.
func answer(verdicts []quota.Verdict) *envoy.RateLimitResponse {
	response := &envoy.RateLimitResponse{OverallCode: envoy.RateLimitResponse_OK}
	counts := verdicts[0]
	for _, verdict := range verdicts {
		response.Statuses = append(response.Statuses, statusOf(verdict))
		if worse(verdict, counts) {
			counts = verdict
		}
	}
	if counts.Limit.PerSecond > 0 {
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, field("RateLimit-Policy", counts.Policy()), field("RateLimit", counts.State()))
	}
	if !counts.Allowed {
		response.OverallCode = envoy.RateLimitResponse_OVER_LIMIT
		response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd,
			field("Retry-After", counts.RetryField()), field("Content-Type", "application/problem+json"))
		response.RawBody = []byte(problem)
	}
	return response
}

func worse(verdict, than quota.Verdict) bool {
	if verdict.Allowed != than.Allowed {
		return !verdict.Allowed
	}
	if !verdict.Allowed {
		return verdict.RetryAfter > than.RetryAfter
	}
	return verdict.Remaining < than.Remaining
}

func statusOf(verdict quota.Verdict) *envoy.RateLimitResponse_DescriptorStatus {
	of := &envoy.RateLimitResponse_DescriptorStatus{
		Code:               envoy.RateLimitResponse_OK,
		LimitRemaining:     uint32(verdict.Remaining),
		DurationUntilReset: durationpb.New(verdict.Reset),
	}
	if !verdict.Allowed {
		of.Code = envoy.RateLimitResponse_OVER_LIMIT
	}
	if verdict.Limit.PerSecond > 0 {
		of.CurrentLimit = &envoy.RateLimitResponse_RateLimit{
			Name: string(verdict.Group), RequestsPerUnit: uint32(verdict.Limit.Burst), Unit: envoy.RateLimitResponse_RateLimit_SECOND,
			UnitMultiplier: wrapperspb.UInt32(uint32(verdict.Limit.Burst / verdict.Limit.PerSecond)),
		}
	}
	return of
}

func field(name, value string) *core.HeaderValue { return &core.HeaderValue{Key: name, Value: value} }
