package kafka

import (
	"testing"

	"pgregory.net/rapid"
)

// The low-water mark never passes an unfinished offset, and reaches the end when all are finished, in
// whatever order that happens and with whatever holes the offsets have.
func TestLowWaterNeverPassesAnUnfinishedOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 300
		w := newLowWater(limit)
		unfinished := map[uint64]int64{} // by sequence number
		next, committed := int64(0), int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"follow": func(t *rapid.T) {
				if w.full() {
					return
				}
				next += rapid.Int64Range(1, 5).Draw(t, "hole")
				unfinished[w.follow(next)] = next
			},
			"finish": func(t *rapid.T) {
				if len(unfinished) == 0 {
					return
				}
				seqs := make([]uint64, 0, len(unfinished))
				for seq := range unfinished {
					seqs = append(seqs, seq)
				}
				seq := rapid.SampledFrom(sorted(seqs)).Draw(t, "seq")
				delete(unfinished, seq)
				if commit, moved := w.finish(seq); moved {
					if commit <= committed {
						t.Fatalf("the mark went from %d to %d", committed, commit)
					}
					committed = commit
				}
			},
			"": func(t *rapid.T) {
				for _, offset := range unfinished {
					if committed > offset {
						t.Fatalf("%d is committed, %d is not finished", committed, offset)
					}
				}
				if len(unfinished) == 0 && next > 0 && committed != next+1 {
					t.Fatalf("%d is committed, everything up to %d is finished", committed, next)
				}
			},
		})
	})
}

func TestLowWaterIsFullAtItsLimit(t *testing.T) {
	w := newLowWater(100)
	first := w.follow(7)
	for offset := int64(8); !w.full(); offset++ {
		w.finish(w.follow(offset))
	}
	if following := w.next - w.oldest; following != 100 {
		t.Errorf("full with %d offsets, want 100", following)
	}
	if commit, moved := w.finish(first); !moved || commit != 107 || w.full() {
		t.Errorf("commit %d, moved %v, full %v", commit, moved, w.full())
	}
}
