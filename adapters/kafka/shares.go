package kafka

import (
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"
)

// shares are the parts that the partitions of a consumer's topics fall into, so that a record and all that is parked
// of its partition are in the same part, whatever the topics' numbers of partitions are. A record of the origin's
// partition p is parked in the partition p mod n of a topic that has n. With parts, which divides every such n, all of
// them are in the part p mod parts. Where all topics have equally many partitions, a part is one of each.
type shares struct {
	parts  int32
	counts map[string]int32 // the numbers of partitions, by topic
}

// sharesOf makes the shares from the numbers of partitions.
func sharesOf(counts map[string]int32, parked []string) (shares, error) {
	s := shares{counts: counts}
	for _, topic := range parked {
		s.parts = divisor(counts[topic], s.parts)
	}
	if s.parts < 1 {
		return s, fmt.Errorf("%w: none of %v has partitions", sarama.ErrUnknownTopicOrPartition, parked)
	}
	return s, nil
}

// divisor is the greatest common one.
func divisor(a, b int32) int32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// of gives the partitions of a part, of a topic that has so many.
func (s shares) of(part, count int32) (partitions []int32) {
	for partition := part; partition < count; partition += s.parts {
		partitions = append(partitions, partition)
	}
	return partitions
}

// owned gives the parts of which every partition is assigned to this member. Only there it knows all that is
// outstanding.
func (s shares) owned(claims map[string][]int32) (whole, broken []int32) {
	has, all := map[int32]int{}, map[int32]int{}
	for topic, count := range s.counts {
		for _, partition := range claims[topic] {
			has[partition%s.parts]++
		}
		for part := range s.parts {
			all[part] += len(s.of(part, count))
		}
	}
	for _, part := range slices.Sorted(maps.Keys(has)) {
		if has[part] == all[part] {
			whole = append(whole, part)
		} else {
			broken = append(broken, part)
		}
	}
	return whole, broken
}

// most is the number of partitions of the topic that has most.
func (s shares) most() int32 { return slices.Max(slices.Collect(maps.Values(s.counts))) }

// letters gives the partitions of a DLQ that hold what was read in a part.
func (s shares) letters(part, count int32) (partitions []int32) {
	step := divisor(s.parts, count)
	for partition := part % step; partition < count; partition += step {
		partitions = append(partitions, partition)
	}
	return partitions
}

// byShares assigns partitions so that a part is wholly one member's. Where all topics have equally many partitions
// that is the assignment by range.
type byShares struct {
	sarama.BalanceStrategy // by range
	parked                 []string
}

// balance gives how a member wants partitions to be assigned, the best first. While a group has members that know
// only the range, it is that.
func (q *sequencing) balance() []sarama.BalanceStrategy {
	byRange := sarama.NewBalanceStrategyRange()
	return []sarama.BalanceStrategy{byShares{byRange, q.parkedTopics()}, byRange}
}

// Name implements sarama.BalanceStrategy.
func (byShares) Name() string { return "andes-shares" }

// Plan implements sarama.BalanceStrategy.
func (b byShares) Plan(members map[string]sarama.ConsumerGroupMemberMetadata, topics map[string][]int32) (sarama.BalanceStrategyPlan, error) {
	counts := map[string]int32{}
	for topic, partitions := range topics {
		counts[topic] = int32(len(partitions))
	}
	s, err := sharesOf(counts, b.parked)
	if err != nil {
		return b.BalanceStrategy.Plan(members, topics)
	}
	parts := make([]int32, s.parts)
	for i := range parts {
		parts[i] = int32(i)
	}
	assigned := map[string][]int32{}
	for topic := range topics {
		assigned[topic] = parts
	}
	byPart, err := b.BalanceStrategy.Plan(members, assigned)
	plan := sarama.BalanceStrategyPlan{}
	for member, parts := range byPart {
		for topic, mine := range parts {
			for _, part := range mine {
				plan.Add(member, topic, s.of(part, counts[topic])...)
			}
		}
	}
	return plan, err
}
