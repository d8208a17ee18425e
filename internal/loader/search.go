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
	text := []byte(strings.ToLower(identifier))
	hash, _ := hex.DecodeString(identifier) // as records hold it
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
		if bytes.Contains(bytes.ToLower(b), text) || len(hash) == 32 && bytes.Contains(b, hash) {
			found = append(found, e.Name())
		}
	}
	return found, searched, nil
}
