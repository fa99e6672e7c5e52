package rebuild

import "github.com/cespare/xxhash/v2"

// cells are counts and digests of a set of keys, by a part of their hashes. Two sets with equal cells are
// equal; where they are not, only the keys of the cells that differ have to be looked at. The size does
// not depend on that of the sets.
type cells [1 << 12]cell

type cell struct {
	keys int64
	sum  uint64
}

func (c *cells) of(hash uint64) *cell { return &c[hash%uint64(len(c))] }

func (c *cells) add(hash uint64) {
	cell := c.of(hash)
	cell.keys++
	cell.sum += mixed(hash)
}

func hashOf(text string) uint64 { return xxhash.Sum64String(text) }

// mixed spreads a hash, so that sums of alike keys do not meet (the finalizer of SplitMix64).
func mixed(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
