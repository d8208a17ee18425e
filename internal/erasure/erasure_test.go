package erasure

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/identifier"
)

var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

const (
	hash    = "973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"
	ifa     = "97987bca-ae59-4c7d-94ba-ee4f19ab8c21"
	partner = "Partner-4711"
)

func open(t *testing.T) *Tombstones {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s, err := Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	Email   = identifier.Email
	IFA     = identifier.IFA
	IP      = identifier.IP
	Partner = identifier.Partner
)

func (t *Tombstones) add(tb testing.TB, k Kind, id, dataset string, at time.Time) Tombstone {
	tb.Helper()
	l := t.NewList()
	l.Put(k, k.Fold(id))
	stones, err := t.Add(tb.Context(), l, dataset, at, 72*time.Hour)
	if err != nil || len(stones) != 1 {
		tb.Fatalf("got %d tombstones, %v", len(stones), err)
	}
	return stones[0]
}

// The form that a single identifier had is read: who was erased by it stays erased.
func TestOlderForm(t *testing.T) {
	s := open(t)
	sum := newSummer(s.secret).digest(Email, hash)
	var stone Tombstone
	older := `{"kind":"email_sha256","digest":"` + hex.EncodeToString(sum[:]) + strings.Repeat("ab", 16) +
		`","before":"2026-11-02T12:00:00Z","until":"2027-02-01T12:00:00Z"}`
	if err := json.Unmarshal([]byte(older), &stone); err != nil {
		t.Fatal(err)
	}
	row := event.Row{ReceivedAt: stone.Before.Unix(), EmailSHA256: hash}
	if set := s.Set([]Tombstone{stone}); !set.Erased(&row) || !slices.Equal(set.Kinds(), []Kind{Email}) {
		t.Errorf("got %+v, want one that covers the row", stone)
	}
	if err := json.Unmarshal([]byte(`{"kind":"ifa","digest":"ab"}`), &stone); err == nil {
		t.Error("half a digest is read")
	}
}

func TestErased(t *testing.T) {
	s := open(t)
	if set, err := s.Current(t.Context()); err != nil || set.Erased(&event.Row{EmailSHA256: hash}) {
		t.Fatalf("without a tombstone: %v", err)
	}
	s.add(t, Email, strings.ToUpper(hash), "", noon)
	s.add(t, IFA, ifa, "shop", noon)
	s.add(t, Partner, partner, "", noon.Add(-time.Hour))
	set, err := s.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := noon.Unix()
	for name, c := range map[string]struct {
		row  event.Row
		want bool
	}{
		"the hash":                     {event.Row{ReceivedAt: at, EmailSHA256: hash}, true},
		"the hash, earlier":            {event.Row{ReceivedAt: at - 1e6, EmailSHA256: hash, DatasetID: "any"}, true},
		"the hash, later":              {event.Row{ReceivedAt: at + 1, EmailSHA256: hash}, false},
		"the hash of something else":   {event.Row{ReceivedAt: at, IPSHA256: hash}, false},
		"another hash":                 {event.Row{ReceivedAt: at, EmailSHA256: strings.Repeat("0", 64)}, false},
		"an id in upper case":          {event.Row{ReceivedAt: at, IFA: strings.ToUpper(ifa), DatasetID: "shop"}, true},
		"of another dataset":           {event.Row{ReceivedAt: at, IFA: ifa, DatasetID: "other"}, false},
		"a partner id":                 {event.Row{ReceivedAt: at - 3600, PartnerID: partner}, true},
		"a partner id, later":          {event.Row{ReceivedAt: at - 3599, PartnerID: partner}, false},
		"a partner id in another case": {event.Row{ReceivedAt: at - 3600, PartnerID: strings.ToLower(partner)}, false},
		"none":                         {event.Row{ReceivedAt: at}, false},
	} {
		if got := set.Erased(&c.row); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Two commands erase the same at once: that which began first, and ends last, leaves the tombstone of the other.
func TestLaterTombstoneStays(t *testing.T) {
	s := open(t)
	first := s.add(t, Email, hash, "", noon)
	later := s.add(t, Email, hash, "", noon.Add(3*time.Second))
	for _, one := range []Tombstone{later, first} {
		if err := s.Finish(t.Context(), one, noon.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	s.add(t, Email, hash, "", noon)
	all, err := s.All(t.Context())
	if err != nil || len(all) != 1 || !all[0].Before.Equal(later.Before) || all[0].Unfinished() {
		t.Errorf("got %+v, %v; want the later one, finished", all, err)
	}
}

// A tombstone does not say whom it is about, also not to somebody who can hash: the digest has a key.
func TestTombstoneIsNoIdentifier(t *testing.T) {
	s := open(t)
	s.add(t, Email, hash, "", noon)
	s.add(t, Partner, partner, "", noon)
	entries, _, err := s.kv.All(t.Context())
	if err != nil || len(entries) != 2 {
		t.Fatalf("got %d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		var stone Tombstone
		if err := json.Unmarshal(e.Value, &stone); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{hash, partner} {
			if strings.Contains(strings.ToLower(e.Key+string(e.Value)), strings.ToLower(id)) {
				t.Errorf("a tombstone holds an identifier")
			}
		}
		for _, sum := range []digest{newSummer(nil).digest(Email, hash), newSummer(nil).digest(Partner, partner)} {
			if bytes.Contains(stone.Digests, sum[:]) {
				t.Errorf("a tombstone holds a digest without a key")
			}
		}
	}
}

// The same erasure again is one tombstone. They are forgotten after their time, and not before.
func TestForget(t *testing.T) {
	s := open(t)
	s.add(t, Email, hash, "", noon)
	again := s.add(t, Email, hash, "", noon.Add(time.Hour))
	if err := s.Finish(t.Context(), again, noon); err != nil {
		t.Fatal(err)
	}
	s.add(t, Email, hash, "shop", noon)
	for _, c := range []struct {
		at   time.Time
		want int
	}{{noon.Add(LeastAge), 2}, {noon.Add(LeastAge + time.Second), 1}, {noon.Add(LeastAge + 2*time.Hour), 0}} {
		if err := s.Forget(t.Context(), c.at); err != nil {
			t.Fatal(err)
		}
		all, err := s.All(t.Context())
		if err != nil || len(all) != c.want {
			t.Errorf("at %v: got %d tombstones, %v; want %d", c.at, len(all), err, c.want)
		}
		if c.want == 1 && !all[0].Table.Equal(noon) {
			t.Errorf("got %v, want the time of Finish", all[0].Table)
		}
	}
	if set, err := s.Current(t.Context()); err != nil || set.Erased(&event.Row{ReceivedAt: noon.Unix(), EmailSHA256: hash}) {
		t.Errorf("a forgotten tombstone holds still: %v", err)
	}
}

// A table that is older than the deletion is looked through again; a newer one is not.
func TestReopen(t *testing.T) {
	s := open(t)
	if err := s.Finish(t.Context(), s.add(t, Email, hash, "", noon), noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		table time.Time
		done  bool
	}{{noon.Add(time.Hour), true}, {noon.Add(time.Minute), true}, {noon.Add(time.Minute - time.Millisecond), false}} {
		if err := s.Reopen(t.Context(), c.table); err != nil {
			t.Fatal(err)
		}
		all, err := s.All(t.Context())
		if err != nil || len(all) != 1 || all[0].Due(noon) == c.done {
			t.Errorf("a table of %v: got %+v, %v; want done: %v", c.table, all, err, c.done)
		}
	}
}

// A list of several parts, beside single identifiers, of one dataset and of all; the same list again has the same tombstones.
func TestLists(t *testing.T) {
	s := open(t)
	l := s.NewList()
	ids := make([]string, 2*listPart+7)
	for i := range ids {
		ids[i] = fmt.Sprintf("id-%d", i)
		l.Put(Partner, ids[i])
	}
	l.Put(IFA, ifa)
	stones, err := s.Add(t.Context(), l, "shop", noon, time.Hour)
	if err != nil || len(stones) != 3 {
		t.Fatalf("got %d tombstones, %v", len(stones), err)
	}
	if _, err := s.Add(t.Context(), l, "shop", noon, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.add(t, Partner, partner, "", noon)
	if all, err := s.All(t.Context()); err != nil || len(all) != 4 {
		t.Errorf("the list again: got %d tombstones, %v", len(all), err)
	}
	set, err := s.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := noon.Unix()
	for _, id := range []string{ids[0], ids[listPart], ids[len(ids)-1], partner} {
		if !set.Erased(&event.Row{ReceivedAt: at, DatasetID: "shop", PartnerID: id}) {
			t.Errorf("%s is not erased", id)
		}
	}
	for name, r := range map[string]event.Row{
		"later":           {ReceivedAt: at + 1, DatasetID: "shop", PartnerID: ids[0]},
		"another dataset": {ReceivedAt: at, DatasetID: "other", PartnerID: ids[0]},
		"another person":  {ReceivedAt: at, DatasetID: "shop", PartnerID: "id"},
		"another kind":    {ReceivedAt: at, DatasetID: "shop", IFA: ids[0]},
	} {
		if set.Erased(&r) {
			t.Errorf("%s: erased", name)
		}
	}
	kinds := 0
	for range set.Of(&event.Row{ReceivedAt: at, DatasetID: "shop", PartnerID: ids[5], IFA: strings.ToUpper(ifa)}) {
		kinds++
	}
	if kinds != 2 {
		t.Errorf("got %d kinds, want 2", kinds)
	}
}
