package access

import "testing"

// While the engine is away, what it last said holds.
func TestCredentialsWithoutTheEngine(t *testing.T) {
	e := openEngine(t)
	open := func() *Credentials {
		t.Helper()
		a, err := Open(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, fresh := open(), open()
	token, err := a.NewToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.read(t.Context()); err != nil || !tokenFits(got, token) {
		t.Fatalf("got %v; the token does not fit", err)
	}
	e.Close()
	if got, err := a.read(t.Context()); err != nil || !tokenFits(got, token) {
		t.Errorf("without the engine: got %v, want what was read last", err)
	}
	if _, err := fresh.read(t.Context()); err == nil {
		t.Error("without the engine, and without having read anything: got access")
	}
}
