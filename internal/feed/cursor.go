package feed

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"sluice/internal/stream"
)

// A cursor is a position in every partition. As text it is base64url of:
//
//	bytes  what
//	1      version, 1
//	8      identity of the stream: when its first partition was made, in nanoseconds, big endian
//	…      number of partitions, as a uvarint
//	…      for each partition: sequence number of the next frame, rows of that frame that were read; uvarints
//	4      CRC-32C of everything before, little endian
//
// Rows are counted whether or not they were handed over, so a position does not depend on who reads. A partition that is
// not in the cursor was made later: everything in it is still to be read.
const cursorVersion = 1

// Earliest is the cursor, as text, of the oldest position that the stream holds.
const Earliest = "earliest"

// cursorMax bounds the text of a cursor: that of 64 partitions is shorter.
const cursorMax = 2048

var errCursor = errors.New("not a cursor")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// position is a place in one partition.
type position struct {
	seq  uint64 // of the next frame
	rows uint64 // of it that were read
}

// Cursor is a position in every partition. It belongs to one stream.
type Cursor struct {
	stream uint64 // its identity
	parts  []position

	read time.Time // when the last frame was stored whose rows were handed out; zero before the first. Not part of the text
}

// identity tells a stream from another one in its place.
func identity(b []stream.Bounds) uint64 { return uint64(b[0].Created.UnixNano()) }

// String returns the cursor as text.
func (c *Cursor) String() string {
	b := make([]byte, 0, 64)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, c.stream)
	b = binary.AppendUvarint(b, uint64(len(c.parts)))
	for _, p := range c.parts {
		b = binary.AppendUvarint(b, p.seq)
		b = binary.AppendUvarint(b, p.rows)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads a cursor. It does not say whether the stream still holds it.
func parseCursor(text string) (*Cursor, error) {
	if len(text) > cursorMax {
		return nil, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+8+1+4 || b[0] != cursorVersion {
		return nil, errCursor
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, errCursor
	}
	c := &Cursor{stream: binary.BigEndian.Uint64(body[1:])}
	rest := body[9:]
	next := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			err, rest = errCursor, nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	n := next()
	if n > stream.MaxPartitions {
		return nil, errCursor
	}
	for range n {
		p := position{next(), next()}
		if p.seq == 0 {
			return nil, errCursor
		}
		c.parts = append(c.parts, p)
	}
	if err != nil || len(rest) > 0 {
		return nil, errCursor
	}
	return c, nil
}

// grow adds the partitions that were made after the cursor.
func (c *Cursor) grow(partitions int) {
	for len(c.parts) < partitions {
		c.parts = append(c.parts, position{seq: 1})
	}
}

// atWatermarks returns the cursor right behind what a snapshot of the table holds.
func atWatermarks(id uint64, partitions int, watermarks map[uint8]uint64) *Cursor {
	c := &Cursor{stream: id}
	for p := range partitions {
		c.parts = append(c.parts, position{seq: watermarks[uint8(p)] + 1})
	}
	return c
}

// held says whether the stream holds everything from the cursor on.
func (c *Cursor) held(b []stream.Bounds) bool {
	if c.stream != identity(b) || len(c.parts) > len(b) {
		return false
	}
	for p, bounds := range b {
		at := position{seq: 1}
		if p < len(c.parts) {
			at = c.parts[p]
		}
		if at.seq < bounds.First || at.seq > bounds.Last+1 {
			return false
		}
	}
	return true
}
