package stream

import (
	"bytes"
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

func TestFrameDamage(t *testing.T) {
	whole := AppendFrame(nil, []byte("first"), []byte("second"))
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
	if _, err := DecodeFrame(lostFrame()); !errors.Is(err, errLost) || !errors.Is(err, ErrFrame) {
		t.Errorf("lost frame: %v", err)
	}
}

// FuzzFrame holds that no bytes make the decoder panic or read twice in two ways, even with a checksum that fits.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(AppendFrame(nil), false)
	f.Add(AppendFrame(nil, []byte("a"), nil, []byte("bc")), false)
	f.Add(lostFrame(), true)
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
