// Package dataset holds the datasets that events are accepted for, with the keys that open them.
package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What callers branch on.
var (
	// ErrKey means that a presented key opens nothing. It is one and the same for a malformed, unknown, wrong, expired
	// or revoked key and for a disabled dataset, so that an answer tells nothing about which keys exist.
	ErrKey      = errors.New("dataset: the key is not valid")
	ErrNotFound = errors.New("dataset: no such dataset; sluice dataset list shows those that exist")
	ErrNoKey    = errors.New("dataset: no such key")
	ErrExists   = errors.New("dataset: the dataset exists already")
	ErrTwoKeys  = errors.New("dataset: the dataset has two live keys already; revoke one first")
	ErrID       = errors.New("dataset: an id is 1 to 128 printable ASCII characters without spaces")
)

// maxLive is how many keys of a dataset are live at once: one in use, one to change to.
const maxLive = 2

// maxKeys is how many keys a record remembers, dead ones included, for the operator to look back on.
const maxKeys = 32

// Dataset is one dataset. What Authenticate and List return is shared: read it, do not change it.
type Dataset struct {
	Spec
	RetentionDays int       `json:"retention_days,omitempty"` // of its rows; 0 means as long as the tables
	Disabled      bool      `json:"disabled,omitempty"`
	Created       time.Time `json:"created"`
	Keys          []KeyInfo `json:"keys"`
	Deleted       *Deletion `json:"deleted,omitempty"` // only the registry sees such records
}

// Retention is how long rows of the dataset are kept; 0 means as long as the tables.
func (d *Dataset) Retention() time.Duration { return time.Duration(d.RetentionDays) * 24 * time.Hour }

// KeyInfo is what is kept of a key: enough to recognise it, too little to use it.
type KeyInfo struct {
	ID      string    `json:"id"`
	Hash    [32]byte  `json:"-"` // SHA-256 of the secret
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero means never
	Revoked time.Time `json:"revoked,omitzero"` // zero means not
}

// Live says whether the key opens its dataset at the given time, if that is enabled.
func (k *KeyInfo) Live(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// live counts the live keys.
func (d *Dataset) live(now time.Time) int {
	n := 0
	for i := range d.Keys {
		if d.Keys[i].Live(now) {
			n++
		}
	}
	return n
}

// addKey adds a key, forgetting the oldest dead one when there are too many.
func (d *Dataset) addKey(k KeyInfo, now time.Time) error {
	if d.live(now) >= maxLive {
		return ErrTwoKeys
	}
	if len(d.Keys) >= maxKeys {
		if i := slices.IndexFunc(d.Keys, func(k KeyInfo) bool { return !k.Live(now) }); i >= 0 {
			d.Keys = slices.Delete(d.Keys, i, i+1)
		}
	}
	d.Keys = append(d.Keys, k)
	return nil
}

// ValidID says whether id can name a dataset.
func ValidID(id string) bool {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	return len(id) >= 1 && len(id) <= 128 && !strings.ContainsFunc(id, unprintable)
}

// Spec is what an operator decides when a dataset is made.
type Spec struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// an opt-out removes identifiers instead of restricting their use
	SuppressOptOut    bool    `json:"suppress_opt_out,omitempty"`
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"` // 0 means no limit
	EventsPerSecond   float64 `json:"events_per_second,omitempty"`   // 0 means no limit
}

// Validate says what is wrong with the decision, before anything is opened.
func (s *Spec) Validate() error {
	switch {
	case !ValidID(s.ID):
		return ErrID
	case len(s.Name) > 512:
		return errors.New("dataset: a name has at most 512 bytes")
	case !(s.RequestsPerSecond >= 0 && s.RequestsPerSecond <= 1e9), !(s.EventsPerSecond >= 0 && s.EventsPerSecond <= 1e9):
		return errors.New("dataset: a limit is a number from 0 (none) to 1e9")
	}
	return nil
}

// stored is a dataset's form in the engine. Keys are inside, so that one compare-and-set guards all rules about them.
type stored struct {
	Version int `json:"v"`
	Dataset
	Hashes [][]byte `json:"key_hashes"` // in the order of Keys
}

const storedVersion = 1

// checkVersion says whether an entry of the engine has the version that this program knows.
func checkVersion(version, known int) error {
	if version != known {
		return fmt.Errorf("an entry of version %d, this program knows %d: use the sluice that wrote it, or a newer one",
			version, known)
	}
	return nil
}

func toStored(d *Dataset) stored {
	s := stored{Version: storedVersion, Dataset: *d}
	for i := range d.Keys {
		s.Hashes = append(s.Hashes, d.Keys[i].Hash[:])
	}
	return s
}

func (s *stored) dataset() (*Dataset, error) {
	if err := checkVersion(s.Version, storedVersion); err != nil {
		return nil, err
	}
	if len(s.Hashes) != len(s.Keys) {
		return nil, fmt.Errorf("record has %d keys and %d hashes", len(s.Keys), len(s.Hashes))
	}
	d := s.Dataset
	for i, h := range s.Hashes {
		if len(h) != len(d.Keys[i].Hash) {
			return nil, fmt.Errorf("hash of key %d has %d bytes", i, len(h))
		}
		copy(d.Keys[i].Hash[:], h)
	}
	return &d, nil
}
