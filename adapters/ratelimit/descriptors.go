package ratelimit

import (
	"fmt"
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	envoy "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"andes/commands/partner"
	"andes/quota"
)

// Entries of a descriptor.
const (
	partnerEntry = "partner"
	groupEntry   = "route_group"
	channelEntry = "channel"
)

// Bounds of a request.
const (
	maxDescriptors = 16
	maxHits        = 1_000_000
	maxChannel     = 256 // bytes
)

// asks reads the descriptors. Errors name what is wrong, never a value.
func (s *Service) asks(request *envoy.RateLimitRequest) ([]quota.Ask, error) {
	if request.GetDomain() != s.config.Domain {
		return nil, fmt.Errorf("the domain is not %q", s.config.Domain)
	}
	descriptors := request.GetDescriptors()
	if len(descriptors) == 0 || len(descriptors) > maxDescriptors {
		return nil, fmt.Errorf("%d descriptors are not 1..%d", len(descriptors), maxDescriptors)
	}
	asks := make([]quota.Ask, len(descriptors))
	for i, descriptor := range descriptors {
		ask, err := parse(descriptor, uint64(request.GetHitsAddend()))
		if err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", i, err)
		}
		asks[i] = ask
	}
	return asks, nil
}

func parse(descriptor *common.RateLimitDescriptor, hits uint64) (quota.Ask, error) {
	var ask quota.Ask
	if own := descriptor.GetHitsAddend(); own != nil {
		hits = own.GetValue()
	}
	switch {
	case descriptor.GetLimit() != nil:
		return ask, fmt.Errorf("a limit of its own is not taken: a partner's tier has it")
	case descriptor.GetIsNegativeHits():
		return ask, fmt.Errorf("hits are not given back")
	case hits > maxHits:
		return ask, fmt.Errorf("%d hits are more than %d", hits, maxHits)
	}
	ask.Cost = int64(max(hits, 1))
	seen := map[string]bool{}
	for _, entry := range descriptor.GetEntries() {
		if seen[entry.GetKey()] {
			return ask, fmt.Errorf("the entry %s is there twice", entry.GetKey())
		}
		seen[entry.GetKey()] = true
		switch value := entry.GetValue(); entry.GetKey() {
		case partnerEntry:
			ask.Key.Partner = value
		case groupEntry:
			ask.Key.Group = quota.Group(value)
		case channelEntry:
			ask.Key.Channel = value
		default:
			return ask, fmt.Errorf("an entry is none of %s, %s and %s", partnerEntry, groupEntry, channelEntry)
		}
	}
	switch {
	case !partner.ValidID(ask.Key.Partner):
		return ask, fmt.Errorf("the entry %s is missing or no partner's id", partnerEntry)
	case !slices.Contains(quota.Groups, ask.Key.Group):
		return ask, fmt.Errorf("the entry %s is none of %v", groupEntry, quota.Groups)
	case len(ask.Key.Channel) > maxChannel:
		return ask, fmt.Errorf("the entry %s is longer than %d bytes", channelEntry, maxChannel)
	}
	return ask, nil
}
