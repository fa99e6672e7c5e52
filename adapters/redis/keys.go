package redis

import (
	"strconv"

	"andes/projections"
)

// buckets is how many slots the keys of a cluster share; a multi-key command goes to each at most once.
const buckets = 64

const clusterSlots = 1 << 14

// tags are the buckets' hash tags. The slot of tag i lies in the i-th of the equal parts of all slots, so
// that nodes with equal shares of the slots get equal shares of the buckets.
var tags = evenTags()

func evenTags() [buckets]string {
	const share = clusterSlots / buckets
	var found [buckets]string
	for n, missing := 0, buckets; missing > 0; n++ {
		tag := strconv.Itoa(n)
		if part := slotOf(tag) / share; found[part] == "" {
			found[part] = tag
			missing--
		}
	}
	return found
}

// slotOf is the slot of a key without hash tag: its CRC16 (XMODEM) by the Redis Cluster specification.
func slotOf(key string) int {
	const polynomial = 0x1021
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ polynomial
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % clusterSlots
}

// hash is FNV-1a.
func hash(text string) uint32 {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * prime
	}
	return h
}

func bucketOf(entryKey string) int { return int(hash(entryKey) % buckets) }

// layout makes the keys of one generation.
type layout struct{ prefix, generation string }

func (c *connection) layout(generation projections.Generation) layout {
	return layout{prefix: c.config.Prefix, generation: generation.String()}
}

func (l layout) key(entryKey string) string {
	return l.prefix + "{" + tags[bucketOf(entryKey)] + "}" + l.generation + ":" + entryKey
}
