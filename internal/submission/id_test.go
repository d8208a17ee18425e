package submission

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/event"
)

func newIDs(secret byte) *IDs {
	ids, err := NewIDs(bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		panic(err) // the length of the secret is right
	}
	return ids
}

func placed(ids *IDs, kind Kind, partition uint8, seq uint64, slot uint16) *Submission {
	s := &Submission{Kind: kind, Base: NewBase(time.UnixMilli(1_763_121_600_123))}
	ids.Place(s, partition, seq, slot)
	return s
}

// An id gives its place back to everybody who has the secret, and to nobody else.
func TestIDs(t *testing.T) {
	ids, others := testIDs, newIDs(2)
	for range 2000 {
		partition, seq, slot := uint8(rand.IntN(64)), rand.Uint64N(seqMask+1), uint16(rand.IntN(4096))
		kind := Kind(rand.IntN(2))
		s := placed(ids, kind, partition, seq, slot)
		text := FormatID(kind, s.ID)
		gotKind, id, ok := ParseID(text)
		if !ok || gotKind != kind || id != s.ID || Time(id) != Time(s.Base) {
			t.Fatalf("%s: got %v, %v, %v", text, gotKind, id, ok)
		}
		p, n, l, ok := ids.Locate(kind, id)
		if !ok || p != partition || n != seq || l != slot {
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
		if _, _, _, ok := ids.Locate(Single, id); ok && id != s.ID {
			passed["changed"]++
		}
		if _, _, _, ok := others.Locate(Single, placed(ids, Single, 0, rand.Uint64N(1e6), 0).ID); ok {
			passed["of another secret"]++
		}
		if _, _, _, ok := ids.Locate(Batch, placed(ids, Single, 0, rand.Uint64N(1e6), 0).ID); ok {
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
	bits, n := 0, 500
	for seq := range uint64(n) {
		a, b := placed(testIDs, Single, 0, seq, 0), placed(testIDs, Single, 0, seq+1, 0)
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

// Without the secret no id is made or read; everything else of a record is.
func TestNoIDs(t *testing.T) {
	var none *IDs
	want := placed(testIDs, Batch, 3, 1<<38, 77)
	if _, _, _, ok := none.Locate(Batch, want.ID); ok {
		t.Error("an id was read without the secret")
	}
	got, err := none.DecodeRecord(string(AppendRecord(nil, want)), 3, 1<<38, 77)
	if err != nil || got.ID != (event.ID{}) || got.Base != want.Base {
		t.Errorf("got %+v, %v, want the base and no id", got, err)
	}
}

// An id of another form is not taken for one of this.
func TestIDsOfAnotherForm(t *testing.T) {
	id := placed(testIDs, Single, 0, 4711, 3).ID
	id[9] &^= 0x80
	if _, _, _, ok := testIDs.Locate(Single, id); ok {
		t.Error("an id without the bit of the form was read")
	}
}

func TestBodyDigest(t *testing.T) {
	a, b := NewBodyDigest(bytes.Repeat([]byte{1}, 32)), NewBodyDigest(bytes.Repeat([]byte{2}, 32))
	one, two := [32]byte{1}, [32]byte{2}
	first, again := a(one, "body"), a(one, "body")
	if first != again || first == a(one, "other") || first == a(two, "body") || first == b(one, "body") {
		t.Error("a digest depends on the body, the key and the secret, and on nothing else")
	}
}
