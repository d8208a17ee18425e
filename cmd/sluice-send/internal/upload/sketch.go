package upload

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// sketch is a sample of the rows of a file: the smallest of their digests, in order. A digest depends on the salt of
// the upload, too. Two files with rows in common have digests in common.
type sketch []uint64

// sketchSize is arbitrary: files that share a tenth of their rows are told from files that share none.
const sketchSize = 64

func (s *sketch) add(salt string, row []byte) {
	h := sha256.New()
	h.Write([]byte(salt))
	h.Write(row)
	n := binary.BigEndian.Uint64(h.Sum(nil))
	if len(*s) == sketchSize && n >= (*s)[sketchSize-1] {
		return
	}
	if i, found := slices.BinarySearch(*s, n); !found {
		*s = slices.Insert(*s, i, n)
		*s = (*s)[:min(len(*s), sketchSize)]
	}
}

// shares says whether the files have more than a few rows in common: single rows can be alike by chance.
func (s sketch) shares(other sketch) bool {
	common := 0
	for _, n := range s {
		if _, found := slices.BinarySearch(other, n); found {
			common++
		}
	}
	return common > min(len(s), len(other))/10
}
