package projections

import (
	"time"

	"andes/commands/source"
)

// Sources is the read model of the feeds' watermarks, by feed. A feed that never caught up is not shown.
var Sources = On("source", source.Aggregate, func(s source.State) []byte {
	if s.SyncedAt.IsZero() {
		return nil
	}
	return EncodeSource(s.SyncedAt)
})

// SourceKey is the key of a feed's watermark.
func SourceKey(feed string) string { return key(Sources.Name, feed) }

// EncodeSource gives the watermark in milliseconds since 1970. It is cut, never rounded up: a feed must
// not look more recent than it is.
func EncodeSource(syncedAt time.Time) []byte { return appendTime(nil, syncedAt) }

// DecodeSource is the inverse of EncodeSource.
func DecodeSource(value string) (time.Time, error) {
	f := readFields(value)
	at := f.time()
	return at, f.end()
}
