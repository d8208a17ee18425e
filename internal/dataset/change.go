package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Create makes a dataset and its first key. The key cannot be shown again. An id in use is ErrExists, and that of a
// dataset that was deleted may be a *DeletedError.
func (r *Registry) Create(ctx context.Context, s Spec) (*Dataset, string, Key, error) {
	if err := s.Validate(); err != nil {
		return nil, "", Key{}, err
	}
	key, keyID, hash := newSecret(keyPrefix)
	var made *Dataset
	err := r.edit(ctx, s.ID, func(d *Dataset, now time.Time) error {
		if err := r.free(ctx, d, now); err != nil {
			return err
		}
		*d = Dataset{Spec: s, Created: now, Keys: []KeyInfo{{ID: keyID, Hash: hash, Created: now}}}
		made = d
		return nil
	})
	if err != nil {
		return nil, "", Key{}, err
	}
	return made, keyID, key, nil
}

// IssueKey gives a dataset one more key. With two live ones it is ErrTwoKeys.
func (r *Registry) IssueKey(ctx context.Context, id string) (string, Key, error) {
	return r.addKey(ctx, id, func([]KeyInfo, time.Time) {})
}

// addKey gives a dataset one more key, and has edit change those that it had.
func (r *Registry) addKey(ctx context.Context, id string, edit func([]KeyInfo, time.Time)) (string, Key, error) {
	key, keyID, hash := newSecret(keyPrefix)
	err := r.change(ctx, id, func(d *Dataset, now time.Time) error {
		if err := d.addKey(KeyInfo{ID: keyID, Hash: hash, Created: now}, now); err != nil {
			return err
		}
		edit(d.Keys[:len(d.Keys)-1], now)
		return nil
	})
	if err != nil {
		return "", Key{}, err
	}
	return keyID, key, nil
}

// RotateKey gives a dataset a new key and lets the one it has expire after the overlap, or sooner if it would anyway.
// With two live keys it is ErrTwoKeys: which one to let go is the operator's to say.
func (r *Registry) RotateKey(ctx context.Context, id string, overlap time.Duration) (string, Key, error) {
	if overlap < 0 {
		return "", Key{}, errors.New("dataset: an overlap cannot be negative")
	}
	return r.addKey(ctx, id, func(others []KeyInfo, now time.Time) {
		end := now.Add(overlap)
		for i := range others {
			if k := &others[i]; k.Live(now) && (k.Expires.IsZero() || k.Expires.After(end)) {
				k.Expires = end
			}
		}
	})
}

// RevokeKey ends a key at once, everywhere within seconds, and returns the dataset it belonged to. Revoking it again
// changes nothing. An unknown key is ErrNoKey.
func (r *Registry) RevokeKey(ctx context.Context, keyID string) (string, error) {
	return r.changeKey(ctx, keyID, func(k *KeyInfo, now time.Time) error {
		if k.Revoked.IsZero() {
			k.Revoked = now
		}
		return nil
	})
}

// changeKey applies edit to a key, and returns the dataset it belongs to. An unknown key is ErrNoKey.
func (r *Registry) changeKey(ctx context.Context, keyID string, edit func(*KeyInfo, time.Time) error) (string, error) {
	all, err := r.List(ctx)
	if err != nil {
		return "", err
	}
	for _, d := range all {
		if d.key(keyID) == nil {
			continue
		}
		return d.ID, r.change(ctx, d.ID, func(d *Dataset, now time.Time) error {
			k := d.key(keyID)
			if k == nil {
				return ErrNoKey
			}
			return edit(k, now)
		})
	}
	return "", ErrNoKey
}

// ErrNotEnding says that a key has no end that could be moved.
var ErrNotEnding = errors.New("dataset: the key is live without an end, or has ended already")

// ExtendKey moves the end of a key that is being rotated out, and returns the dataset it belongs to. A key without an
// end, one that has ended, and an end that has passed are ErrNotEnding. An unknown key is ErrNoKey.
func (r *Registry) ExtendKey(ctx context.Context, keyID string, until time.Time) (string, error) {
	return r.changeKey(ctx, keyID, func(k *KeyInfo, now time.Time) error {
		if k.Expires.IsZero() || !k.Live(now) || !until.After(now) {
			return ErrNotEnding
		}
		k.Expires = until.UTC()
		return nil
	})
}

// Set changes a dataset, within seconds everywhere, and returns it as it is then. edit may change its retention, and
// what its Spec says but the id. It is called again when somebody else was first.
func (r *Registry) Set(ctx context.Context, id string, edit func(*Dataset)) (*Dataset, error) {
	var out *Dataset
	err := r.change(ctx, id, func(d *Dataset, _ time.Time) error {
		edit(d)
		if d.RetentionDays < 0 {
			return errors.New("dataset: a retention is a number of days, or 0 for that of the tables")
		}
		out = d
		return d.Validate()
	})
	return out, err
}

func (d *Dataset) key(id string) *KeyInfo {
	for i := range d.Keys {
		if d.Keys[i].ID == id {
			return &d.Keys[i]
		}
	}
	return nil
}

// Disable closes a dataset to all its keys, within seconds everywhere.
func (r *Registry) Disable(ctx context.Context, id string) error {
	return r.change(ctx, id, func(d *Dataset, _ time.Time) error { d.Disabled = true; return nil })
}

// Enable opens a dataset to its live keys again.
func (r *Registry) Enable(ctx context.Context, id string) error {
	return r.change(ctx, id, func(d *Dataset, _ time.Time) error { d.Disabled = false; return nil })
}

// change is edit for a dataset that is there, and not deleted.
func (r *Registry) change(ctx context.Context, id string, edit func(*Dataset, time.Time) error) error {
	return r.edit(ctx, id, func(d *Dataset, now time.Time) error {
		if d.ID == "" || d.Deleted != nil {
			return ErrNotFound
		}
		return edit(d, now)
	})
}

// edit applies a change to the newest state of a record, which is zero where there is none. When someone else changed
// it in between, it starts over, so that the rules it holds up were checked against what is really replaced. It returns
// an error of the change as it is.
func (r *Registry) edit(ctx context.Context, id string, edit func(*Dataset, time.Time) error) error {
	if !ValidID(id) {
		return ErrNotFound
	}
	var rejected error
	err := r.replica.Bucket.Change(ctx, recordKey(id), func(before []byte) (_ []byte, err error) {
		d := &Dataset{}
		if before != nil {
			if d, err = decode(before); err != nil {
				return nil, err
			}
		}
		if rejected = edit(d, r.o.Now().UTC()); rejected != nil {
			return nil, rejected
		}
		return json.Marshal(toStored(d))
	})
	if rejected != nil {
		return rejected
	}
	if err == nil {
		err = r.replica.Published(ctx)
	}
	if err != nil {
		return fmt.Errorf("change dataset %s: %w", id, err)
	}
	return nil
}
