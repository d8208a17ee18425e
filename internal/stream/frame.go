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
//	3       1      version: 1; 2 where a record has an idempotency key; 3 for a reference
//	4       4      CRC32C of bytes 0–3 and of everything from byte 8, little endian
//	8       2      number of records, little endian
//	10      …      each record: its length as a uvarint, its bytes
//	…       26     version 2 only: for each record with an idempotency key, in order, its slot (2 bytes, little endian)
//	               and the 24 bytes of its key
//	10      11     version 3 only, which has no records: where the record is that the key of the message belongs to: partition
//	               (1 byte), sequence number (8 bytes, little endian), slot (2 bytes, little endian)
//
// Nothing follows. An external engine finds a key as the message with its name. Where the record came from an embedded
// engine, in a frame with others, that message is a reference. A frame of no records is legal: it proves that a write is possible. The number of records 65535 with
// nothing behind it marks a sequence number whose frame the engine has lost.
const (
	frameVersion = 1
	keyedVersion = 2
	refVersion   = 3
	frameHeader  = 10
	frameKeySize = 2 + len(key{})
	refSize      = 1 + 8 + 2
	lostMark     = 0xFFFF
	// MaxSlots is how many records a frame holds at most; a submission id has 12 bits for the slot.
	MaxSlots = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrFrame is wrapped by every error about bytes that are not a whole frame.
var ErrFrame = errors.New("not a whole frame")

// beginFrame returns b emptied and with an empty header.
func beginFrame(b []byte) []byte {
	return append(b[:0], 'S', 'L', 'F', frameVersion, 0, 0, 0, 0, 0, 0)
}

// appendRecord adds a record to the frame in b.
func appendRecord(b, record []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(record)))
	return append(b, record...)
}

// appendKeys ends the frame in b with the keys of its records. Without any the frame stays of version 1.
func appendKeys(b []byte, keys []slotKey) []byte {
	if len(keys) > 0 {
		b[3] = keyedVersion
	}
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
	f := beginFrame(nil)
	for _, r := range records {
		f = appendRecord(f, r)
	}
	sealFrame(f, len(records))
	return append(b, f...)
}

// referenceTo returns the frame that says where the record of a key is.
func referenceTo(at Position) []byte {
	f := beginFrame(nil)
	f[3] = refVersion
	f = append(f, at.Partition)
	f = binary.LittleEndian.AppendUint64(f, at.Seq)
	f = binary.LittleEndian.AppendUint16(f, at.Slot)
	sealFrame(f, 0)
	return f
}

// reference returns where the record is that a frame refers to. It is not ok for a frame that is no reference.
func reference(b []byte) (at Position, ok bool) {
	if _, _, err := decodeFrame(b); err != nil || b[3] != refVersion {
		return at, false
	}
	b = b[frameHeader:]
	return Position{Partition: b[0], Seq: binary.LittleEndian.Uint64(b[1:]), Slot: binary.LittleEndian.Uint16(b[9:])}, true
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
	if b[3] < frameVersion || b[3] > refVersion {
		return nil, nil, fmt.Errorf("%w: version %d, known are %d to %d", ErrFrame, b[3], frameVersion, refVersion)
	}
	if binary.LittleEndian.Uint32(b[4:]) != frameSum(b) {
		return nil, nil, fmt.Errorf("%w: checksum differs", ErrFrame)
	}
	n := int(binary.LittleEndian.Uint16(b[8:]))
	if n == lostMark && len(b) == frameHeader {
		return nil, nil, errLost
	}
	if b[3] == refVersion {
		if n != 0 || len(b) != frameHeader+refSize {
			return nil, nil, fmt.Errorf("%w: a reference of %d bytes", ErrFrame, len(b))
		}
		return nil, nil, nil
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
	if b[3] == frameVersion {
		if len(rest) != 0 {
			return nil, nil, fmt.Errorf("%w: %d bytes after the last record", ErrFrame, len(rest))
		}
		return records, nil, nil
	}
	keys, err := decodeKeys(rest, n)
	return records, keys, err
}

// decodeKeys reads the keys of a frame that has n records.
func decodeKeys(b []byte, n int) ([]slotKey, error) {
	if len(b) == 0 || len(b)%frameKeySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes of keys", ErrFrame, len(b))
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
