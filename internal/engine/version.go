package engine

import (
	"fmt"
	"maps"
	"strconv"
)

// formatVersion is the version of everything that Sluice keeps in the engine: names, subjects, frames, records and
// values. Each stream and bucket has it in its metadata, under versionName. A program raises it when an older one must
// not read or write what it finds.
const (
	formatVersion = 1
	versionName   = "sluice_version"
)

// withVersion is the metadata of a stream or bucket of this version.
func withVersion(metadata map[string]string) map[string]string {
	out := map[string]string{versionName: strconv.Itoa(formatVersion)}
	maps.Copy(out, metadata)
	return out
}

// checkVersion says whether this program knows the version of a stream or bucket. Metadata without one is that of
// version 1.
func checkVersion(metadata map[string]string) error {
	text, ok := metadata[versionName]
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(text); err != nil || n > formatVersion {
		return fmt.Errorf("%w %.20q, this program knows %d: use the sluice that wrote it, or a newer one", ErrVersion, text,
			formatVersion)
	}
	return nil
}
