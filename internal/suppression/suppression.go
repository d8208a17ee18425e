// Package suppression knows the people whose events must not be matched any more: their identifiers, as keyed digests,
// in the engine and in the memory of every node.
//
// The list is in chunks of up to 65,536 digests. A chunk belongs to one import, kind, dataset and digest key, and says
// so itself: whatever of them is there is a list. Nobody can read an identifier from it.
package suppression

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/identifier"
	"sluice/internal/replica"
)

const (
	// MaxEntries bounds the list: 128 MiB in the memory of each node, and 24 MiB for the filter. Arbitrary, above the ten
	// million that must fit.
	MaxEntries = 16 << 20
	// chunkSize is how many digests a chunk has at most: half a mebibyte, far below what a message may have.
	chunkSize = 64 << 10
	// maxKeys is how many digest keys have entries at one time. A look-up tries each of them.
	maxKeys = 4
	// readWait bounds one read of the whole list.
	readWait = 30 * time.Second
	// currentKey is where the bucket has the number of the digest key for new entries; there is none before the second.
	currentKey = "key"
)

// What callers branch on.
var (
	ErrNotListed = errors.New("suppression: no such import, or the identifier is not on the list")
	errFull      = fmt.Errorf("suppression: the list takes %d entries: remove an import", MaxEntries)
	errKeys      = fmt.Errorf("suppression: %d digest keys have entries already: remove the imports that were made with "+
		"the oldest, and import them again", maxKeys)
)

// Import is what was added to the list under one name, of one kind, for one dataset or for all.
type Import struct {
	Name    string    `json:"name"`
	Time    time.Time `json:"time"` // of the first entries
	Kind    string    `json:"kind"`
	Dataset string    `json:"dataset"` // "" for all
	Count   int       `json:"count"`
	Key     int       `json:"digest_key"` // the newest that it has entries of
}

// header begins a chunk, in a line of its own.
type header struct {
	Version int             `json:"v"`
	Name    string          `json:"name"`
	Time    time.Time       `json:"time"`
	Kind    identifier.Kind `json:"kind"`
	Dataset string          `json:"dataset,omitempty"` // "" for all
	Key     int             `json:"key"`               // number of the digest key
}

const chunkVersion = 1

// chunk is a part of the list.
type chunk struct {
	header
	digests  []byte // 8 bytes each, little endian, sorted
	key      string // in the bucket
	revision uint64
}

func (c *chunk) len() int { return len(c.digests) / 8 }

func (c *chunk) at(i int) uint64 { return binary.LittleEndian.Uint64(c.digests[8*i:]) }

// find returns where a digest is, or should be.
func (c *chunk) find(d uint64) (int, bool) {
	return sort.Find(c.len(), func(i int) int { return cmp.Compare(d, c.at(i)) })
}

func (c *chunk) encode() ([]byte, error) {
	b, err := json.Marshal(c.header)
	return append(append(b, '\n'), c.digests...), err
}

func decode(e engine.Entry) (*chunk, error) {
	head, digests, ok := bytes.Cut(e.Value, []byte("\n"))
	c := &chunk{digests: digests, key: e.Key, revision: e.Revision}
	if err := json.Unmarshal(head, &c.header); err != nil {
		return nil, fmt.Errorf("a chunk of the suppression list cannot be read: %w", err)
	}
	if c.Version != chunkVersion {
		return nil,
			fmt.Errorf("a chunk of the suppression list has version %d, this program knows %d: use the sluice that wrote it, "+
				"or a newer one", c.Version, chunkVersion)
	}
	if !ok || len(digests)%8 != 0 {
		return nil, errors.New("a chunk of the suppression list is damaged")
	}
	return c, nil
}

// List is the suppression list of a service. Its methods may be called by many goroutines.
type List struct {
	engine  *engine.Engine
	kv      *engine.Bucket
	now     func() time.Time
	replica replica.Replica
	current atomic.Pointer[set]
}

// Open opens the list in an engine, with nothing in memory yet: Load or Run reads it. now is the clock of imports.
func Open(ctx context.Context, e *engine.Engine, now func() time.Time, log *slog.Logger) (*List, error) {
	kv, err := e.Bucket(ctx, engine.Suppression)
	if err != nil {
		return nil, fmt.Errorf("open the suppression list: %w", err)
	}
	l := &List{engine: e, kv: kv, now: now}
	l.current.Store(&set{})
	l.replica = replica.Replica{
		Engine: e, Bucket: kv, What: "suppressions", Now: now, Log: log, Wait: readWait,
		Read: l.read,
	}
	return l, nil
}

// Load reads the list into memory.
func (l *List) Load(ctx context.Context) error {
	if err := l.replica.Load(ctx); err != nil {
		return fmt.Errorf("read the suppression list: %w", err)
	}
	return nil
}

// Run keeps the list in memory current until ctx ends: a change made anywhere is seen within about a second.
func (l *List) Run(ctx context.Context) error { return l.replica.Run(ctx) }

// Of is what the list says about the events of a dataset; nil for nothing.
func (l *List) Of(dataset string) event.SuppressionList {
	s := l.current.Load()
	if own := s.scopes[dataset]; own != nil {
		return own
	}
	if s.all != nil {
		return s.all
	}
	return nil
}

// Len is how many entries are in memory.
func (l *List) Len() int { return len(l.current.Load().digests) }

// errAgain says that the list changed while it was read.
var errAgain = errors.New("the suppression list changes")

// scan calls yield for each chunk. It starts over if one of them changes meanwhile.
func (l *List) scan(ctx context.Context, begin func(), yield func(*chunk) error) (uint64, error) {
	for {
		begin()
		seen := map[string]bool{}
		revision, err := l.kv.Scan(ctx, func(e engine.Entry, deleted bool) error {
			if seen[e.Key] {
				return errAgain
			}
			if deleted || e.Key == currentKey {
				return nil
			}
			seen[e.Key] = true
			c, err := decode(e)
			if err != nil {
				return err
			}
			return yield(c)
		})
		if !errors.Is(err, errAgain) || ctx.Err() != nil {
			return revision, err
		}
	}
}

// read makes a set of what is in the bucket.
func (l *List) read(ctx context.Context) (uint64, func(), error) {
	type group struct {
		kind    identifier.Kind
		dataset string
		key     int
	}
	var digests []uint64
	var groups map[group]bool
	revision, err := l.scan(ctx, func() { digests, groups = digests[:0], map[group]bool{} }, func(c *chunk) error {
		if digests == nil {
			if st, err := l.kv.Size(ctx); err == nil { // all at once: growing to it would use twice the memory
				digests = make([]uint64, 0, min(MaxEntries, st/8+chunkSize))
			}
		}
		for i := range c.len() {
			digests = append(digests, c.at(i))
		}
		groups[group{c.Kind, c.Dataset, c.Key}] = true
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	s := &set{scopes: map[string]*scope{}}
	probes := map[string][]probe{}
	for g := range groups {
		secret, err := l.secret(ctx, g.key)
		if err != nil {
			return 0, nil, err
		}
		probes[g.dataset] = append(probes[g.dataset], newProbe(secret, g.kind, g.dataset))
	}
	s.index(digests)
	for dataset, own := range probes {
		if dataset == "" {
			s.all = &scope{s, own}
		} else {
			s.scopes[dataset] = &scope{s, append(own, probes[""]...)}
		}
	}
	return revision, func() { l.current.Store(s) }, nil
}

// secret is a digest key.
func (l *List) secret(ctx context.Context, key int) ([]byte, error) {
	return l.engine.Secret(ctx, SecretPrefix+strconv.Itoa(key))
}

// SecretPrefix begins the names of the digest keys among the secrets of the engine; their number follows.
const SecretPrefix = "suppression."

// key is the number of the digest key for new entries.
func (l *List) key(ctx context.Context) (int, uint64, error) {
	e, err := l.kv.Get(ctx, currentKey)
	if errors.Is(err, engine.ErrNotFound) {
		return 1, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	n, err := strconv.Atoi(string(e.Value))
	return n, e.Revision, err
}

// NewKey makes a new digest key, for entries that are added from then on, and returns its number.
func (l *List) NewKey(ctx context.Context) (int, error) {
	for {
		n, revision, err := l.key(ctx)
		if err != nil {
			return 0, err
		}
		used := map[int]bool{}
		if _, err := l.scan(ctx, func() { clear(used) }, func(c *chunk) error {
			used[c.Key] = true
			return nil
		}); err != nil {
			return 0, err
		}
		if len(used) >= maxKeys {
			return 0, errKeys
		}
		if _, err := l.secret(ctx, n+1); err != nil {
			return 0, err
		}
		_, err = l.kv.Update(ctx, currentKey, []byte(strconv.Itoa(n+1)), revision)
		if errors.Is(err, engine.ErrRevision) && ctx.Err() == nil {
			continue // somebody else made one
		}
		return n + 1, err
	}
}

// Imports returns what was added to the list, by name, dataset and kind.
func (l *List) Imports(ctx context.Context) ([]Import, error) {
	type group struct {
		name, dataset string
		kind          identifier.Kind
	}
	var found map[group]*Import
	_, err := l.scan(ctx, func() { found = map[group]*Import{} }, func(c *chunk) error {
		g := group{c.Name, c.Dataset, c.Kind}
		if found[g] == nil {
			found[g] = &Import{Name: c.Name, Time: c.Time, Kind: c.Kind.Name(), Dataset: c.Dataset}
		}
		i := found[g]
		if c.Time.Before(i.Time) {
			i.Time = c.Time
		}
		i.Count += c.len()
		i.Key = max(i.Key, c.Key)
		return nil
	})
	out := make([]Import, 0, len(found))
	for _, i := range found {
		out = append(out, *i)
	}
	slices.SortFunc(out, func(a, b Import) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Kind, b.Kind))
	})
	return out, err
}

// Addition collects identifiers that are to be added under a name. It keeps digests alone.
type Addition struct {
	Name, Dataset string

	key       int
	secret    []byte
	digesters map[identifier.Kind]digester
	digests   map[identifier.Kind][]uint64
}

// ErrName says that an import cannot have a name: lists of imports are printed.
var ErrName = errors.New("the name of an import is printable UTF-8")

// Add begins an addition under a name: for one dataset, or for all if that is "".
func (l *List) Add(ctx context.Context, name, dataset string) (*Addition, error) {
	if len(name) < 1 || len(name) > 128 {
		return nil, errors.New("suppression: the name of an import has 1 to 128 bytes")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return nil, ErrName
	}
	key, _, err := l.key(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := l.secret(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Addition{
		Name: name, Dataset: dataset, key: key, secret: secret,
		digesters: map[identifier.Kind]digester{}, digests: map[identifier.Kind][]uint64{},
	}, nil
}

// Put adds an identifier as Parse spells it.
func (a *Addition) Put(k identifier.Kind, id string) error {
	if k == identifier.Partner && a.Dataset == "" {
		return identifier.ErrPartner
	}
	d, ok := a.digesters[k]
	if !ok {
		d = newDigester(a.secret, k, a.Dataset)
		a.digesters[k] = d
	}
	a.digests[k] = append(a.digests[k], d.digest(id))
	return nil
}

// Commit writes an addition, and says how many entries are new, by kind. It returns once they are on stable storage. A
// crash in it leaves some of them; the same addition again adds the rest.
func (l *List) Commit(ctx context.Context, a *Addition) (map[identifier.Kind]int, error) {
	added := map[identifier.Kind]int{}
	for k, digests := range a.digests {
		slices.Sort(digests)
		digests = slices.Compact(digests)
		for {
			n, err := a.write(ctx, l, k, digests)
			added[k] += n
			if errors.Is(err, engine.ErrRevision) || errors.Is(err, engine.ErrExists) {
				continue // somebody else adds to the same import
			}
			if err != nil {
				return added, fmt.Errorf("write the suppression list: %w", err)
			}
			break
		}
	}
	return added, l.replica.Published(ctx)
}

// write writes those of the sorted digests that the import does not have, and says how many.
func (a *Addition) write(ctx context.Context, l *List, k identifier.Kind, digests []uint64) (added int, err error) {
	if len(digests) == 0 {
		return 0, nil
	}
	h := header{chunkVersion, a.Name, l.now().UTC().Truncate(time.Second), k, a.Dataset, a.key}
	var last *chunk // one that is not full
	var known map[uint64]bool
	total, next := 0, 0
	_, err = l.scan(ctx, func() { last, known, total, next = nil, map[uint64]bool{}, 0, 0 }, func(c *chunk) error {
		total += c.len()
		if c.Name != h.Name || c.Kind != k || c.Dataset != h.Dataset || c.Key != h.Key {
			return nil
		}
		for i := range c.len() {
			if _, ours := slices.BinarySearch(digests, c.at(i)); ours {
				known[c.at(i)] = true
			}
		}
		if c.len() < chunkSize {
			last = c
		}
		next++
		return nil
	})
	if err != nil {
		return 0, err
	}
	fresh := make([]uint64, 0, len(digests)-len(known))
	for _, d := range digests {
		if !known[d] {
			fresh = append(fresh, d)
		}
	}
	if total+len(fresh) > MaxEntries {
		return 0, errFull
	}
	for len(fresh) > 0 {
		c := last
		if last = nil; c == nil {
			c = &chunk{header: h, key: h.id() + "." + strconv.Itoa(next)}
			next++
		}
		n := min(chunkSize-c.len(), len(fresh))
		c.merge(fresh[:n])
		if err := l.put(ctx, c); errors.Is(err, engine.ErrExists) {
			continue // the number is taken
		} else if err != nil {
			return added, err
		}
		added += n
		fresh = fresh[n:]
	}
	return added, nil
}

// id begins the keys of the chunks of an import.
func (h *header) id() string {
	sum := sha256.Sum256([]byte(h.Name + "\x00" + string(h.Kind) + "\x00" + h.Dataset + "\x00" + strconv.Itoa(h.Key)))
	return hex.EncodeToString(sum[:16])
}

// merge adds digests that it does not have.
func (c *chunk) merge(digests []uint64) {
	all := slices.Clone(digests)
	for i := range c.len() {
		all = append(all, c.at(i))
	}
	slices.Sort(all)
	c.digests = make([]byte, 0, 8*len(all))
	for _, d := range all {
		c.digests = binary.LittleEndian.AppendUint64(c.digests, d)
	}
}

// put writes a chunk if it is still what was read; without entries it deletes it.
func (l *List) put(ctx context.Context, c *chunk) error {
	if c.len() == 0 {
		return l.kv.Delete(ctx, c.key, c.revision)
	}
	b, err := c.encode()
	if err != nil {
		return err
	}
	_, err = l.kv.Set(ctx, c.key, b, c.revision)
	return err
}

// Remove removes an identifier as Parse spells it: of one dataset, or of all and every one if that is "". One that is
// not on the list is ErrNotListed.
func (l *List) Remove(ctx context.Context, k identifier.Kind, id, dataset string) (int, error) {
	digesters := map[header]digester{}
	return l.remove(ctx, func(c *chunk) (bool, error) {
		if c.Kind != k || dataset != "" && c.Dataset != dataset {
			return false, nil
		}
		h := header{Kind: k, Dataset: c.Dataset, Key: c.Key}
		d, ok := digesters[h]
		if !ok {
			secret, err := l.secret(ctx, c.Key)
			if err != nil {
				return false, err
			}
			d = newDigester(secret, k, c.Dataset)
			digesters[h] = d
		}
		i, found := c.find(d.digest(id))
		if found {
			c.digests = slices.Delete(c.digests, 8*i, 8*i+8)
		}
		return found, nil
	})
}

// RemoveImport removes everything that was added under a name. One that is not there is ErrNotListed.
func (l *List) RemoveImport(ctx context.Context, name string) (int, error) {
	return l.remove(ctx, func(c *chunk) (bool, error) {
		found := c.Name == name
		if found {
			c.digests = nil
		}
		return found, nil
	})
}

// remove writes the chunks that edit changed, and says how many entries are gone.
func (l *List) remove(ctx context.Context, edit func(*chunk) (bool, error)) (removed int, err error) {
	for {
		var changed []*chunk
		lost := map[*chunk]int{}
		_, err := l.scan(ctx, func() { changed = nil; clear(lost) }, func(c *chunk) error {
			before := c.len()
			found, err := edit(c)
			if found {
				changed = append(changed, c)
				lost[c] = before - c.len()
			}
			return err
		})
		for _, c := range changed {
			if err == nil {
				if err = l.put(ctx, c); err == nil {
					removed += lost[c]
				}
			}
		}
		switch {
		case errors.Is(err, engine.ErrRevision) && ctx.Err() == nil:
			continue // somebody else changes the list
		case err != nil:
			return removed, fmt.Errorf("change the suppression list: %w", err)
		case removed == 0:
			return 0, ErrNotListed
		}
		return removed, l.replica.Published(ctx)
	}
}
