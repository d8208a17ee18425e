package engine

import (
	"context"
	"crypto/rand"
	"errors"
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
	key := "secret." + name
	for {
		found, err := b.Get(ctx, key)
		if err == nil {
			if len(found.Value) != secretSize {
				return nil, fmt.Errorf("secret %s has %d bytes, want %d", name, len(found.Value), secretSize)
			}
			return found.Value, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("read secret %s: %w", name, err)
		}
		var secret [secretSize]byte
		_, _ = rand.Read(secret[:]) // never fails
		if _, err := b.Create(ctx, key, secret[:]); err != nil && !errors.Is(err, ErrExists) {
			return nil, fmt.Errorf("make secret %s: %w", name, err)
		} // another node may have been first: read what is there
	}
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
			tier, copies = t, int64(max(1, e.copies())) // such a limit is for one copy of everything
		}
	}
	return int64(tier.Store), max(0, tier.Limits.MaxStore*copies), nil
}
