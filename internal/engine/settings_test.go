package engine

import (
	"bytes"
	"sync"
	"testing"

	"sluice/internal/enginetest"
)

// All nodes get the same secret, also those that ask for it first at the same time; each name has its own.
func TestSecret(t *testing.T) {
	srv := enginetest.Start(t, "")
	const nodes = 4
	secrets := make([][]byte, nodes)
	var wg sync.WaitGroup
	for i := range nodes {
		e := open(t, Options{URL: srv.URL(), Token: enginetest.Token})
		wg.Go(func() {
			var err error
			if secrets[i], err = e.Secret(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range nodes {
		if len(secrets[i]) != secretSize || !bytes.Equal(secrets[i], secrets[0]) {
			t.Errorf("node %d has another secret than node 0", i)
		}
	}
	other, err := open(t, Options{URL: srv.URL(), Token: enginetest.Token}).Secret(t.Context(), "b")
	if err != nil || bytes.Equal(other, secrets[0]) {
		t.Errorf("another name: got the same secret, or %v", err)
	}
}
