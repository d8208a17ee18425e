package lake

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"sluice/event"
	"sluice/internal/iceberg"
)

// Predicate names an identifier. Exactly one member but Dataset is set.
type Predicate struct {
	Dataset     string // only events of this dataset; "" is all
	EmailSHA256 string // 64 hex digits
	IPSHA256    string // 64 hex digits
	IFA         string // in any case
	PartnerID   string
}

// condition is that a row carries the identifier.
func (p Predicate) condition() (c iceberg.Condition[event.Row], err error) {
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
		return c, errors.New("name exactly one identifier")
	}
	if _, err := hex.DecodeString(want); err != nil || want != "" && len(want) != 64 {
		return c, errors.New("a SHA-256 has 64 hex digits")
	}
	if p.Dataset == "" {
		return condition(name, match, nil), nil
	}
	return iceberg.Condition[event.Row]{
		Columns: []string{"data_set_id", name},
		Match:   func(r *event.Row) bool { return r.DatasetID == p.Dataset && match(r) },
	}, nil
}

// Erased is what an erasure did.
type Erased = iceberg.Deleted

// Erase deletes every stored event that carries an identifier, so that no file holds it any more. Rows that are
// committed while it runs may be missed; rows that were there when it began are not, wherever compaction carried
// them. ErrDamaged comes back, with the result, when files could not be read and so may hold it still.
func (l *Lake) Erase(ctx context.Context, p Predicate) (Erased, error) {
	c, err := p.condition()
	if err != nil {
		return Erased{}, err
	}
	return l.events.Delete(ctx, c)
}

// Count says how many stored events carry an identifier: those that Erase would delete.
func (l *Lake) Count(ctx context.Context, p Predicate) (int64, error) {
	c, err := p.condition()
	if err != nil {
		return 0, err
	}
	return l.events.Count(ctx, c)
}
