package pii

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// findNumber passes over what letters touch. It must find what reading each group of digits finds.
func TestFindNumberPassesOverNothing(t *testing.T) {
	var plain func(s string, loose bool) Finding
	plain = func(s string, loose bool) Finding {
		for i := 0; i < len(s); i++ {
			if !isDigit(s[i]) {
				continue
			}
			g := readGroups(s, i)
			if f := g.find(loose); f != Nothing {
				return f
			}
			end := groupsEnd(s, i)
			touched := end < len(s) && isWord(s[end]) && !extension(s[end:])
			if g.sep != '/' && strings.Contains(g.text, "/") && !touched && (i == 0 || !isWord(s[i-1])) {
				for part := range strings.SplitSeq(g.text, "/") {
					if f := plain(part, loose); f != Nothing {
						return f
					}
				}
			}
			i = end - 1
		}
		return Nothing
	}
	r := rand.New(rand.NewPCG(1, 2))
	const signs = "0123456789012345678902555-.- ()+/ax_"
	found := 0
	for range 200_000 {
		b := make([]byte, 1+r.IntN(24))
		for i := range b {
			b[i] = signs[r.IntN(len(signs))]
		}
		for _, loose := range []bool{false, true} {
			got, want := findNumber(string(b), loose), plain(string(b), loose)
			if got != want {
				t.Fatalf("%q, loose %v: got %v, want %v", b, loose, got, want)
			}
			if got != Nothing {
				found++
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d of the texts held a number", found)
	}
}

func BenchmarkOpaque(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]string, 1024)
	for i := range ids {
		id := []byte("p-")
		for range 16 {
			id = append(id, "0123456789abcdef"[r.IntN(16)])
		}
		ids[i] = string(id)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if f := Inspect(ids[i%len(ids)], false, true); f != Nothing {
			b.Fatalf("got %v", f)
		}
	}
}
