package dataset

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/big"
)

// A key is "sluice_", the key id, "_", the secret, and a checksum of all before it, everything but the prefix in
// base62. The prefix lets scanners for leaked secrets find it; the checksum rejects a typing error without a look-up.
//
//	sluice_Q3h0Zk1aB7xY_0123456789abcdefghijABCDEFGHIJklCHKSUM
//
// A reader's token has the same form with another prefix, so that neither is ever taken for the other.
const (
	keyPrefix   = "sluice_"
	tokenPrefix = "sluice-reader_"
	idSize      = 12 // 71 bits: never met twice
	// secretSize is 190 bits; 160 are asked for.
	secretSize = 32
	sumSize    = 6 // holds 32 bits

	secretAt = idSize + 1 // behind the prefix, as the two below
	sumAt    = secretAt + secretSize
	keySize  = sumAt + sumSize
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Key is a key that can open a dataset. It shows itself only through Reveal: the text is inside a function, so that
// no printing, logging or encoding finds it, even where the Key is a part of something larger.
type Key struct{ reveal func() string }

// newSecret makes a key, or a token, with a new id.
func newSecret(prefix string) (k Key, id string, hash [32]byte) {
	id, secret := randomText(idSize), randomText(secretSize)
	text := prefix + id + "_" + secret
	sum := checksum(text)
	text += string(sum[:])
	return Key{reveal: func() string { return text }}, id, sha256.Sum256([]byte(secret))
}

// Reveal returns the key's text. It is for the operator's eyes, once.
func (k Key) Reveal() string {
	if k.reveal == nil {
		return ""
	}
	return k.reveal()
}

const hidden = "(key)"

// String hides the key.
func (k Key) String() string { return hidden }

// GoString hides the key.
func (k Key) GoString() string { return hidden }

// Format hides the key from every verb.
func (k Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// LogValue hides the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the key, from JSON as well.
func (k Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// randomText returns n random characters, each of them equally likely.
func randomText(n int) string {
	b := make([]byte, n)
	limit := big.NewInt(int64(len(base62)))
	for i := range b {
		c, _ := rand.Int(rand.Reader, limit) // the reader returns no errors
		b[i] = base62[c.Int64()]
	}
	return string(b)
}

// checksum returns the CRC32 of a text in base62. It goes byte by byte over the table because the library's function
// makes its argument escape to the heap.
func checksum(text string) (b [sumSize]byte) {
	sum := ^uint32(0)
	for i := range len(text) {
		sum = crc32.IEEETable[byte(sum)^text[i]] ^ sum>>8
	}
	sum = ^sum
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = base62[sum%62]
		sum /= 62
	}
	return b
}

// parseSecret takes a presented key, or token, apart. It allocates nothing.
func parseSecret(prefix, presented string) (id string, secret [secretSize]byte, ok bool) {
	at := len(prefix)
	if len(presented) != at+keySize || presented[:at] != prefix || presented[at+secretAt-1] != '_' {
		return "", secret, false
	}
	for i := at; i < len(presented); i++ {
		if !isBase62(presented[i]) && i != at+secretAt-1 {
			return "", secret, false
		}
	}
	if sum := checksum(presented[:at+sumAt]); presented[at+sumAt:] != string(sum[:]) {
		return "", secret, false
	}
	copy(secret[:], presented[at+secretAt:])
	return presented[at : at+idSize], secret, true
}

func isBase62(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
