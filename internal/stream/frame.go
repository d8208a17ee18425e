package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A frame is one message of the stream: the records that were appended together.
//
//	offset  bytes  what
//	0       3      "SLF"
//	3       1      version: 1
//	4       4      CRC32C of bytes 0–3 and of everything from byte 8, little endian
//	8       2      number of records, little endian
//	10      …      each record: its length as a uvarint, its bytes
//	…       26     for each record with an idempotency key, in order: its slot (2 bytes, little endian) and the 24
//	               bytes of its key
//
// The first eight bytes are so in every version. Nothing follows. A frame of no records is legal: it proves that a
// write is possible. With a key, of slot 0, it says that the key was used before the stream was restored into an
// external engine: such an engine finds a key only as the message with its name. The number of records 65535 with
// nothing behind it marks a sequence number whose frame the engine has lost.
const (
	frameHeader  = 10
	frameKeySize = 2 + len(key{})
	lostMark     = 0xFFFF
	// MaxSlots is how many records a frame holds at most; a submission id has 12 bits for the slot.
	MaxSlots = 4096
)

// FrameVersion is the version of frames that this program writes, and the latest that it reads.
const FrameVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrFrame is wrapped by every error about bytes that are not a whole frame.
var ErrFrame = errors.New("not a whole frame")

// ErrVersion says that a frame is whole, and of a later version than this program reads.
var ErrVersion = errors.New("the frame is of a later version")

// beginFrame returns b emptied and with an empty header.
func beginFrame(b []byte) []byte {
	return append(b[:0], 'S', 'L', 'F', FrameVersion, 0, 0, 0, 0, 0, 0)
}

// appendRecord adds a record to the frame in b.
func appendRecord(b, record []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(record)))
	return append(b, record...)
}

// appendKeys ends the frame in b with the keys of its records.
func appendKeys(b []byte, keys []slotKey) []byte {
	for _, k := range keys {
		b = binary.LittleEndian.AppendUint16(b, k.slot)
		b = append(b, k.key[:]...)
	}
	return b
}

// sealFrame completes the header of the frame in b, which holds n records.
func sealFrame(b []byte, n int) {
	binary.LittleEndian.PutUint16(b[8:], uint16(n))
	binary.LittleEndian.PutUint32(b[4:], frameSum(b))
}

func frameSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

// AppendFrame appends a frame of the given records to b. There are at most MaxSlots.
func AppendFrame(b []byte, records ...[]byte) []byte {
	return append(b, frameOf(records, nil, nil)...)
}

// lostFrame returns the frame that takes the place of a lost one.
func lostFrame() []byte {
	f := beginFrame(nil)
	sealFrame(f, lostMark)
	return f
}

// errLost means a frame that takes the place of a lost one.
var errLost = fmt.Errorf("%w: the engine has lost it", ErrFrame)

// DecodeFrame returns the records of a frame; they share memory with b. The error wraps ErrFrame and says what is
// wrong without showing any of the bytes.
func DecodeFrame(b []byte) ([][]byte, error) {
	records, _, err := decodeFrame(b)
	return records, err
}

// decodeFrame returns the records of a frame, and the keys of those that have one.
func decodeFrame(b []byte) ([][]byte, []slotKey, error) {
	if len(b) < frameHeader {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrFrame, len(b))
	}
	if string(b[:3]) != "SLF" {
		return nil, nil, fmt.Errorf("%w: foreign bytes", ErrFrame)
	}
	if binary.LittleEndian.Uint32(b[4:]) != frameSum(b) {
		return nil, nil, fmt.Errorf("%w: checksum differs", ErrFrame)
	}
	if b[3] != FrameVersion {
		return nil, nil, fmt.Errorf("%w: %w: it has version %d, this program knows %d", ErrFrame, ErrVersion, b[3],
			FrameVersion)
	}
	n := int(binary.LittleEndian.Uint16(b[8:]))
	if n == lostMark && len(b) == frameHeader {
		return nil, nil, errLost
	}
	if n > MaxSlots {
		return nil, nil, fmt.Errorf("%w: %d records", ErrFrame, n)
	}
	records := make([][]byte, n)
	rest := b[frameHeader:]
	for i := range records {
		size, w := binary.Uvarint(rest)
		if w <= 0 || size > uint64(len(rest)-w) {
			return nil, nil, fmt.Errorf("%w: record %d of %d has no end", ErrFrame, i, n)
		}
		end := w + int(size)
		records[i], rest = rest[w:end:end], rest[end:]
	}
	keys, err := decodeKeys(rest, max(1, n))
	return records, keys, err
}

// decodeKeys reads the keys of a frame, of slots below n.
func decodeKeys(b []byte, n int) ([]slotKey, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b)%frameKeySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last record", ErrFrame, len(b))
	}
	keys := make([]slotKey, len(b)/frameKeySize)
	next := 0
	for i := range keys {
		k := &keys[i]
		k.slot = binary.LittleEndian.Uint16(b)
		copy(k.key[:], b[2:])
		b = b[frameKeySize:]
		if int(k.slot) < next || int(k.slot) >= n {
			return nil, fmt.Errorf("%w: key %d of %d has no record", ErrFrame, i, len(keys))
		}
		next = int(k.slot) + 1
	}
	return keys, nil
}
