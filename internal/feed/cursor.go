package feed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/stream"
)

// A cursor is a position in every partition. As text it is base64url of a version, 1, and of this, encrypted and
// authenticated with AES-GCM under a key that all nodes share:
//
//	bytes  what
//	8      identity of the stream: when its first partition was made, in nanoseconds
//	8      identity of the log of erased events
//	8      number of its next entry
//	4      lines of that entry that were read
//	8      complete_through, Unix seconds
//	8      for each partition: sequence number of the next frame
//	4      for each partition: rows of that frame that were read
//
// It is encrypted because a position shows how much all senders send, and a reader may be bound to one dataset. For the
// same reason its length does not depend on the positions, and two cursors of the same place differ.
//
// Rows are counted whether or not they were handed over, so a position does not depend on who reads. A partition that
// is not in the cursor was made later: everything in it is still to be read.
const cursorVersion = 1

// positionSize is that of one partition in a cursor, headSize what comes before them.
const (
	positionSize = 8 + 4
	headSize     = 8 + 8 + positionSize + 8
)

// Earliest is the cursor, as text, of the oldest position that the stream holds.
const Earliest = "earliest"

// cursorMax bounds the text of a cursor: that of 64 partitions is shorter.
const cursorMax = 2048

// position is a place in one partition.
type position struct {
	seq  uint64 // of the next frame
	rows uint64 // of it that were read
}

// Cursor is a position in every partition. It belongs to one stream.
type Cursor struct {
	stream   uint64 // its identity
	parts    []position
	log      uint64   // identity of the log of erased events
	erased   position // in that log
	complete int64    // no row follows that was received before, Unix seconds

	// when the last frame was stored whose rows were handed out; zero before the first. Not part of the text
	read time.Time
}

// stream tells a stream from another one in its place.
func (e *ends) stream() uint64 { return uint64(e.bounds[0].Created.UnixNano()) }

// newSeal returns what encrypts cursors.
func newSeal(secret []byte) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, secret, nil, "feed cursor", 32)
	if err != nil {
		panic(err) // as with the two below: the lengths are constants that are allowed
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return seal
}

// Text returns a cursor as text.
func (f *Feed) Text(c *Cursor) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 128), c.stream)
	b = binary.BigEndian.AppendUint64(b, c.log)
	b = binary.BigEndian.AppendUint64(b, c.erased.seq)
	b = binary.BigEndian.AppendUint32(b, uint32(c.erased.rows))
	b = binary.BigEndian.AppendUint64(b, uint64(c.complete))
	for _, p := range c.parts {
		b = binary.BigEndian.AppendUint64(b, p.seq)
		b = binary.BigEndian.AppendUint32(b, uint32(p.rows))
	}
	version := []byte{cursorVersion}
	return base64.RawURLEncoding.EncodeToString(f.seal.Seal(version, nil, b, version))
}

// parse reads a cursor. It does not say whether the stream still holds it.
func (f *Feed) parse(text string) (*Cursor, error) {
	if len(text) > cursorMax {
		return nil, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return nil, ErrCursor
	}
	b, err = f.seal.Open(nil, nil, b[1:], b[:1])
	if err != nil || len(b) < headSize+positionSize || (len(b)-headSize)%positionSize != 0 {
		return nil, ErrCursor
	}
	c := &Cursor{
		stream: binary.BigEndian.Uint64(b), log: binary.BigEndian.Uint64(b[8:]),
		erased:   position{binary.BigEndian.Uint64(b[16:]), uint64(binary.BigEndian.Uint32(b[24:]))},
		complete: int64(binary.BigEndian.Uint64(b[28:])),
	}
	for b = b[headSize:]; len(b) > 0; b = b[positionSize:] {
		c.parts = append(c.parts, position{binary.BigEndian.Uint64(b), uint64(binary.BigEndian.Uint32(b[8:]))})
	}
	return c, nil
}

// told is the number of the first entry of the log of erased events of which nothing was handed out.
func (c *Cursor) told() uint64 {
	if c.erased.rows > 0 {
		return c.erased.seq + 1
	}
	return c.erased.seq
}

// behind says whether everything was read that the stream held at a look.
func (c *Cursor) behind(b []stream.Bounds) bool {
	for p := range b {
		if p >= len(c.parts) || c.parts[p].seq <= b[p].Last {
			return false
		}
	}
	return true
}

// grow adds the partitions that were made after the cursor.
func (c *Cursor) grow(partitions int) {
	for len(c.parts) < partitions {
		c.parts = append(c.parts, position{seq: 1})
	}
}

// atSnapshot returns the cursor right behind what a snapshot of the table holds, and behind what was erased from it.
// Entries of the log that are gone name no row of a snapshot.
func atSnapshot(e ends, snap *lake.Snapshot) *Cursor {
	c := &Cursor{
		stream: e.stream(), log: e.log.ID,
		erased: position{seq: max(erasure.Mark(snap.Deleted).In(e.log)+1, e.log.First)},
	}
	for p := range e.bounds {
		c.parts = append(c.parts, position{seq: snap.Watermarks[uint8(p)] + 1})
	}
	return c
}

// held says whether the stream, and the log of erased events, hold everything from the cursor on.
func (c *Cursor) held(e ends) bool {
	if c.stream != e.stream() || len(c.parts) > len(e.bounds) ||
		c.log != e.log.ID || c.erased.seq < e.log.First || c.erased.seq > e.log.Last+1 {
		return false
	}
	for p, bounds := range e.bounds {
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
