package redis

import (
	"fmt"
	"slices"
	"testing"
)

func TestSlotsAreThoseOfTheClusterSpecification(t *testing.T) {
	// From the specification's appendix, and CLUSTER KEYSLOT.
	for key, want := range map[string]int{"123456789": 0x31C3, "foo": 12182, "": 0} {
		if got := slotOf(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

func TestBucketsAreSpreadEvenlyOverTheSlots(t *testing.T) {
	for i, tag := range tags {
		if slot := slotOf(tag); slot*buckets/clusterSlots != i {
			t.Errorf("tag %q of bucket %d has slot %d", tag, i, slot)
		}
	}
}

func TestKeysAreSpreadOverTheBuckets(t *testing.T) {
	const keys = 100 * buckets
	var counts [buckets]int
	for i := range keys {
		counts[bucketOf(fmt.Sprintf("stock:%d", 20000+i))]++
	}
	for bucket, count := range counts {
		if count < 50 || count > 170 {
			t.Errorf("bucket %d has %d keys of %d", bucket, count, keys)
		}
	}
}

func TestAKeyNamesBucketGenerationAndEntry(t *testing.T) {
	client := &connection{config: Config{Prefix: "andes:"}}
	key := client.layout(3).key("stock:{A}")
	if want := "andes:{" + tags[bucketOf("stock:{A}")] + "}3:stock:{A}"; key != want {
		t.Errorf("key %q, want %q", key, want)
	}
}

func TestACommandIsBoundedInKeysAndInBytes(t *testing.T) {
	sizes := func(size int, clustered bool) []int {
		client := &connection{clustered: clustered}
		var lengths []int
		for _, group := range client.group(10, 4, func(i int) (string, int) { return fmt.Sprint(i), size }) {
			lengths = append(lengths, len(group))
		}
		return lengths
	}
	for outcome, got := range map[string][2][]int{
		"by keys":                  {sizes(1, false), {4, 4, 2}},
		"by bytes":                 {sizes(maxBytesPerCommand/3, false), {3, 3, 3, 1}},
		"one that is large itself": {sizes(maxBytesPerCommand+1, false), {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: groups of %v, want %v", outcome, got[0], got[1])
		}
	}
	if groups := sizes(1, true); len(groups) < 5 {
		t.Errorf("in a cluster ten keys are %d groups", len(groups))
	}
}
