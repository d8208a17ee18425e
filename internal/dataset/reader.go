package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
	"sluice/internal/replica"
)

// What callers branch on.
var (
	// ErrToken means that a presented token opens nothing, be it malformed, unknown, wrong or revoked.
	ErrToken        = errors.New("dataset: the token is not valid")
	ErrNoReader     = errors.New("dataset: no such reader")
	ErrReaderExists = errors.New("dataset: a reader of this name exists already")
	ErrReaderName   = errors.New("dataset: a reader's name is 1 to 64 of the characters A-Z a-z 0-9 . _ -")
	ErrAllow        = errors.New("dataset: a reader is allowed catalog, feed, or both")
)

// What a reader may be allowed.
const (
	AllowCatalog = "catalog" // list and load the tables
	AllowFeed    = "feed"    // follow accepted events
)

// Reader is a program, or a person, that reads what was stored. What Authenticate and All return is shared: read it, do
// not change it.
type Reader struct {
	Name      string    `json:"name"`
	Allow     []string  `json:"allow"`                 // AllowCatalog, AllowFeed
	DatasetID string    `json:"data_set_id,omitempty"` // it sees this dataset alone; "" means all
	Created   time.Time `json:"created"`
	Revoked   time.Time `json:"revoked,omitzero"` // zero means not
	TokenID   string    `json:"token_id"`
	Hash      [32]byte  `json:"-"` // SHA-256 of the token's secret
}

// Allowed says whether the reader may use one of the Allow constants.
func (r *Reader) Allowed(what string) bool { return slices.Contains(r.Allow, what) }

// Live says whether the reader's token opens anything.
func (r *Reader) Live() bool { return r.Revoked.IsZero() }

// ReaderSpec is what an operator decides when a reader is made.
type ReaderSpec struct {
	Name      string
	Allow     []string
	DatasetID string // "" means all
}

const readerNameMax = 64 // arbitrary

// Validate says what is wrong with the decision, before anything is opened.
func (s *ReaderSpec) Validate() error {
	unknown := func(what string) bool { return what != AllowCatalog && what != AllowFeed }
	switch {
	case len(s.Name) < 1, len(s.Name) > readerNameMax, strings.Trim(s.Name, base62+"._-") != "":
		return ErrReaderName
	case len(s.Allow) == 0, slices.ContainsFunc(s.Allow, unknown):
		return ErrAllow
	}
	return nil
}

// storedReader is a reader's form in the engine.
type storedReader struct {
	Version int `json:"v"`
	Reader
	Hash []byte `json:"token_hash"`
}

const storedReaderVersion = 1

func encodeReader(r *Reader) ([]byte, error) {
	return json.Marshal(storedReader{Version: storedReaderVersion, Reader: *r, Hash: r.Hash[:]})
}

func decodeReader(data []byte) (*Reader, error) {
	var s storedReader
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	if err := checkVersion(s.Version, storedReaderVersion); err != nil {
		return nil, err
	}
	r := s.Reader
	if len(s.Hash) != len(r.Hash) {
		return nil, fmt.Errorf("hash of the token has %d bytes", len(s.Hash))
	}
	copy(r.Hash[:], s.Hash)
	return &r, nil
}

// Readers is the registry of readers. Its methods may be called by many goroutines.
type Readers struct {
	replica replica.Replica
	o       Options
	snap    atomic.Pointer[readerSnapshot]
}

// readerSnapshot is a copy of all readers. It never changes; a new one takes its place.
type readerSnapshot struct {
	all    []*Reader          // by name
	tokens map[string]*Reader // live ones, by token id
}

// OpenReaders makes the bucket where there is none, reads all readers, and returns the registry. Without Run it still
// sees what it changes itself, and All sees everything.
func OpenReaders(ctx context.Context, e *engine.Engine, o Options) (*Readers, error) {
	o.setDefaults()
	kv, err := e.Bucket(ctx, engine.Readers)
	if err != nil {
		return nil, fmt.Errorf("open readers: %w", err)
	}
	r := &Readers{o: o, replica: replica.Replica{Engine: e, Bucket: kv, What: "readers", Now: o.Now, Log: o.Log}}
	r.replica.Read = r.all
	r.snap.Store(&readerSnapshot{})
	if err := r.replica.Load(ctx); err != nil {
		return nil, fmt.Errorf("open readers: %w", err)
	}
	return r, nil
}

// Run keeps the copy in memory current until ctx ends.
func (r *Readers) Run(ctx context.Context) error { return r.replica.Run(ctx) }

// all reads what there is.
func (r *Readers) all(ctx context.Context) (uint64, func(), error) {
	records, revision, err := r.replica.Bucket.All(ctx)
	return revision, func() { r.replace(records) }, err
}

// replace swaps in what was read. A record that cannot be read opens nothing.
func (r *Readers) replace(records []engine.Entry) {
	s := &readerSnapshot{tokens: map[string]*Reader{}}
	for _, record := range records {
		reader, err := decodeReader(record.Value)
		if err != nil {
			r.o.Log.Error("reader record cannot be read", "record", record.Key, "error", err)
			continue
		}
		s.all = append(s.all, reader)
		if reader.Live() {
			s.tokens[reader.TokenID] = reader
		}
	}
	slices.SortFunc(s.all, func(a, b *Reader) int { return cmp.Compare(a.Name, b.Name) })
	r.snap.Store(s)
}

// Create makes a reader and its token, which cannot be shown again. A name in use is ErrReaderExists; that of a revoked
// reader is free.
func (r *Readers) Create(ctx context.Context, s ReaderSpec) (*Reader, Key, error) {
	if err := s.Validate(); err != nil {
		return nil, Key{}, err
	}
	token, id, hash := newSecret(tokenPrefix)
	allow := slices.Clone(s.Allow)
	slices.Sort(allow)
	reader := &Reader{
		Name: s.Name, Allow: slices.Compact(allow), DatasetID: s.DatasetID, Created: r.o.Now().UTC(), TokenID: id, Hash: hash,
	}
	err := r.replica.Bucket.Change(ctx, recordKey(s.Name), func(before []byte) ([]byte, error) {
		if before != nil {
			if old, err := decodeReader(before); err != nil || old.Live() {
				return nil, ErrReaderExists
			}
		}
		return encodeReader(reader)
	})
	if errors.Is(err, ErrReaderExists) {
		return nil, Key{}, err
	}
	if err == nil {
		err = r.replica.Published(ctx)
	}
	if err != nil {
		return nil, Key{}, fmt.Errorf("create reader %s: %w", s.Name, err)
	}
	return reader, token, nil
}

// Revoke ends a reader's token, everywhere within seconds. Again it changes nothing. An unknown reader is ErrNoReader.
func (r *Readers) Revoke(ctx context.Context, name string) error {
	err := r.replica.Bucket.Change(ctx, recordKey(name), func(before []byte) ([]byte, error) {
		if before == nil {
			return nil, ErrNoReader
		}
		reader, err := decodeReader(before)
		if err != nil {
			return nil, err
		}
		if reader.Live() {
			reader.Revoked = r.o.Now().UTC()
		}
		return encodeReader(reader)
	})
	if err == nil {
		err = r.replica.Published(ctx)
	}
	if err != nil && !errors.Is(err, ErrNoReader) {
		err = fmt.Errorf("revoke reader %s: %w", name, err)
	}
	return err
}

// All returns all readers by name, revoked ones too, as they are stored now.
func (r *Readers) All(ctx context.Context) ([]*Reader, error) {
	if err := r.replica.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("list readers: %w", err)
	}
	return r.snap.Load().all, nil
}

// noReader is compared with when a token is unknown, so that the answer takes as long as for a wrong one.
var noReader = &Reader{}

// Authenticate returns the reader of a presented token. It looks only at memory. Its only error is ErrToken.
func (r *Readers) Authenticate(presented string) (*Reader, error) {
	id, secret, ok := parseSecret(tokenPrefix, presented)
	if !ok {
		return nil, ErrToken
	}
	reader := r.snap.Load().tokens[id]
	if reader == nil {
		reader = noReader
	}
	hash := sha256.Sum256(secret[:])
	if subtle.ConstantTimeCompare(hash[:], reader.Hash[:]) != 1 {
		return nil, ErrToken
	}
	return reader, nil
}
