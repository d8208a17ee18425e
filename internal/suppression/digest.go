package suppression

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"sluice/internal/identifier"
)

// digester makes digests of the identifiers of one kind, for one dataset or for all. Nobody without its key can tell
// whether an identifier is on the list.
//
// A digest is SipHash-1-3: a keyed function made for 64 bits, and many times as fast as an HMAC, which the accept path
// would feel. Its key is an HMAC-SHA-256, with a secret of the service, of what it is for.
type digester struct {
	k0, k1 uint64
	ends   bool // of an identifier only the first and last 8 bytes count
}

func newDigester(secret []byte, k identifier.Kind, dataset string) digester {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(string(k) + "\x00" + dataset))
	sum := h.Sum(nil)
	// Of a SHA-256 they have as many bits as a digest. An IFA may be any token.
	ends := k == identifier.Email || k == identifier.IP
	return digester{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:]), ends}
}

// digest of an identifier as Fold spells it.
func (d *digester) digest(id string) uint64 {
	v0, v1 := d.k0^0x736f6d6570736575, d.k1^0x646f72616e646f6d
	v2, v3 := d.k0^0x6c7967656e657261, d.k1^0x7465646279746573
	var last uint64
	if n := len(id); d.ends && n > 16 {
		m := word(id)
		v3 ^= m
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= m
		m = word(id[n-8:])
		v3 ^= m
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= m
		last = 16 << 56
	} else {
		last = uint64(n) << 56
		for ; len(id) >= 8; id = id[8:] {
			m := word(id)
			v3 ^= m
			v0, v1, v2, v3 = round(v0, v1, v2, v3)
			v0 ^= m
		}
		for i := range len(id) {
			last |= uint64(id[i]) << (8 * i)
		}
	}
	v3 ^= last
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// word is the first 8 bytes of an identifier.
func word(id string) uint64 {
	return binary.LittleEndian.Uint64([]byte(id[:8]))
}

func round(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
