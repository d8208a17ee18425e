package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/argon2"

	"sluice/internal/durable"
)

// accessName is the file in the data directory that says who may look: the hash of a password, the digest of a
// token, readable by the service's user alone.
const accessName = "console.json"

// MinPassword is the shortest password taken, in bytes. Arbitrary, and the floor that NIST SP 800-63B gives for
// a password that stands alone.
const MinPassword = 15

// Argon2id, at the first choice of RFC 9106 scaled to a server that does other work: 64 MiB, three passes.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // KiB
	argonThreads = 2
	argonKey     = 32
)

// access is what accessName holds.
type access struct {
	Password string `json:"password,omitempty"` // PHC string
	Token    string `json:"token,omitempty"`    // base64 SHA-256; a token is 256 bits of chance, so it needs no slow hash
}

// SetPassword makes password the one that opens the console of the data directory dir. Open sessions end.
func SetPassword(dir, password string) error {
	if len(password) < MinPassword {
		return fmt.Errorf("a password has at least %d characters", MinPassword)
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the program instead
	return changeAccess(dir, func(a *access) { a.Password = hashPassword(password, salt) })
}

// NewToken makes a token that opens the console and /metrics without a log-in, for programs. It replaces the
// token before it and is not readable afterwards.
func NewToken(dir string) (string, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	token := "slc_" + base64.RawURLEncoding.EncodeToString(secret)
	return token, changeAccess(dir, func(a *access) { a.Token = digest(token) })
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

func readAccess(dir string) (access, error) {
	var a access
	b, err := os.ReadFile(filepath.Join(dir, accessName))
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("read console access: %w", err)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("read console access: %w", err)
	}
	return a, nil
}

// changeAccess replaces the file as a whole: a reader sees the old one or the new one.
func changeAccess(dir string, change func(*access)) error {
	a, err := readAccess(dir)
	if err != nil {
		return err
	}
	change(&a)
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, accessName), b); err != nil {
		return fmt.Errorf("write console access: %w", err)
	}
	return nil
}

func hashPassword(password string, salt []byte) string {
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		enc.EncodeToString(salt), enc.EncodeToString(key))
}

// passwordFits holds a password against a PHC string.
func passwordFits(phc, password string) bool {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false
	}
	var version, memory, time, threads uint32
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &time, &threads); err != nil || memory > 1<<20 || time > 64 || threads == 0 || threads > 64 {
		return false
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(want) == 0 {
		return false
	}
	got := argon2.IDKey([]byte(password), salt, time, memory, uint8(threads), uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1
}

func tokenFits(a access, token string) bool {
	return a.Token != "" && subtle.ConstantTimeCompare([]byte(digest(token)), []byte(a.Token)) == 1
}
