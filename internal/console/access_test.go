package console

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The file of an earlier version is taken over once. What was set since wins over it. While the engine is away, what it
// last said holds.
func TestAccessIsTakenOver(t *testing.T) {
	e, dir := openEngine(t), t.TempDir()
	path := filepath.Join(dir, accessName)
	old, err := json.Marshal(access{Password: hashPassword(password, []byte("0123456789abcdef")), Token: digest("slc_old")})
	if err != nil {
		t.Fatal(err)
	}
	put := func() {
		t.Helper()
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	openAccess := func() *Access {
		t.Helper()
		a, err := OpenAccess(t.Context(), e, dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is still there: %v", err)
		}
		return a
	}
	put()
	a := openAccess()
	got, err := a.read(t.Context())
	if err != nil || !passwordFits(got.Password, password) || !tokenFits(got, "slc_old") {
		t.Fatalf("got %v; the old password and token do not fit", err)
	}
	token, err := a.NewToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put() // as if a crash had come before it was removed
	again := openAccess()
	if got, err = again.read(t.Context()); err != nil || !tokenFits(got, token) || !passwordFits(got.Password, password) {
		t.Errorf("got %v; the file has replaced what was set later", err)
	}
	fresh, err := OpenAccess(t.Context(), e, dir)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if got, err = again.read(t.Context()); err != nil || !tokenFits(got, token) {
		t.Errorf("without the engine: got %v, want what was read last", err)
	}
	if _, err := fresh.read(t.Context()); err == nil {
		t.Error("without the engine, and without having read anything: got access")
	}
}
