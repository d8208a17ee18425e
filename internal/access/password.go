package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"

	"sluice/internal/engine"
)

// MinPassword is the shortest password taken, in bytes. Arbitrary, and the floor that NIST SP 800-63B gives for
// a password that stands alone.
const MinPassword = 15

// Argon2id with the least memory that OWASP names: anybody may try to log in, and a server in 256 MiB has other work. A
// password has at least MinPassword characters.
const (
	argonTime    = 2
	argonMemory  = 19 << 10 // KiB
	argonThreads = 1
	argonKey     = 32
)

// hashes are the hash of a password and the digest of a token.
type hashes struct {
	Password string `json:"password,omitempty"` // PHC string
	Token    string `json:"token,omitempty"`    // base64 SHA-256; a token is 256 bits of chance, so it needs no slow hash
}

// settingsKey is where the hashes are in the engine's settings.
const settingsKey = "console.access"

// Credentials are the password and the token of the operators. Their hashes are in the engine, for all nodes.
type Credentials struct {
	settings *engine.Bucket
	mu       sync.Mutex
	newest   hashes // as far as this process knows
	known    bool
}

// Open opens the credentials that an engine holds.
func Open(ctx context.Context, e *engine.Engine) (*Credentials, error) {
	settings, err := e.Bucket(ctx, engine.Settings)
	if err != nil {
		return nil, err
	}
	return &Credentials{settings: settings}, nil
}

// SetPassword makes password the one that opens the console. Open sessions end.
func (c *Credentials) SetPassword(ctx context.Context, password string) error {
	if len(password) < MinPassword {
		return fmt.Errorf("a password has at least %d characters", MinPassword)
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the program instead
	hash := hashPassword(password, salt)
	return c.change(ctx, func(h *hashes) { h.Password = hash })
}

// NewToken makes a token that opens the console and /metrics without a log-in, for programs. It replaces the
// token before it and is not readable afterwards.
func (c *Credentials) NewToken(ctx context.Context) (string, error) {
	token := "slc_" + secretText()
	return token, c.change(ctx, func(h *hashes) { h.Token = digest(token) })
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// readWait is how long a request waits for the engine before it goes by what was read last (arbitrary).
const readWait = time.Second

// read returns the hashes. While the engine does not answer, what it last said holds: then operators want to look most.
func (c *Credentials) read(ctx context.Context) (hashes, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	var now hashes
	found, err := c.settings.Get(ctx, settingsKey)
	if errors.Is(err, engine.ErrNotFound) {
		err = nil
	} else if err == nil {
		err = json.Unmarshal(found.Value, &now)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.newest, c.known = now, true
	} else if !c.known {
		return now, fmt.Errorf("read console access: %w", err)
	}
	return c.newest, nil
}

// change changes it, also while another process does.
func (c *Credentials) change(ctx context.Context, change func(*hashes)) error {
	err := c.settings.Change(ctx, settingsKey, func(before []byte) ([]byte, error) {
		var now hashes
		if before != nil {
			if err := json.Unmarshal(before, &now); err != nil {
				return nil, err
			}
		}
		change(&now)
		return json.Marshal(now)
	})
	if err != nil {
		return fmt.Errorf("change console access: %w", err)
	}
	return nil
}

func hashPassword(password string, salt []byte) string {
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		enc.EncodeToString(salt), enc.EncodeToString(key))
}

// passwordFits holds a password against a PHC string. All were made with the parameters above. Who changes these has to
// read those of the string here: no older password fits until then.
func passwordFits(phc, password string) bool {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 {
		return false
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	return err == nil && subtle.ConstantTimeCompare([]byte(hashPassword(password, salt)), []byte(phc)) == 1
}

func tokenFits(h hashes, token string) bool {
	return h.Token != "" && subtle.ConstantTimeCompare([]byte(digest(token)), []byte(h.Token)) == 1
}
