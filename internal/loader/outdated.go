package loader

import (
	"errors"
	"fmt"

	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// A frame, a record or a table of a later version is whole: a newer program reads it. So it is not damage, and nothing
// of it goes into quarantine. This process stops to load for good, because its version does not change, and in a
// cluster leaves the tables to newer nodes.

// outdate notes that this program is too old for something, if that is what an error says.
func (l *Loader) outdate(err error) bool {
	if !errors.Is(err, stream.ErrVersion) && !errors.Is(err, submission.ErrVersion) && !errors.Is(err, lake.ErrVersion) {
		return false
	}
	why := fmt.Sprintf("%s. A newer sluice has written it, and this one is too old to load. Nothing is lost: events are "+
		"accepted and wait in the stream. Start this server with the newer version; in a cluster newer nodes load meanwhile",
		err)
	if l.outdated.CompareAndSwap(nil, &why) {
		l.o.Log.Error("this program is too old to load", "error", err)
		if l.o.Engine != nil {
			l.resign()
		}
	}
	return true
}

// checkVersion says whether a frame, or a record in it, is of a later version.
func checkVersion(f *stream.Frame) error {
	if errors.Is(f.Damaged, stream.ErrVersion) {
		return fmt.Errorf("frame %d: %w", f.Seq, f.Damaged)
	}
	for _, record := range f.Records {
		if err := submission.CheckVersion(view(record)); err != nil {
			return fmt.Errorf("frame %d: %w", f.Seq, err)
		}
	}
	return nil
}
