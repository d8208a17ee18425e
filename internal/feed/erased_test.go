package feed

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/identifier"
	"sluice/internal/lake"
	"sluice/internal/purpose"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

// What is erased is not handed out any more, also if other followers have read it before. What comes later is.
func TestErasedRows(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	s.send("shop", 40)
	rows, _ := s.all("purpose=measurement", "earliest")
	if !same(rows, want(40, purpose.Measurement)) {
		t.Fatalf("got %v", rows)
	}
	s.erase("late person")
	left := slices.DeleteFunc(want(40, purpose.Measurement), func(id string) bool { // the second of four has the partner id
		n, _ := strconv.Atoi(id[1:])
		return n%4 == 2
	})
	deadline := time.Now().Add(20 * time.Second)
	for !same(rows, left) {
		if time.Now().After(deadline) {
			t.Fatalf("got %v, want %v", rows, left)
		}
		rows, _ = s.all("purpose=measurement", "earliest")
	}
}

// erase erases a partner id: it leaves a tombstone, and the log names rows as the one who deletes or loads them writes it.
func (s *site) erase(partner string, rows ...event.Row) {
	s.t.Helper()
	list := s.erased.NewList()
	list.Put(identifier.Partner, partner)
	if _, err := s.erased.Add(s.t.Context(), list, "", time.Now(), time.Hour); err != nil {
		s.t.Fatal(err)
	}
	if err := s.erased.LeftOut(s.t.Context(), rows); err != nil {
		s.t.Fatal(err)
	}
}

// having are the rows of a submission with a partner id, as they are in the table.
func having(sub *submission.Submission, partner string) (out []event.Row) {
	for _, r := range sub.Rows {
		if r.PartnerID == partner {
			r.EventID = submission.EventID(sub.Base, r.SubmissionIndex)
			out = append(out, r)
		}
	}
	return out
}

func ids(rows []event.Row) (out []string) {
	for i := range rows {
		out = append(out, rows[i].EventID.String())
	}
	return out
}

// Each follower whose dataset and purpose cover an erased row is told once, whether or not it has read the row, and whatever it
// filters by. It does not get the row afterwards.
func TestErasedLines(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		now := s.get("all", "/feed/v1/events?purpose=measurement").Cursor
		shop, other := s.send("shop", 40), s.send("other", 8)
		_, read := s.all("purpose=measurement", Earliest)
		persons := append(having(shop, "person"), having(other, "person")...)
		s.erase("person", persons...)
		s.erase("person", persons...) // again: nothing new
		var optimized []event.Row
		for _, r := range persons {
			if r.OptimizationEligible {
				optimized = append(optimized, r)
			}
		}
		for name, c := range map[string]struct {
			token, query, cursor string
			want                 []event.Row
		}{
			"has read it":          {"all", "purpose=measurement", read, persons},
			"has read nothing":     {"all", "purpose=measurement", now, persons},
			"begins":               {"all", "purpose=measurement", Earliest, persons},
			"line by line":         {"all", "purpose=measurement&limit=1", read, persons},
			"filters":              {"all", "purpose=measurement&type=share&campaign=x", read, persons},
			"optimizes":            {"all", "purpose=optimization", read, optimized},
			"is bound":             {"bound", "purpose=measurement", read, having(shop, "person")},
			"follows one dataset":  {"all", "purpose=measurement&dataset=other", read, having(other, "person")},
			"of another dataset":   {"all", "purpose=measurement&dataset=none", read, nil},
			"begins with now":      {"all", "purpose=measurement", s.get("all", "/feed/v1/events?purpose=measurement").Cursor, nil},
			"bound and filters":    {"bound", "purpose=measurement&type=purchase", now, having(shop, "person")},
			"begins, line by line": {"all", "purpose=measurement&limit=1", Earliest, persons},
		} {
			var got []string
			for cursor, done := c.cursor, false; !done; {
				p := s.get(c.token, "/feed/v1/events?"+c.query+"&cursor="+cursor)
				if p.status != 200 {
					t.Fatalf("%s: got %d %s", name, p.status, p.text)
				}
				for _, id := range p.ids { // before its line it may come, for eraseAfter
					if slices.Contains(got, id) {
						t.Errorf("%s: an erased row was handed out after its line", name)
					}
				}
				got = append(got, p.erased...)
				cursor, done = p.Cursor, p.CaughtUp
			}
			if !slices.Equal(got, ids(c.want)) {
				t.Errorf("%s: got %d lines, want %d", name, len(got), len(c.want))
			}
		}
	})
}

// The cursor of a snapshot lies behind every erasure that the snapshot contains, and before all others.
func TestErasedAndSnapshots(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	sub := s.send("shop", 40)
	var rows []event.Row
	for _, name := range []string{"person", "late person"} {
		rows = append(rows, having(sub, name)...)
	}
	err := s.lake.Commit(t.Context(), lake.Batch{Spans: []lake.Span{{To: 1}}, Events: rows}, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := func() []string {
		snap, err := s.lake.Snapshot(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		at := s.get("all", fmt.Sprintf("/feed/v1/cursor?snapshot=%d", snap.ID))
		return s.get("all", "/feed/v1/events?purpose=measurement&cursor="+at.Cursor).erased
	}
	for _, name := range []string{"person", "late person"} {
		s.erase(name)
		gone := having(sub, name)
		err := s.erased.Pass(t.Context(), s.lake.ErasedMark, func(ctx context.Context, w *erasure.Writer) error {
			if err := w.Rows(ctx, gone); err != nil { // as it is right before the commit
				return err
			}
			if _, err := w.Mark(ctx, false); err != nil {
				return err
			}
			if got := lines(); !slices.Equal(got, ids(gone)) {
				t.Errorf("%s, before the commit: got %d lines, want %d", name, len(got), len(gone))
			}
			_, err := s.lake.Erase(ctx, lake.Choice{Kinds: []identifier.Kind{identifier.Partner}, Match: identifier.ID{Kind: identifier.Partner, Value: name}.In}, w)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := lines(); len(got) != 0 {
			t.Errorf("%s, behind the commit: got %d lines, want none", name, len(got))
		}
	}
}
