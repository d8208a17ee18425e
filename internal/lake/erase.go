package lake

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/objectstore"
)

// Predicate names an identifier. Exactly one of the four is set.
type Predicate struct {
	Dataset     string // only events of this dataset; "" is all
	EmailSHA256 string // 64 hex digits
	IPSHA256    string // 64 hex digits
	IFA         string // a UUID or a hash in any case, another token as it was sent
	PartnerID   string

	ReceivedUntil time.Time // only events that were received in this second or before; zero is at any time
}

// condition is that a row carries the identifier.
func (p Predicate) condition() (c iceberg.Condition[event.Row], err error) {
	var name string
	var match func(*event.Row) bool
	want, ifa := strings.ToLower(p.EmailSHA256+p.IPSHA256), event.FoldIFA(p.IFA)
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
		name, match = "ifa", func(r *event.Row) bool { return event.FoldIFA(r.IFA) == ifa }
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
	c = condition(name, match, nil)
	if !p.ReceivedUntil.IsZero() {
		until, carries := p.ReceivedUntil.Unix(), c.Match
		c.Columns = append(c.Columns, "received_at")
		c.Match = func(r *event.Row) bool { return r.ReceivedAt <= until && carries(r) }
	}
	if p.Dataset != "" {
		carries := c.Match
		c.Columns = append(c.Columns, "data_set_id")
		c.Match = func(r *event.Row) bool { return r.DatasetID == p.Dataset && carries(r) }
	}
	return c, nil
}

// Erased is what an erasure did.
type Erased = iceberg.Deleted

// Witness is told of the rows that an erasure deletes, before they are gone, and says what the snapshot notes that is
// without them. Of a row it sees the event id, the dataset, when it was received, what it may be used for, and
// identifiers.
type Witness = iceberg.Witness[event.Row]

// witnessed are the columns of a row that a Witness sees, beside those of the condition.
var witnessed = []string{"event_id", "data_set_id", "privacy", "late", "optimization_eligible"}

// ErasedMark is what the table events notes about erasures.
func (l *Lake) ErasedMark(ctx context.Context) (string, error) {
	p, err := l.events.Progress(ctx)
	return p.Deleted, err
}

// Erase deletes every stored event that carries an identifier, so that no file holds it any more. Rows that are
// committed while it runs may be missed; rows that were there when it began are not, wherever compaction carried
// them. w, which may be nil, is told of them. ErrDamaged comes back, with the result, when files could not be read and
// so may hold it still.
func (l *Lake) Erase(ctx context.Context, p Predicate, w Witness) (Erased, error) {
	c, err := p.condition()
	if err != nil {
		return Erased{}, err
	}
	return l.events.Delete(ctx, c, w, witnessed...)
}

// EraseWhere deletes every stored event that match chooses, as Erase does. match sees the identifiers of a row, its
// dataset and when it was received.
func (l *Lake) EraseWhere(ctx context.Context, match func(*event.Row) bool, w Witness) (Erased, error) {
	return l.events.Delete(ctx, carried(match), w, witnessed...)
}

// Carried are the columns that EraseWhere shows of a row.
var Carried = []string{"data_set_id", "received_at", "email_sha256", "ifa", "ip_sha256", "partner_id"}

func carried(match func(*event.Row) bool) iceberg.Condition[event.Row] {
	return iceberg.Condition[event.Row]{Columns: Carried, Match: match}
}

// CountWhere says how many stored events EraseWhere would delete, and calls seen with each.
func (l *Lake) CountWhere(ctx context.Context, match func(*event.Row) bool, seen func(*event.Row)) (rows int64,
	err error,
) {
	q := iceberg.Query[event.Row]{Conditions: []iceberg.Condition[event.Row]{carried(match)}, Columns: []string{}}
	err = l.events.Scan(ctx, q, func(some []event.Row) error {
		rows += int64(len(some))
		for i := range some {
			seen(&some[i])
		}
		return ctx.Err()
	})
	return rows, err
}

// KeepsVersions says whether the bucket of the tables has kept what was deleted from it: then an erased identifier is
// still in versions of objects, which no table lists.
func (l *Lake) KeepsVersions() bool {
	s, ok := l.o.Store.(*objectstore.S3)
	return ok && s.KeepsVersions()
}

// EventsUpdated is when the table events changed, of the version that was read last. It goes back only if an old
// version of the table is put back.
func (l *Lake) EventsUpdated() time.Time { return l.events.Stats().Updated }

// Mentions says in which columns other rows hold the same text as an identifier, and in how many: Erase does not delete
// them, because they may be about somebody else.
func (l *Lake) Mentions(ctx context.Context, p Predicate) (map[string]int64, error) {
	carries, err := p.condition()
	if err != nil {
		return nil, err
	}
	texts := p.texts()
	out := map[string]int64{}
	if len(texts) == 0 {
		return out, nil
	}
	match := func(r *event.Row) bool {
		if carries.Match(r) || p.Dataset != "" && r.DatasetID != p.Dataset {
			return false
		}
		found := false
		for _, c := range []struct{ name, value string }{
			{"email_sha256", r.EmailSHA256},
			{"ip_sha256", r.IPSHA256},
			{"ifa", r.IFA},
			{"partner_id", r.PartnerID},
			{"page_url", r.PageURL},
			{"referer", r.Referer},
			{"custom_data", r.CustomData},
			{"custom_event_name", r.CustomEventName},
			{"source", r.Source},
			{"cp_id", r.CampaignID},
			{"cp_name", r.CampaignName},
			{"sender_event_id", r.SenderEventID},
			{"order_id", r.OrderID},
		} {
			if mentions(c.value, texts) {
				out[c.name]++
				found = true
			}
		}
		return found
	}
	_, err = l.events.Count(ctx, iceberg.Condition[event.Row]{
		Columns: []string{
			"data_set_id", "email_sha256", "ip_sha256", "ifa", "partner_id", "page_url", "referer", "custom_data",
			"custom_event_name",
			"source", "cp_id", "cp_name", "sender_event_id", "order_id",
		}, Match: match,
	})
	return out, err
}

// leastMention is how long an identifier is at least that is looked for inside of other texts. Arbitrary: shorter ones
// occur everywhere.
const leastMention = 8

// texts are the spellings of an identifier, in lower case.
func (p Predicate) texts() (out []string) {
	id := strings.ToLower(p.EmailSHA256 + p.IPSHA256 + p.IFA + p.PartnerID)
	if len(id) < leastMention {
		return nil
	}
	out = append(out, id)
	if bare := strings.ReplaceAll(id, "-", ""); p.IFA != "" && bare != id {
		out = append(out, bare)
	}
	return out
}

func mentions(value string, texts []string) bool {
	if len(value) < leastMention {
		return false
	}
	value = strings.ToLower(value)
	for _, text := range texts {
		if strings.Contains(value, text) {
			return true
		}
	}
	return false
}

// Count says how many stored events carry an identifier: those that Erase would delete.
func (l *Lake) Count(ctx context.Context, p Predicate) (int64, error) {
	c, err := p.condition()
	if err != nil {
		return 0, err
	}
	return l.events.Count(ctx, c)
}
