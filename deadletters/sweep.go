package deadletters

import "context"

// swept is a window of a partition: what was kept of the letters in it, with their settlements.
type swept struct {
	letters     []*Letter
	settlements map[int64]Settlement
	next        int64 // where the next window begins
}

// Bounds of a window.
const (
	windowLetters = 1000
	windowBytes   = 8 << 20
)

// sweep goes through a partition window by window, until each says that it has enough. keep says which
// letters are wanted, and may drop their values.
func (s *Service) sweep(ctx context.Context, consumer string, b Bounds, keep func(*Letter) bool, each func(swept) (goOn bool, err error)) error {
	var (
		held     []*Letter
		seen     int
		bytes    int
		from     = b.First
		goOn     = true
		failed   error
		complete = func(next int64) {
			w := swept{letters: held, next: next}
			if len(held) > 0 {
				w.settlements, failed = s.Ledger.Settlements(ctx, consumer, b.Partition, from, next)
			}
			if failed == nil {
				goOn, failed = each(w)
			}
			held, seen, bytes, from = nil, 0, 0, next
		}
	)
	err := s.Log.Scan(ctx, consumer, b.Partition, b.First, b.End, func(l *Letter) bool {
		seen++
		if keep(l) {
			held = append(held, l)
			bytes += len(l.Value)
		}
		if seen >= windowLetters || bytes >= windowBytes {
			complete(l.Offset + 1)
		}
		return goOn && failed == nil
	})
	if err == nil && failed == nil && goOn && seen > 0 {
		complete(b.End)
	}
	if failed != nil {
		return failed
	}
	return err
}
