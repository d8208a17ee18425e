package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"sluice/internal/engine"
)

func TestKeyShape(t *testing.T) {
	shape := regexp.MustCompile(`^sluice_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}$`)
	seen := map[string]bool{}
	for range 100 {
		k, id, _ := newSecret(keyPrefix)
		text := k.Reveal()
		if !shape.MatchString(text) || !strings.HasPrefix(text, "sluice_"+id+"_") {
			t.Fatalf("key has the wrong shape")
		}
		if seen[id] || seen[text] {
			t.Fatal("a key came twice")
		}
		seen[id], seen[text] = true, true
		if got, _, ok := parseSecret(keyPrefix, text); !ok || got != id {
			t.Fatalf("own key is not read back")
		}
	}
}

func TestTypingErrorsAreRejected(t *testing.T) {
	k, _, _ := newSecret(keyPrefix)
	text := k.Reveal()
	for i := range len(text) {
		for _, c := range []byte("0aZ_-\x00\xff") {
			bad := text[:i] + string(rune(c)) + text[i+1:]
			if _, _, ok := parseSecret(keyPrefix, bad); ok && bad != text {
				t.Errorf("a wrong character at %d was not noticed", i)
			}
		}
		if i > 0 && text[i] != text[i-1] {
			swapped := text[:i-1] + text[i:i+1] + text[i-1:i] + text[i+1:]
			if _, _, ok := parseSecret(keyPrefix, swapped); ok {
				t.Errorf("swapped characters at %d were not noticed", i)
			}
		}
	}
	for _, bad := range []string{"", "sluice_", text[1:], text + "0", " " + text, strings.ToUpper(text), strings.Repeat("x", 1<<16)} {
		if _, _, ok := parseSecret(keyPrefix, bad); ok {
			t.Errorf("%d characters that are no key were taken for one", len(bad))
		}
	}
}

func TestKeyHides(t *testing.T) {
	k, _, _ := newSecret(keyPrefix)
	var out bytes.Buffer
	type inner struct {
		Key    Key
		hidden Key
	}
	in := inner{k, k}
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("a key", "key", k, "in", in, "pointer", &k)
	slog.New(slog.NewTextHandler(&out, nil)).Info("a key", "key", k, "in", in, "pointer", &k)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		fmt.Fprintf(&out, format, k)
		fmt.Fprintf(&out, format, in)
		fmt.Fprintf(&out, format, &in)
		fmt.Fprintf(&out, format, []any{k, map[string]Key{"k": k}})
	}
	fmt.Fprintln(&out, k, in, k.String(), k.GoString())
	data, err := json.Marshal(map[string]any{"key": k, "in": in, "list": []Key{k}})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(data)
	text := k.Reveal()
	for _, secret := range []string{text, text[len(keyPrefix)+secretAt : len(keyPrefix)+sumAt], fmt.Sprintf("%x", text)} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the key shows in:\n%s", out.String())
		}
	}
	if (Key{}).Reveal() != "" {
		t.Error("the zero key has a text")
	}
}

func TestAuthenticateAllocatesNothing(t *testing.T) {
	r := openRegistry(t, openEngine(t, engine.Options{Dir: t.TempDir()}), nil)
	_, k := create(t, r, Spec{ID: "shop"})
	stranger, _, _ := newSecret(keyPrefix)
	for name, text := range map[string]string{"right": k.Reveal(), "unknown": stranger.Reveal(), "malformed": "x"} {
		if n := testing.AllocsPerRun(100, func() { r.Authenticate(text) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// Callers keep the id of a key for a day. The key that was presented does not stay in memory with it.
func TestKeyIDHoldsNoSecret(t *testing.T) {
	r := openRegistry(t, openEngine(t, engine.Options{Dir: t.TempDir()}), nil)
	_, k := create(t, r, Spec{ID: "shop"})
	text := k.Reveal()
	_, id, err := r.Authenticate(text)
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	if begin, at := uintptr(unsafe.Pointer(unsafe.StringData(text))), uintptr(unsafe.Pointer(unsafe.StringData(id))); at >= begin && at < begin+uintptr(len(text)) {
		t.Error("the id is a part of the key")
	}
}

// FuzzKey holds that nothing but a key with its own checksum is read as one, and that reading never panics.
func FuzzKey(f *testing.F) {
	k, _, _ := newSecret(keyPrefix)
	f.Add(k.Reveal())
	f.Add("")
	f.Add("sluice_")
	f.Add(strings.Repeat("_", len(keyPrefix)+keySize))
	f.Fuzz(func(t *testing.T, s string) {
		id, secret, ok := parseSecret(keyPrefix, s)
		if !ok {
			return
		}
		text := keyPrefix + id + "_" + string(secret[:])
		if sum := checksum(text); text+string(sum[:]) != s {
			t.Errorf("read as another key")
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	r := openRegistry(b, openEngine(b, engine.Options{Dir: b.TempDir()}), nil)
	_, k := create(b, r, Spec{ID: "shop"})
	text := k.Reveal()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := r.Authenticate(text); err != nil {
			b.Fatal(err)
		}
	}
}
