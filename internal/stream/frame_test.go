package stream

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
)

func TestFrameRoundTrip(t *testing.T) {
	many := make([][]byte, MaxSlots)
	for _, records := range [][][]byte{nil, {{}}, {[]byte("a")}, {[]byte("a"), nil, bytes.Repeat([]byte("b"), 300)}, many} {
		got, err := DecodeFrame(AppendFrame([]byte("x"), records...)[1:])
		if err != nil {
			t.Errorf("%d records: %v", len(records), err)
		}
		if !slices.EqualFunc(got, records, bytes.Equal) {
			t.Errorf("%d records came back as %d", len(records), len(got))
		}
	}
}

// keyedFrame returns a frame of three records, of which the first and the last have a key.
func keyedFrame() []byte {
	f := appendRecord(appendRecord(appendRecord(beginFrame(nil), []byte("first")), nil), []byte("third"))
	f = appendKeys(f, []slotKey{{0, testKey(1)}, {2, testKey(2)}})
	sealFrame(f, 3)
	return f
}

func TestKeyedFrame(t *testing.T) {
	records, keys, err := decodeFrame(keyedFrame())
	if err != nil || len(records) != 3 || !slices.Equal(keys, []slotKey{{0, testKey(1)}, {2, testKey(2)}}) {
		t.Errorf("got %d records, keys %v, %v", len(records), keys, err)
	}
	for _, slots := range [][]uint16{{3}, {1, 1}, {2, 0}} {
		f := beginFrame(nil)
		for range 3 {
			f = appendRecord(f, nil)
		}
		for _, slot := range slots {
			f = appendKeys(f, []slotKey{{slot, testKey(1)}})
		}
		sealFrame(f, 3)
		if _, err := DecodeFrame(f); !errors.Is(err, ErrFrame) {
			t.Errorf("keys of the slots %d of three records: %v, want ErrFrame", slots, err)
		}
	}
}

func TestFrameDamage(t *testing.T) {
	frameDamage(t, AppendFrame(nil, []byte("first"), []byte("second")))
	frameDamage(t, keyedFrame())
	if _, err := DecodeFrame(lostFrame()); !errors.Is(err, errLost) || !errors.Is(err, ErrFrame) {
		t.Errorf("lost frame: %v", err)
	}
}

func frameDamage(t *testing.T, whole []byte) {
	t.Helper()
	for i := range len(whole) {
		if _, err := DecodeFrame(whole[:i]); !errors.Is(err, ErrFrame) {
			t.Errorf("cut at %d: %v, want ErrFrame", i, err)
		}
		for bit := range 8 {
			bad := slices.Clone(whole)
			bad[i] ^= 1 << bit
			if _, err := DecodeFrame(bad); !errors.Is(err, ErrFrame) {
				t.Errorf("bit %d of byte %d: %v, want ErrFrame", bit, i, err)
			}
		}
	}
	if _, err := DecodeFrame(append(slices.Clone(whole), 0)); !errors.Is(err, ErrFrame) {
		t.Errorf("a byte too many: %v, want ErrFrame", err)
	}
}

// FuzzFrame holds that no bytes make the decoder panic or read twice in two ways, even with a checksum that fits.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(AppendFrame(nil), false)
	f.Add(AppendFrame(nil, []byte("a"), nil, []byte("bc")), false)
	f.Add(lostFrame(), true)
	f.Add(keyedFrame(), false)
	f.Add(keyedFrame(), true)
	f.Add(frameOf(nil, []slotKey{{key: testKey(1)}}, nil), false)
	f.Add(frameOf(nil, []slotKey{{slot: 1, key: testKey(1)}}, nil), true)
	f.Add([]byte("SLF\x01\x00\x00\x00\x00\x02\x00\x01a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), true)
	f.Fuzz(func(t *testing.T, data []byte, reseal bool) {
		if reseal && len(data) >= frameHeader {
			sealFrame(data, int(data[8])|int(data[9])<<8)
		}
		records, err := DecodeFrame(data)
		if err != nil {
			if !errors.Is(err, ErrFrame) {
				t.Fatalf("error %v is not ErrFrame", err)
			}
			return
		}
		again, err := DecodeFrame(AppendFrame(nil, records...))
		if err != nil || !slices.EqualFunc(again, records, bytes.Equal) {
			t.Fatalf("records do not survive a second round: %v", err)
		}
	})
}

// A frame with keys as it was first written: every later version reads it.
func TestKeyedFrameOnDisk(t *testing.T) {
	const stored = "534c4601c89dc96303000566697273740005746869726400007c9fa136d4413fa6173637e883b6998d32e1d675f88cddff0200d86e8112f3c4c4442126f8e9f44f16867da487f29052bf91"
	b, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	records, keys, err := decodeFrame(b)
	if err != nil || len(records) != 3 || string(records[2]) != "third" || len(keys) != 2 || keys[1].slot != 2 || keys[1].key != testKey(2) {
		t.Errorf("got %q, %v, %v", records, keys, err)
	}
}

// A key alone says that it was used. It has no record to name.
func TestFrameOfAKey(t *testing.T) {
	frame := frameOf(nil, []slotKey{{key: testKey(1)}}, nil)
	records, keys, err := decodeFrame(frame)
	if err != nil || len(records) != 0 || len(keys) != 1 || keys[0].key != testKey(1) {
		t.Errorf("got %q, %v, %v, want the key", records, keys, err)
	}
	frameDamage(t, frame)
	if _, _, err := decodeFrame(frameOf(nil, []slotKey{{slot: 1, key: testKey(1)}}, nil)); !errors.Is(err, ErrFrame) {
		t.Errorf("a slot that is not there: got %v, want ErrFrame", err)
	}
}
