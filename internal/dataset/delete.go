package dataset

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// lingering is for how long after a deletion events of the dataset may still be received: nodes follow within seconds,
// and their clocks differ. Arbitrary.
const lingering = 5 * time.Minute

// Deletion is what is left of a dataset that was deleted.
type Deletion struct {
	At   time.Time `json:"at"`
	Free time.Time `json:"free"` // from then on its id can be used again; the beginning of a day
}

// DeletedError says that an id belongs to a dataset that was deleted.
type DeletedError struct {
	ID string
	Deletion
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("dataset: %s was deleted at %s, and the stream may hold frames of it; its id can be used again "+
		"from %s on", e.ID, e.At.UTC().Format(time.RFC3339), e.Free.UTC().Format(time.RFC3339))
}

// freeFrom is when the stream holds nothing of a dataset any more that was deleted at a time. A whole day, because
// numbers are kept by the hour and by the day: none of them is of two datasets.
func freeFrom(at time.Time, frames time.Duration) time.Time {
	const day = 24 * time.Hour
	return at.UTC().Add(lingering + frames + day - 1).Truncate(day)
}

// Delete ends a dataset with its keys, within seconds everywhere. Its id stays taken while the stream holds frames of
// it. For a dataset that was deleted before, it says when; one that never was is ErrNotFound. as, if not nil, is a
// deletion that is known from elsewhere: it keeps the id taken for as long as it says, also where there is no record of
// the dataset.
func (r *Registry) Delete(ctx context.Context, id string, as *Deletion) (out Deletion, err error) {
	limits, err := r.replica.Engine.Limits(ctx)
	if err != nil {
		return out, fmt.Errorf("delete dataset %s: %w", id, err)
	}
	err = r.edit(ctx, id, func(d *Dataset, now time.Time) error {
		if d.ID == "" && as == nil {
			return ErrNotFound
		}
		left := as
		if left == nil {
			at := now.Truncate(time.Second)
			left = &Deletion{at, freeFrom(at, limits.MaxAge)}
		}
		if d.Deleted == nil || as != nil && d.Deleted.Free.Before(as.Free) {
			*d = Dataset{Spec: Spec{ID: id}, Created: cmp.Or(d.Created, left.At), Deleted: left}
		}
		out = *d.Deleted
		return nil
	})
	return out, err
}

// Deleted returns the datasets that were deleted and whose ids are not used again, by id.
func (r *Registry) Deleted(ctx context.Context) (map[string]Deletion, error) {
	entries, _, err := r.replica.Bucket.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list deleted datasets: %w", err)
	}
	out := map[string]Deletion{}
	for _, e := range entries {
		// one that cannot be read is told by who reads them all
		if d, err := decode(e.Value); err == nil && d.Deleted != nil {
			out[d.ID] = *d.Deleted
		}
	}
	return out, nil
}

// free is an error for a record in whose place no dataset can be made: there is one, or the stream may hold frames of
// one that was deleted.
func (r *Registry) free(ctx context.Context, d *Dataset, now time.Time) error {
	switch {
	case d.ID == "":
		return nil
	case d.Deleted == nil:
		return ErrExists
	}
	limits, err := r.replica.Engine.Limits(ctx)
	if err != nil {
		return err
	}
	left := *d.Deleted
	if free := freeFrom(left.At, limits.MaxAge); free.After(left.Free) { // the stream keeps frames for longer now
		left.Free = free
	}
	if now.Before(left.Free) {
		return &DeletedError{d.ID, left}
	}
	return nil
}
