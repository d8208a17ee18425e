package loader

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SearchQuarantine looks for an identifier in the frames and records that could not be loaded, byte by byte. It returns
// the names of the files that hold it, and how many were searched. What is damaged inside the identifier itself is not
// found.
func SearchQuarantine(dir, identifier string) (found []string, searched int, err error) {
	needles := [][]byte{[]byte(strings.ToLower(identifier))}
	if raw, err := hex.DecodeString(identifier); err == nil && len(raw) == 32 {
		needles = append(needles, raw) // as records hold it
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != frameSuffix && ext != recordSuffix {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return found, searched, err
		}
		searched++
		lower := lowerASCII(b)
		for i, n := range needles {
			if i == 0 && bytes.Contains(lower, n) || i > 0 && bytes.Contains(b, n) {
				found = append(found, e.Name())
				break
			}
		}
	}
	return found, searched, nil
}

// lowerASCII is a copy with small letters; other bytes stay, for they need not be text.
func lowerASCII(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}
