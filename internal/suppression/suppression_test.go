package suppression

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/enginetest"
	"sluice/internal/identifier"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// The digest is SipHash-1-3: CPython, whose hash it is, says the same of these with a key of zeros (PYTHONHASHSEED=0).
func TestDigest(t *testing.T) {
	const hash = "bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c"
	for _, v := range []struct {
		id   string
		ends bool
		want uint64
	}{
		{"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e", true, 0xf30eb725bb91c9ea},
		{hash[:32], false, 0x8f855cd4a165ca0c},
		{hash[:8] + hash[56:], false, 0x466f732224972824},
		{hash[:8] + hash[56:], true, 0x466f732224972824},
		{hash, true, 0x466f732224972824},
	} {
		d := digester{ends: v.ends}
		if got := d.digest(v.id); got != v.want {
			t.Errorf("%q: got %x, want %x", v.id, got, v.want)
		}
	}
	secret := make([]byte, 32)
	for _, k := range []identifier.Kind{identifier.IFA, identifier.Partner} {
		d := newDigester(secret, k, "")
		if d.digest("settop-a-00000001-00000001-eu-west") == d.digest("settop-a-00000001-00000002-eu-west") {
			t.Errorf("%s: the digest does not tell tokens from each other that differ in the middle", k.Name())
		}
	}
	seen := map[uint64]bool{}
	for _, k := range identifier.Kinds {
		for _, dataset := range []string{"", "shop", "other"} {
			d := newDigester(secret, k, dataset)
			seen[d.digest("x")] = true
		}
	}
	if len(seen) != 12 {
		t.Errorf("got %d different digests of one value, want one for each kind and dataset: 12", len(seen))
	}
}

func TestSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 63, 64, 65, 1000, 100_000} {
		in := map[uint64]bool{}
		var digests []uint64
		for range n {
			d := r.Uint64()
			if r.IntN(10) == 0 { // not evenly spread
				d &= 1<<40 - 1
			}
			in[d] = true
			digests = append(digests, d, d)
		}
		digests = append(digests, 0, 1<<64-1)
		in[0], in[1<<64-1] = true, true
		var s set
		s.index(digests)
		if len(s.digests) != len(in) {
			t.Fatalf("got %d entries, want %d", len(s.digests), len(in))
		}
		for d := range in {
			if !s.has(d) {
				t.Fatalf("of %d entries, %x is not found", n, d)
			}
			if got := s.has(d + 1); got != in[d+1] {
				t.Fatalf("of %d entries, %x: got %v", n, d+1, got)
			}
		}
	}
	var none set
	none.index(nil)
	if none.has(7) {
		t.Error("an empty set has an entry")
	}
}

func open(t testing.TB, o engine.Options) *List {
	t.Helper()
	e, err := engine.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return list(t, e)
}

func list(t testing.TB, e *engine.Engine) *List {
	t.Helper()
	l, err := Open(t.Context(), e, time.Now, slog.New(slog.DiscardHandler))
	if err == nil {
		err = l.Load(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func add(t testing.TB, l *List, name, dataset string, k identifier.Kind, ids ...string) int {
	t.Helper()
	a, err := l.Add(t.Context(), name, dataset)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if err := a.Put(k, id); err != nil {
			t.Fatal(err)
		}
	}
	added, err := l.Commit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return added[k]
}

func lists(l *List, dataset string, r event.Row) bool {
	s := l.Of(dataset)
	return s != nil && s.Lists(s.Seek(&r, nil))
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	l := open(t, engine.Options{Dir: dir})
	if l.Of("shop") != nil {
		t.Fatal("an empty list has entries")
	}
	add(t, l, "a", "", identifier.Email, "e1", "e2", "e1")
	add(t, l, "b", "shop", identifier.Partner, "p1")
	if n := add(t, l, "a", "", identifier.Email, "e2", "e3"); n != 1 {
		t.Errorf("the same again: got %d new entries, want 1", n)
	}
	other := list(t, l.engine) // another node
	for _, l := range []*List{l, other} {
		for _, c := range []struct {
			dataset string
			row     event.Row
			want    bool
		}{
			{"shop", event.Row{EmailSHA256: "e1"}, true},
			{"other", event.Row{EmailSHA256: "e3"}, true},
			{"shop", event.Row{EmailSHA256: "e4"}, false},
			{"shop", event.Row{IPSHA256: "e1"}, false},
			{"shop", event.Row{PartnerID: "p1"}, true},
			{"other", event.Row{PartnerID: "p1"}, false},
			{"shop", event.Row{PartnerID: "p1", EmailSHA256: "e4"}, true},
			{"shop", event.Row{}, false},
		} {
			if got := lists(l, c.dataset, c.row); got != c.want {
				t.Errorf("%s %+v: got %v, want %v", c.dataset, c.row, got, c.want)
			}
		}
	}
	a, err := l.Add(t.Context(), "x", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Put(identifier.Partner, "p"); !errors.Is(err, identifier.ErrPartner) {
		t.Errorf("a partner_id without a dataset: got %v", err)
	}
	check := func(want string) {
		t.Helper()
		all, err := l.Imports(t.Context())
		got := ""
		for _, i := range all {
			got += fmt.Sprintf("%s %s %s %d %d;", i.Name, i.Kind, i.Dataset, i.Count, i.Key)
		}
		if err != nil || got != want {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
	check("a email_sha256  3 1;b partner_id shop 1 1;")
	if n, err := l.NewKey(t.Context()); n != 2 || err != nil {
		t.Fatalf("got key %d, %v", n, err)
	}
	add(t, l, "a", "", identifier.Email, "e5", "e1")
	check("a email_sha256  5 2;b partner_id shop 1 1;")
	for _, id := range []string{"e1", "e2", "e5"} {
		if !lists(l, "shop", event.Row{EmailSHA256: id}) {
			t.Errorf("%s is not listed beside a second key", id)
		}
	}
	if n, err := l.Remove(t.Context(), identifier.Email, "e1", ""); n != 2 || err != nil {
		t.Errorf("got %d removed, %v, want one with each key", n, err)
	}
	if lists(l, "shop", event.Row{EmailSHA256: "e1"}) {
		t.Error("a removed identifier is listed")
	}
	if _, err := l.Remove(t.Context(), identifier.Email, "e1", ""); !errors.Is(err, ErrNotListed) {
		t.Errorf("removed twice: got %v", err)
	}
	if n, err := l.RemoveImport(t.Context(), "a"); n != 3 || err != nil {
		t.Errorf("got %d removed, %v", n, err)
	}
	check("b partner_id shop 1 1;")
	if l.Of("other") != nil || !lists(l, "shop", event.Row{PartnerID: "p1"}) {
		t.Error("the other import is not as it was")
	}
}

// Four keys may have entries.
func TestKeys(t *testing.T) {
	l := open(t, engine.Options{Dir: t.TempDir()})
	for i := range maxKeys {
		add(t, l, fmt.Sprint("import ", i), "", identifier.IFA, fmt.Sprint("id", i))
		_, err := l.NewKey(t.Context())
		if last := i == maxKeys-1; (err != nil) != last {
			t.Fatalf("after %d keys: got %v", i+1, err)
		}
	}
	for i := range maxKeys {
		if !lists(l, "shop", event.Row{IFA: fmt.Sprint("id", i)}) {
			t.Errorf("the entry of key %d is not found", i+1)
		}
	}
	if _, err := l.RemoveImport(t.Context(), "import 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.NewKey(t.Context()); err != nil {
		t.Errorf("below the limit of keys: got %v", err)
	}
}

// An import of several chunks, in a directory that is opened again, and in servers of their own; a node that runs follows.
func TestChunks(t *testing.T) {
	for name, o := range map[string]engine.Options{"embedded": {Dir: t.TempDir()}, "servers": {URL: enginetest.Start(t, "").URL(), Token: enginetest.Token}} {
		t.Run(name, func(t *testing.T) {
			e, err := engine.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			l, node := list(t, e), list(t, e)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- node.Run(ctx) }()
			const n = 2*chunkSize + 100
			ids := make([]string, n)
			for i := range ids {
				ids[i] = fmt.Sprint("id", i)
			}
			if got := add(t, l, "half", "", identifier.IFA, ids[:n/2]...); got != n/2 {
				t.Errorf("got %d, want %d", got, n/2)
			}
			if got := add(t, l, "half", "", identifier.IFA, ids...); got != n-n/2 {
				t.Errorf("the rest: got %d, want %d", got, n-n/2)
			}
			for deadline := time.Now().Add(30 * time.Second); node.Len() != n && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
			}
			if node.Len() != n {
				t.Errorf("a node that runs has %d entries, want %d", node.Len(), n)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			e.Close()
			l = open(t, o)
			if l.Len() != n || !lists(l, "shop", event.Row{IFA: ids[n-1]}) {
				t.Errorf("opened again: got %d entries, want %d", l.Len(), n)
			}
		})
	}
}

// Ten million entries: how long a look-up takes, and how much memory they use.
func BenchmarkLists(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1_000_000, 10_000_000} {
		digests := make([]uint64, n)
		for i := range digests {
			digests[i] = r.Uint64()
		}
		s := &set{}
		s.index(digests)
		kinds := []identifier.Kind{identifier.Email, identifier.IP, identifier.IFA}
		c := &scope{set: s}
		for _, k := range kinds {
			c.probes = append(c.probes, newProbe(make([]byte, 32), k, ""))
		}
		sought := make([]uint64, 0, 8)
		rows := make([]event.Row, 4096)
		for i := range rows {
			id := func() string { return fmt.Sprintf("%016x%048x", r.Uint64(), r.Uint64()) }
			rows[i] = event.Row{EmailSHA256: id(), IPSHA256: id(), IFA: id()[:36]}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.Lists(c.Seek(&rows[i%len(rows)], sought[:0]))
				i++
			}
			b.ReportMetric(float64(8*len(s.digests)+4*len(s.starts)+8*len(s.filter))/float64(n), "bytes/entry")
		})
	}
}
