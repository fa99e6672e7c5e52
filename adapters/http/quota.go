package httpapi

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"andes/eventstore"
	"andes/quota"
)

// The fields by which a caller is told of its quota: those of the IETF's draft, and by configuration the
// older trio, whose reset is in seconds from now.
const (
	policyHeader = "RateLimit-Policy"
	stateHeader  = "RateLimit"

	olderLimitHeader     = "X-RateLimit-Limit"
	olderRemainingHeader = "X-RateLimit-Remaining"
	olderResetHeader     = "X-RateLimit-Reset"
)

// The same, as http.Header has them: every answer of a read sets these two.
var policyKey, stateKey = http.CanonicalHeaderKey(policyHeader), http.CanonicalHeaderKey(stateHeader)

// skusPerCost is how many SKUs one unit of the quota of reads buys. Up to that number a request costs the
// same however it is asked, so nobody has a reason to ask for single SKUs. Beyond, a request costs what the same
// SKUs cost in several requests: else 1,000 in one body would be ten times the quota.
const skusPerCost = maxSKUsInQuery

func costOf(skus int) int64 { return int64((skus + skusPerCost - 1) / skusPerCost) }

// takeQuota charges the request's first unit, before its body is read. Endpoints without a quota of their own
// are under level 1 alone.
func (c *call) takeQuota() error {
	if c.api.Quota == nil || c.endpoint.access != partners {
		return nil
	}
	c.asked = quota.Ask{Route: c.endpoint.seen.route, Key: quota.Key{Group: c.endpoint.quota, Partner: c.principal.Partner}}
	if c.endpoint.quota != "" {
		channel, err := c.channel(c.patience())
		if err != nil {
			return err
		}
		c.asked.Tier, c.asked.Cost = channel.Tier, 1
		if channel.Policy.QuotaPerChannel {
			c.asked.Key.Channel = c.principal.Subject
		}
	}
	return c.decide(c.asked)
}

// takeMore charges the rest of a request that turned out to cost more than its first unit.
func (c *call) takeMore(cost int64) error {
	if c.asked.Cost == 0 || cost <= c.asked.Cost {
		return nil
	}
	more := c.asked
	more.Charged, more.Cost = c.asked.Cost, cost-c.asked.Cost
	return c.decide(more)
}

func (c *call) decide(ask quota.Ask) error {
	verdict := c.api.Quota.Take(c.request.Context(), ask)
	c.tell(verdict)
	if verdict.Allowed {
		return nil
	}
	if c.api.QuotaRefused != nil {
		c.api.QuotaRefused(ask.Key.Partner)
	}
	switch verdict.By {
	case quota.ByRoute:
		return eventstore.Refuse(CodeRateLimited, "the endpoint is asked too often, by all clients together")
	case quota.ByClient:
		return eventstore.Refuse(CodeRateLimited, "the partner asks too often")
	}
	return eventstore.Refuse(CodeRateLimited, "the quota of %s is used up", ask.Key.Group)
}

// tell writes the fields of a verdict.
func (c *call) tell(verdict quota.Verdict) {
	header := c.Header()
	if verdict.Limit.PerSecond > 0 {
		c.field(policyKey, verdict.Policy())
		c.field(stateKey, verdict.State())
		if c.api.OlderRateFields {
			header.Set(olderLimitHeader, strconv.FormatInt(verdict.Limit.Burst, 10))
			header.Set(olderRemainingHeader, strconv.FormatInt(verdict.Remaining, 10))
			header.Set(olderResetHeader, strconv.FormatInt(quota.Seconds(verdict.Reset), 10))
		}
	}
	if !verdict.Allowed {
		header.Set("Retry-After", verdict.RetryField())
	}
}

// describeQuota adds the fields to an answer of an endpoint with a quota.
func (a *API) describeQuota(response *huma.Response) {
	response.Headers[policyHeader] = textHeader(`The quota q of each w seconds, which is also the burst, by group: "reads";q=20;w=1`)
	response.Headers[stateHeader] = textHeader(`What remains of it, and in how many seconds more is there: "reads";r=19;t=1`)
	if a.OlderRateFields {
		response.Headers[olderLimitHeader] = textHeader("The quota")
		response.Headers[olderRemainingHeader] = textHeader("What remains of it")
		response.Headers[olderResetHeader] = textHeader("In how many seconds more is there")
	}
}
