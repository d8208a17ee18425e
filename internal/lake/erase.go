package lake

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/event"
)

// Predicate names an identifier. Exactly one member is set.
type Predicate struct {
	EmailSHA256 string // 64 hex digits
	IPSHA256    string // 64 hex digits
	IFA         string // in any case
	PartnerID   string
}

// Erased is what an erasure did.
type Erased struct {
	Rows  int64 // deleted
	Parts int   // rewritten or dropped
	Files int   // deleted
}

// selection finds rows that carry the identifier.
func (p Predicate) selection() (*selection[event.Row], error) {
	var name string
	var match func(*event.Row) bool
	want := strings.ToLower(p.EmailSHA256 + p.IPSHA256)
	set := 0
	if p.EmailSHA256 != "" {
		set++
		name, match = "email_sha256", func(r *event.Row) bool { return r.EmailSHA256 == want }
	}
	if p.IPSHA256 != "" {
		set++
		name, match = "ip_sha256", func(r *event.Row) bool { return r.IPSHA256 == want }
	}
	if p.IFA != "" {
		set++
		name, match = "ifa", func(r *event.Row) bool { return strings.EqualFold(r.IFA, p.IFA) }
	}
	if p.PartnerID != "" {
		set++
		name, match = "partner_id", func(r *event.Row) bool { return r.PartnerID == p.PartnerID }
	}
	if set != 1 {
		return nil, errors.New("name exactly one identifier")
	}
	if digest := make([]byte, 32); want != "" && (len(want) != 64 || !unhex(digest, want)) {
		return nil, errors.New("a SHA-256 has 64 hex digits")
	}
	columns, _ := split(eventColumns, name)
	return &selection[event.Row]{stages: []stage[event.Row]{{columns, match}}}, nil
}

// Erase deletes every stored event that carries an identifier, so that no file holds it any more. Rows that are
// committed while it runs may be missed; rows that were there when it began are not, wherever compaction carried
// them. ErrDamaged comes back, with the result, when parts could not be read and so may hold it still.
//
// Order: rewrite the parts that hold it and commit them in the place of the old ones, until a look at all parts
// finds none; commit once more without any older snapshot; delete what is no longer listed. A crash leaves
// either the old parts listed, or unlisted, or listed by old snapshots only; running it again finishes each.
//
// Steps: events.erase, then those of a commit, for each part; events.forget; events.sweep.
func (l *Lake) Erase(ctx context.Context, p Predicate) (Erased, error) {
	var out Erased
	sel, err := p.selection()
	if err != nil {
		return out, err
	}
	t := l.events
	seen := map[string]bool{}
	broken := map[string]bool{}
	for {
		s, err := t.refresh(ctx)
		if err != nil {
			return out, err
		}
		found := false
		for _, part := range s.parts() {
			if seen[part.name] {
				continue
			}
			seen[part.name] = true
			rows, whole, err := l.count(part, sel)
			if err != nil {
				return out, err
			}
			if !whole {
				broken[part.name] = true
			}
			if rows == 0 {
				continue
			}
			found = true
			err = l.eraseFrom(ctx, part, sel, rows, &out)
			if errors.Is(err, errUnreadable) {
				broken[part.name] = true
				err = nil
			}
			if err != nil {
				return out, err
			}
		}
		now, err := t.refresh(ctx)
		if err != nil {
			return out, err
		}
		if !found && now == s {
			break // else parts came meanwhile: perhaps old rows in a new place
		}
	}
	if err := t.at("forget"); err != nil {
		return out, err
	}
	// Twice, so that a damaged newest version can be done without: see load.
	for range 2 {
		if _, err := t.expire(ctx, true); err != nil {
			return out, err
		}
	}
	out.Files, err = t.sweep(ctx, 2)
	if err != nil {
		return out, err
	}
	// A part that was gone before it could be read has been replaced, by one that was looked at.
	left := 0
	for _, part := range t.state.Load().parts() {
		if broken[part.name] {
			left++
		}
	}
	if left > 0 {
		return out, fmt.Errorf("%w: %d parts could not be searched", ErrDamaged, left)
	}
	return out, nil
}

// count says how many rows of a part match, and whether all of it could be read.
func (l *Lake) count(p *part, sel *selection[event.Row]) (rows int64, whole bool, err error) {
	o, err := l.events.store.Open(p.name)
	if isMissing(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer o.Close()
	whole = true
	err = readRowsOf(p, o, sel, func(error) { whole = false }, func(some []event.Row) error {
		rows += int64(len(some))
		return nil
	})
	return rows, whole, err
}

// eraseFrom puts a part without the matching rows in the place of one with them.
func (l *Lake) eraseFrom(ctx context.Context, p *part, sel *selection[event.Row], rows int64, out *Erased) error {
	t := l.events
	release, err := t.store.Share(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := t.at("erase"); err != nil {
		return err
	}
	made, err := rewrite(ctx, t, eventSchema, []*part{p}, packed, packedPage, sel.stages[0].match, nil)
	if err != nil {
		return err
	}
	operation := narrowed
	if len(made) == 0 {
		operation = deleted
	}
	err = t.replace(ctx, operation, []*part{p}, made)
	if errors.Is(err, errStale) {
		return nil // compaction was faster; the part it made comes next
	}
	if err == nil {
		out.Rows += rows
		out.Parts++
	}
	return err
}
