package submission

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/event"
)

func testIDs(t *testing.T, secret byte) *IDs {
	t.Helper()
	ids, err := NewIDs(bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func placed(ids *IDs, kind Kind, partition uint8, seq uint64, slot uint16) *Submission {
	s := &Submission{Kind: kind, Base: NewBase(time.UnixMilli(1_763_121_600_123))}
	ids.Seal(s)
	ids.Place(s, partition, seq, slot)
	return s
}

// An id gives its place back to everybody who has the secret, and to nobody else.
func TestSealedIDs(t *testing.T) {
	ids, others := testIDs(t, 1), testIDs(t, 2)
	for range 2000 {
		partition, seq, slot := uint8(rand.IntN(64)), rand.Uint64N(seqMask+1), uint16(rand.IntN(4096))
		kind := Kind(rand.IntN(2))
		s := placed(ids, kind, partition, seq, slot)
		text := FormatID(kind, s.ID)
		gotKind, id, ok := ParseID(text)
		if !ok || gotKind != kind || id != s.ID || Time(id) != Time(s.Base) {
			t.Fatalf("%s: got %v, %v, %v", text, gotKind, id, ok)
		}
		p, n, l, authentic, ok := ids.Locate(kind, id)
		if !ok || !authentic || p != partition || n != seq || l != slot {
			t.Fatalf("got %d/%d/%d, %v, want %d/%d/%d", p, n, l, ok, partition, seq, slot)
		}
	}
	const tries = 20_000
	passed := map[string]int{}
	s := placed(ids, Single, 0, 4711, 3)
	for range tries {
		id := s.ID
		for i := range 1 + rand.IntN(4) {
			id[[]int{5, 7, 10, 11, 13, 15}[(rand.IntN(6)+i)%6]] ^= 1 << rand.IntN(4)
		}
		if _, _, _, _, ok := ids.Locate(Single, id); ok && id != s.ID {
			passed["changed"]++
		}
		if _, _, _, _, ok := others.Locate(Single, placed(ids, Single, 0, rand.Uint64N(1e6), 0).ID); ok {
			passed["of another secret"]++
		}
		if _, _, _, _, ok := ids.Locate(Batch, placed(ids, Single, 0, rand.Uint64N(1e6), 0).ID); ok {
			passed["of another kind"]++
		}
	}
	for what, n := range passed { // 1 in 65,536 each: 0.3 of 20,000
		if n > 6 {
			t.Errorf("%d of %d ids %s passed", n, tries, what)
		}
	}
}

// Neighbours in the stream have ids that differ in half of their bits: a sender cannot tell how much others send.
func TestIDsHideTheSequence(t *testing.T) {
	ids := testIDs(t, 1)
	bits, n := 0, 500
	for seq := range uint64(n) {
		a, b := placed(ids, Single, 0, seq, 0), placed(ids, Single, 0, seq+1, 0)
		for i := 6; i < 14; i++ {
			for x := a.ID[i] ^ b.ID[i]; x != 0; x &= x - 1 {
				bits++
			}
		}
	}
	if mean := float64(bits) / float64(n); mean < 25 || mean > 32 { // of 57
		t.Errorf("neighbours differ in %.1f bits of 57, want about 28.5", mean)
	}
}

// Ids and records of earlier versions stay as they were, with a secret and without.
func TestEarlierIDs(t *testing.T) {
	ids := testIDs(t, 1)
	s := &Submission{Kind: Batch, Base: NewBase(time.UnixMilli(1_763_121_600_123)), DatasetID: "shop", ReceivedAt: 1_763_121_600}
	old := NewID(s.Base, 3, 1<<38, 77)
	for name, reader := range map[string]*IDs{"with the secret": ids, "without": nil} {
		p, n, l, authentic, ok := reader.Locate(Batch, old)
		if !ok || authentic || p != 3 || n != 1<<38 || l != 77 {
			t.Errorf("%s: got %d/%d/%d, %v, %v", name, p, n, l, authentic, ok)
		}
		got, err := reader.DecodeRecord(string(AppendRecord(nil, s)), 3, 1<<38, 77)
		if err != nil || got.ID != old {
			t.Errorf("%s: the record has the id %v, %v, want %v", name, got.ID, err, old)
		}
	}
	ids.Seal(s)
	sealed, err := ids.DecodeRecord(string(AppendRecord(nil, s)), 3, 1<<38, 77)
	if err != nil || sealed.ID == old {
		t.Errorf("a sealed record: got %v, %v, want another id", sealed.ID, err)
	}
	if _, _, _, _, ok := (*IDs)(nil).Locate(Batch, sealed.ID); ok {
		t.Error("a sealed id was read without the secret")
	}
	if EventID(s.Base, 5) != EventID(unsealed(s.Base), 5) {
		t.Error("the form of the id changes the ids of events")
	}
}

// unsealed is the base without the mark of sealed ids.
func unsealed(base event.ID) event.ID {
	base[15] = 0
	return base
}

func TestBodyDigest(t *testing.T) {
	a, b := NewBodyDigest(bytes.Repeat([]byte{1}, 32)), NewBodyDigest(bytes.Repeat([]byte{2}, 32))
	first, again := a("body"), a("body")
	if first != again || first == a("other") || first == b("body") {
		t.Error("a digest depends on the body and on the secret, and on nothing else")
	}
}
