package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Group is a group of routes that share a quota.
type Group string

// The groups. Orders have their own, so that a burst of reads never stops a partner from selling.
const (
	Reads  Group = "reads"
	Orders Group = "orders"
)

// Groups are all of them, in the order in which a tier's rates are written.
var Groups = []Group{Reads, Orders}

// Tier is what its partners may ask for.
type Tier struct {
	Name     string
	limits   [2]Limit // by the order of Groups
	policies [2]string
}

func (g Group) index() int {
	if g == Orders {
		return 1
	}
	return 0
}

// Of gives the limit of a group.
func (t *Tier) Of(group Group) Limit {
	return t.limits[group.index()]
}

// Tiers are all tiers, the smallest first. They are never changed: new ones take their place.
type Tiers []Tier

// DefaultTiers are those of the specification, in requests a second.
const DefaultTiers = "bronze=20/2,silver=100/10,gold=500/50"

// TierNames are the tiers that a partner may have; each needs its rates.
var TierNames = []string{"bronze", "silver", "gold"}

// Bounds of the settings.
const (
	maxPerSecond    = 1_000_000
	maxBurstSeconds = 60
)

// ParseTiers reads rates as "bronze=20/2,silver=100/10,gold=500/50": reads and orders a second. The burst is what
// burstSeconds of quota are.
func ParseTiers(text string, burstSeconds int64) (Tiers, error) {
	if burstSeconds < 1 || burstSeconds > maxBurstSeconds {
		return nil, fmt.Errorf("quota: a burst of %d s is not 1..%d s", burstSeconds, maxBurstSeconds)
	}
	var tiers Tiers
	var named []string
	var faults []error
	for row := range strings.SplitSeq(text, ",") {
		row = strings.TrimSpace(row)
		name, _, _ := strings.Cut(row, "=")
		named = append(named, name)
		tier, err := parseTier(row, burstSeconds)
		if err == nil && slices.ContainsFunc(tiers, func(t Tier) bool { return t.Name == tier.Name }) {
			err = fmt.Errorf("quota: the tier %s is there twice", tier.Name)
		}
		tiers, faults = append(tiers, tier), append(faults, err)
	}
	for _, name := range TierNames {
		if !slices.Contains(named, name) {
			faults = append(faults, fmt.Errorf("quota: the tier %s has no rates", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	slices.SortStableFunc(tiers, func(x, y Tier) int { return int(x.limits[0].PerSecond - y.limits[0].PerSecond) })
	return tiers, nil
}

func parseTier(row string, burstSeconds int64) (Tier, error) {
	name, rates, found := strings.Cut(row, "=")
	texts := strings.Split(rates, "/")
	if !found || !slices.Contains(TierNames, name) || len(texts) != len(Groups) {
		return Tier{}, fmt.Errorf("quota: %q is not <tier>=<reads a second>/<orders a second>; the tiers are %s", row, strings.Join(TierNames, ", "))
	}
	tier := Tier{Name: name}
	for i, text := range texts {
		rate, err := strconv.ParseInt(text, 10, 64)
		if err != nil || rate < 1 || rate > maxPerSecond {
			return Tier{}, fmt.Errorf("quota: the rate %q of %s is not a whole number of 1..%d", text, name, maxPerSecond)
		}
		tier.limits[i] = Limit{PerSecond: rate, Burst: rate * burstSeconds}
		tier.policies[i] = policyOf(Groups[i], tier.limits[i])
	}
	return tier, nil
}

// String writes the tiers as ParseTiers reads them, in the order of TierNames: equal tiers have equal texts.
func (t Tiers) String() string {
	rows := make([]string, 0, len(t))
	for _, name := range TierNames {
		if i := slices.IndexFunc(t, func(tier Tier) bool { return tier.Name == name }); i >= 0 {
			rows = append(rows, fmt.Sprintf("%s=%d/%d", name, t[i].limits[0].PerSecond, t[i].limits[1].PerSecond))
		}
	}
	return strings.Join(rows, ",")
}

// Of gives a tier, and the smallest one for a name that is none.
func (t Tiers) Of(name string) *Tier {
	for i := range t {
		if t[i].Name == name {
			return &t[i]
		}
	}
	return &t[0]
}

// Lowered gives the tiers with all but the highest left a share of their limits, and at least one request a second; 0:
// as they are.
func (t Tiers) Lowered(percent int64) Tiers {
	if percent <= 0 || percent >= 100 {
		return t
	}
	lowered := slices.Clone(t)
	for i := range lowered[:len(lowered)-1] {
		for g, limit := range lowered[i].limits {
			seconds := limit.Burst / limit.PerSecond
			rate := max(1, limit.PerSecond*percent/100)
			lowered[i].limits[g] = Limit{PerSecond: rate, Burst: rate * seconds}
			lowered[i].policies[g] = policyOf(Groups[g], lowered[i].limits[g])
		}
	}
	return lowered
}
