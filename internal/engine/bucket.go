package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Bucket opens a key-value bucket, and makes it where there is none: on disk, with the newest value of each key. One
// that exists keeps its replicas unless Options say how many there must be.
func (e *Engine) Bucket(ctx context.Context, name, description string) (jetstream.KeyValue, error) {
	kv, err := e.js.KeyValue(ctx, name)
	if err == nil && e.o.Replicas == 0 {
		return kv, nil
	}
	if err == nil || errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = e.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: description, History: 1, Storage: jetstream.FileStorage, Replicas: max(1, e.o.Replicas),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return kv, nil
}
