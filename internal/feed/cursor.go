package feed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"sluice/internal/stream"
)

// A cursor is a position in every partition. As text it is base64url of a version, 1, and of this, encrypted and
// authenticated with AES-GCM under a key that all nodes share:
//
//	bytes  what
//	8      identity of the stream: when its first partition was made, in nanoseconds
//	8      for each partition: sequence number of the next frame
//	4      for each partition: rows of that frame that were read
//
// It is encrypted because a position shows how much all senders send, and a reader may be bound to one dataset. For the same
// reason its length does not depend on the positions, and two cursors of the same place differ.
//
// Rows are counted whether or not they were handed over, so a position does not depend on who reads. A partition that is
// not in the cursor was made later: everything in it is still to be read.
const cursorVersion = 1

// positionSize is that of one partition in a cursor.
const positionSize = 8 + 4

// Earliest is the cursor, as text, of the oldest position that the stream holds.
const Earliest = "earliest"

// cursorMax bounds the text of a cursor: that of 64 partitions is shorter.
const cursorMax = 2048

var errCursor = errors.New("not a cursor")

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
		return nil, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return nil, errCursor
	}
	b, err = f.seal.Open(nil, nil, b[1:], b[:1])
	if err != nil || len(b) < 8+positionSize || (len(b)-8)%positionSize != 0 {
		return nil, errCursor
	}
	c := &Cursor{stream: binary.BigEndian.Uint64(b)}
	for b = b[8:]; len(b) > 0; b = b[positionSize:] {
		c.parts = append(c.parts, position{binary.BigEndian.Uint64(b), uint64(binary.BigEndian.Uint32(b[8:]))})
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
