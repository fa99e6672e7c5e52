package changes

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// Cursor is a place in the feed. It is a checked text, not a signed one: whoever makes one up is told
// changes of what it may see anyway.
type Cursor struct {
	Position int64     // all changes up to it were told
	Question uint32    // what was asked; another question needs another copy
	Policy   uint32    // by which policy the copy was read
	CheckAt  time.Time // then the copy has to be read once more; zero: it is settled
}

// ErrCursor refuses a text that Encode did not make.
var ErrCursor = errors.New("not a cursor of this feed")

const (
	// cursorVersion allows another content later.
	cursorVersion = 1
	cursorBytes   = 1 + 8 + 4 + 4 + 4 + 4
)

// Encode gives the cursor as an opaque text.
func (c Cursor) Encode() string {
	data := make([]byte, 0, cursorBytes)
	data = append(data, cursorVersion)
	data = binary.BigEndian.AppendUint64(data, uint64(c.Position))
	data = binary.BigEndian.AppendUint32(data, c.Question)
	data = binary.BigEndian.AppendUint32(data, c.Policy)
	check := uint32(0)
	if !c.CheckAt.IsZero() {
		check = uint32(c.CheckAt.Unix())
	}
	data = binary.BigEndian.AppendUint32(data, check)
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
	return base64.RawURLEncoding.EncodeToString(data)
}

// ParseCursor is the inverse of Encode.
func ParseCursor(text string) (Cursor, error) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorBytes) {
		return Cursor{}, ErrCursor
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || data[0] != cursorVersion {
		return Cursor{}, ErrCursor
	}
	content, sum := data[:cursorBytes-4], binary.BigEndian.Uint32(data[cursorBytes-4:])
	if crc32.ChecksumIEEE(content) != sum {
		return Cursor{}, ErrCursor
	}
	c := Cursor{
		Position: int64(binary.BigEndian.Uint64(data[1:])),
		Question: binary.BigEndian.Uint32(data[9:]),
		Policy:   binary.BigEndian.Uint32(data[13:]),
	}
	if check := binary.BigEndian.Uint32(data[17:]); check != 0 {
		c.CheckAt = time.Unix(int64(check), 0).UTC()
	}
	if c.Position < 0 {
		return Cursor{}, ErrCursor
	}
	return c, nil
}
