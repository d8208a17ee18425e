package engine

import (
	"context"
	"crypto/rand"
	"fmt"
)

// secretSize is 256 bits.
const secretSize = 32

// Secret returns a secret of 32 bytes that all nodes share. The first call for a name makes it. It must never be shown.
func (e *Engine) Secret(ctx context.Context, name string) ([]byte, error) {
	b, err := e.Bucket(ctx, Settings)
	if err != nil {
		return nil, err
	}
	var secret []byte
	err = b.Change(ctx, "secret."+name, func(before []byte) ([]byte, error) {
		if secret = before; before == nil {
			secret = make([]byte, secretSize)
			_, _ = rand.Read(secret) // never fails
			return secret, nil
		}
		if len(before) != secretSize {
			return nil, fmt.Errorf("it has %d bytes, want %d", len(before), secretSize)
		}
		return nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read or make secret %s: %w", name, err)
	}
	return secret, nil
}

// Storage returns how many bytes the account of an external engine has stored, and how many it may store, all copies
// together. A limit of 0 means that there is none, or that only the servers know it.
func (e *Engine) Storage(ctx context.Context) (used, limit int64, err error) {
	info, err := e.js.AccountInfo(ctx)
	if err != nil {
		return 0, 0, translate(err)
	}
	tier := info.Tier
	copies := int64(1)
	for _, t := range info.Tiers { // an account has limits of its own for each number of copies; we use one number
		if t.Store >= tier.Store {
			tier, copies = t, int64(max(1, e.Copies())) // such a limit is for one copy of everything
		}
	}
	return int64(tier.Store), max(0, tier.Limits.MaxStore*copies), nil
}
