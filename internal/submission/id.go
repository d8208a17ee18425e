package submission

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"io"

	"sluice/event"
)

// IDs makes and reads submission ids with a secret that all nodes share. An id holds the place of its record in the
// stream, so that a look-up needs no index. The place is encrypted: it would show a sender how much all others send. A
// tag authenticates the id, so that a made-up one is known without a look at the stream or the table.
//
//	48 bits milliseconds | version | 12 bits e | variant | 6 bits e | 1 | 39 bits e | 16 bits tag
//
//	place = slot (12 bits), partition (6), sequence (39)
//	tag   = first 16 bits of AES(k1, milliseconds, place, kind)
//	e     = place ⊕ AES(k2, milliseconds, tag)
//
// The bit 1 is the version of this form: another one has 0 there. A forged id passes with a chance of 1 in 65,536, and
// then finds no record.
//
// nil makes no ids, and reads none: it is for those who need none of a record.
type IDs struct{ tag, pad cipher.Block }

// NewIDs returns the ids of a secret.
func NewIDs(secret []byte) (*IDs, error) {
	ids := new(IDs)
	for name, block := range map[string]*cipher.Block{"submission id tag": &ids.tag, "submission id pad": &ids.pad} {
		key, err := hkdf.Key(sha256.New, secret, nil, name, 32)
		if err == nil {
			*block, err = aes.NewCipher(key)
		}
		if err != nil {
			return nil, fmt.Errorf("derive the key of submission ids: %w", err)
		}
	}
	return ids, nil
}

// NewBodyDigest returns the digest that tells whether a body was sent before with the same idempotency key. Its key
// comes from the secret and from the idempotency key, which is stored nowhere: else everybody who has the disk, with
// the secret on it, could search digests for identifiers that were suppressed.
func NewBodyDigest(secret []byte) func(key [sha256.Size]byte, body string) [sha256.Size]byte {
	root, err := hkdf.Key(sha256.New, secret, nil, "idempotency body", 32)
	if err != nil {
		panic(err) // the length is a constant that SHA-256 allows
	}
	return func(key [sha256.Size]byte, body string) (sum [sha256.Size]byte) {
		h := hmac.New(sha256.New, root)
		h.Write(key[:])
		h = hmac.New(sha256.New, h.Sum(nil))
		_, _ = io.WriteString(h, body) // a hash takes everything
		h.Sum(sum[:0])
		return sum
	}
}

const (
	// seqBits last for 17 years with a thousand frames a second. Beyond, a look-up finds a submission in the table alone.
	seqBits = 39
	seqMask = 1<<seqBits - 1
	formBit = 1 << 55 // in the lower half of an id
)

// Place sets the id of a submission from the place of its record.
func (ids *IDs) Place(s *Submission, partition uint8, seq uint64, slot uint16) {
	if ids == nil {
		return
	}
	place := uint64(slot&0x0fff)<<45 | uint64(partition&0x3f)<<seqBits | seq&seqMask
	var id event.ID
	copy(id[:6], s.Base[:6])
	tag := ids.makeTag(id, place, s.Kind)
	e := place ^ ids.makePad(id, tag)
	binary.BigEndian.PutUint16(id[6:], 0x8000|uint16(e>>45))
	binary.BigEndian.PutUint64(id[8:], 2<<62|(e>>seqBits&0x3f)<<56|formBit|(e&seqMask)<<16|uint64(tag))
	s.ID = id
}

// Locate reads the place in the stream out of an id. It does not say that anything is there; not ok means that the id
// is made up.
func (ids *IDs) Locate(kind Kind, id event.ID) (partition uint8, seq uint64, slot uint16, ok bool) {
	low := binary.BigEndian.Uint64(id[8:])
	if ids == nil || low&formBit == 0 {
		return 0, 0, 0, false
	}
	tag := uint16(low)
	e := uint64(binary.BigEndian.Uint16(id[6:])&0x0fff)<<45 | (low>>56&0x3f)<<seqBits | low>>16&seqMask
	place := e ^ ids.makePad(id, tag)
	if want := ids.makeTag(id, place, kind); subtle.ConstantTimeEq(int32(want), int32(tag)) != 1 {
		return 0, 0, 0, false
	}
	return uint8(place>>seqBits) & 0x3f, place & seqMask, uint16(place >> 45), true
}

func (ids *IDs) makeTag(id event.ID, place uint64, kind Kind) uint16 {
	var b [aes.BlockSize]byte
	copy(b[:6], id[:6])
	binary.BigEndian.PutUint64(b[6:], place)
	b[14] = byte(kind)
	ids.tag.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint16(b[:])
}

func (ids *IDs) makePad(id event.ID, tag uint16) uint64 {
	var b [aes.BlockSize]byte
	copy(b[:6], id[:6])
	binary.BigEndian.PutUint16(b[6:], tag)
	ids.pad.Encrypt(b[:], b[:])
	return binary.BigEndian.Uint64(b[:]) >> (64 - 57)
}
