package kafka

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
)

func members(n int, topics ...string) map[string]sarama.ConsumerGroupMemberMetadata {
	list := map[string]sarama.ConsumerGroupMemberMetadata{}
	for i := range n {
		list[fmt.Sprintf("m%d", i)] = sarama.ConsumerGroupMemberMetadata{Topics: topics}
	}
	return list
}

func partitionsOf(counts map[string]int32) map[string][]int32 {
	all := map[string][]int32{}
	for topic, count := range counts {
		for partition := range count {
			all[topic] = append(all[topic], partition)
		}
	}
	return all
}

func TestWhatIsParkedOfAPartitionIsItsMembers(t *testing.T) {
	parked := []string{"retry", "replay"}
	for _, counts := range []map[string]int32{
		{"origin": 10, "retry": 6, "replay": 6}, {"origin": 3, "retry": 6, "replay": 6}, {"origin": 7, "other": 2, "retry": 4, "replay": 6},
		{"origin": 10, "retry": 10, "replay": 6}, {"origin": 5, "retry": 1, "replay": 3}, {"origin": 6, "retry": 6, "replay": 6},
	} {
		s, err := sharesOf(counts, parked)
		if err != nil {
			t.Fatal(err)
		}
		topics := slices.Sorted(maps.Keys(counts))
		for n := 1; n <= 7; n++ {
			plan, err := byShares{sarama.NewBalanceStrategyRange(), parked}.Plan(members(n, topics...), partitionsOf(counts))
			if err != nil {
				t.Fatal(err)
			}
			owner := map[string]string{}
			for member, assigned := range plan {
				whole, broken := s.owned(assigned)
				if len(broken) > 0 || len(whole) == 0 {
					t.Errorf("%v, %d members: %s has %v whole and %v broken", counts, n, member, whole, broken)
				}
				for topic, partitions := range assigned {
					for _, partition := range partitions {
						owner[fmt.Sprint(topic, partition)] += member
					}
				}
			}
			for topic, count := range counts {
				for partition := range count {
					of := owner[fmt.Sprint(topic, partition)]
					for _, park := range parked {
						if is := owner[fmt.Sprint(park, partition%counts[park])]; len(of) != 2 || is != of {
							t.Errorf("%v, %d members: %s/%d is %q's, what is parked of it in %s is %q's", counts, n, topic, partition, of, park, is)
						}
					}
				}
			}
		}
	}
}

func TestEqualTopicsAreSharedByRange(t *testing.T) {
	counts := map[string]int32{"origin": 6, "retry": 6, "replay": 6}
	for n := 1; n <= 7; n++ {
		group := members(n, "origin", "retry", "replay")
		ours, err := byShares{sarama.NewBalanceStrategyRange(), []string{"retry", "replay"}}.Plan(group, partitionsOf(counts))
		byRange, failed := sarama.NewBalanceStrategyRange().Plan(group, partitionsOf(counts))
		if err != nil || failed != nil || !reflect.DeepEqual(ours, byRange) {
			t.Errorf("%d members: %v, by range %v", n, ours, byRange)
		}
	}
}

func TestTheLettersOfAPartAreFound(t *testing.T) {
	for _, c := range []struct{ parts, letters int32 }{{6, 6}, {6, 4}, {2, 3}, {6, 1}, {1, 5}, {4, 12}} {
		s := shares{parts: c.parts}
		for partition := range int32(30) {
			if found := s.letters(partition%c.parts, c.letters); !slices.Contains(found, partition%c.letters) {
				t.Errorf("%+v: letters of partition %d are looked for in %v", c, partition, found)
			}
		}
	}
	if found := (shares{parts: 6}).letters(2, 6); !slices.Equal(found, []int32{2}) {
		t.Errorf("%v", found)
	}
}

func TestTopicsOfAnotherSizeAreTold(t *testing.T) {
	if told := tellSizes(map[string]int{"a": 6, "b": 6}); told != "6 partitions" {
		t.Error(told)
	}
	if told := tellSizes(map[string]int{"commands.oms": 10, "oms.dlq": 6, "oms.replay": 6}); !strings.HasPrefix(told, "6 partitions; but commands.oms 10: ") {
		t.Error(told)
	}
}
