package rebuild

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

// hashOf is FNV-1a.
func hashOf(texts ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, text := range texts {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * prime
		}
		h = (h ^ 0xff) * prime // no text has this byte: ("a", "b") is not ("ab", "")
	}
	return h
}

// mixed spreads a hash, so that sums of alike keys do not meet (the finalizer of SplitMix64).
func mixed(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
