package stream

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const damageFrames = 100

// blocks returns the block files of partition 0, oldest first.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "engine", "jetstream", "$G", "streams", "SLUICE_0", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b string) int { return len(a)*1000 + strings.Compare(a, b) - len(b)*1000 })
	return found
}

func flip(path string, at float64) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[int(at*float64(len(data)))] ^= 0x10
	return os.WriteFile(path, data, 0o600)
}

func TestExploreDamage(t *testing.T) {
	for name, hurt := range map[string]func(b []string, index string) error{
		"nothing":           func(b []string, index string) error { return nil },
		"no index":          func(b []string, index string) error { return os.Remove(index) },
		"flip first":        func(b []string, index string) error { return flip(b[0], 0.5) },
		"flip first noidx":  func(b []string, index string) error { os.Remove(index); return flip(b[0], 0.5) },
		"flip last":         func(b []string, index string) error { return flip(b[len(b)-1], 0.5) },
		"flip last noidx":   func(b []string, index string) error { os.Remove(index); return flip(b[len(b)-1], 0.5) },
		"trunc first":       func(b []string, index string) error { return os.Truncate(b[0], 10000) },
		"trunc first noidx": func(b []string, index string) error { os.Remove(index); return os.Truncate(b[0], 10000) },
		"trunc last":        func(b []string, index string) error { return os.Truncate(b[len(b)-1], 2000) },
		"rm middle":         func(b []string, index string) error { return os.Remove(b[1]) },
		"rm last":           func(b []string, index string) error { return os.Remove(b[len(b)-1]) },
		"rm first":          func(b []string, index string) error { return os.Remove(b[0]) },
		"empty last":        func(b []string, index string) error { return os.Truncate(b[len(b)-1], 0) },
		"flip index":        func(b []string, index string) error { return flip(index, 0.5) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := openEngine(t, dir)
			s := runStream(t, e, Options{MaxBytes: 120_000})
			for i := range damageFrames {
				if _, err := s.Append(t.Context(), []byte(fmt.Sprint(i, strings.Repeat(" ", 1000)))); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			b := blocks(t, dir)
			if err := hurt(b, filepath.Join(filepath.Dir(b[0]), "index.db")); err != nil {
				t.Fatal(err)
			}
			e = openEngine(t, dir)
			s2, err := Open(t.Context(), e, Options{MaxBytes: 120_000})
			if err != nil {
				t.Fatal(err)
			}
			st, err := s2.state(t.Context(), 0)
			var out []string
			n := 0
			err2 := s2.Scan(t.Context(), 0, 1, func(f Frame) error {
				n++
				if f.Missing > 0 || f.Damaged != nil {
					out = append(out, fmt.Sprintf("seq %d missing %d damaged %v raw %d", f.Seq, f.Missing, f.Damaged, len(f.Raw)))
				}
				return nil
			})
			t.Logf("blocks %d; state %+v %v; frames %d, scan %v; %s", len(b), st, err, n, err2, strings.Join(out, "; "))
		})
	}
}
