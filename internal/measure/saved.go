package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"sluice/internal/engine"
)

// savedKey is where the settings are in the engine's settings.
const savedKey = "measure.views"

// Saved are the settings that an operator saved in the engine, for all nodes.
type Saved struct {
	bucket *engine.Bucket
	mu     sync.Mutex
	newest *Settings // as far as this process knows
}

// OpenSaved opens the settings that an engine holds.
func OpenSaved(ctx context.Context, e *engine.Engine) (*Saved, error) {
	bucket, err := e.Bucket(ctx, engine.Settings)
	if err != nil {
		return nil, err
	}
	return &Saved{bucket: bucket}, nil
}

// Save saves valid settings. Every node has them from then on. The relation of events is not saved: each catalog has
// its own.
func (s *Saved) Save(ctx context.Context, settings Settings) error {
	settings.Events = Defaults().Events
	b, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	if _, err := s.bucket.Put(ctx, savedKey, b); err != nil {
		return fmt.Errorf("save the settings of views: %w", err)
	}
	return nil
}

// Settings are those that were saved last, else the defaults. While the engine does not answer, what it last said
// holds.
func (s *Saved) Settings(ctx context.Context) (Settings, error) {
	now := Defaults()
	found, err := s.bucket.Get(ctx, savedKey)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		err = nil
	case err == nil:
		err = json.Unmarshal(found.Value, &now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.newest = &now
	} else if s.newest == nil {
		return now, fmt.Errorf("read the settings of views: %w", err)
	}
	return *s.newest, nil
}
