package lake

import (
	"context"
	"slices"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/iceberg"
	"sluice/internal/identifier"
	"sluice/internal/objectstore"
)

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

// Choice chooses events by identifiers, their dataset and when they were received. Match sees nothing else of a row,
// and of identifiers only those of some kinds.
type Choice struct {
	Kinds []identifier.Kind
	Match func(*event.Row) bool
}

// Columns are those that Match sees.
func (c Choice) Columns() []string {
	out := []string{"data_set_id", "received_at"}
	for _, k := range c.Kinds {
		out = append(out, string(k))
	}
	return out
}

func (c Choice) condition() condition { return condition{Columns: c.Columns(), Match: c.Match} }

// Erase deletes every chosen event, so that no file holds it any more. Rows that are committed while it runs may be
// missed; rows that were there when it began are not, wherever compaction carried them. w, which may be nil, is told of
// them. ErrDamaged comes back, with the result, when files could not be read and so may hold one still.
func (l *Lake) Erase(ctx context.Context, c Choice, w Witness) (Erased, error) {
	return l.events.Delete(ctx, c.condition(), w, witnessed...)
}

// Count says how many events Erase would delete, and calls seen, which may be nil, with each.
func (l *Lake) Count(ctx context.Context, c Choice, seen func(*event.Row)) (rows int64, err error) {
	q := iceberg.Query[event.Row]{Conditions: []condition{c.condition()}, Columns: []string{}}
	err = l.events.Scan(ctx, q, each(ctx, func(r *event.Row) error {
		rows++
		if seen != nil {
			seen(r)
		}
		return nil
	}))
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

// Mentions says in which columns rows of a dataset, or of all, that do not carry an identifier hold the same text, and
// in how many: an erasure does not delete them, because they may be about somebody else.
func (l *Lake) Mentions(ctx context.Context, dataset string, id identifier.ID) (map[string]int64, error) {
	texts := spellings(id)
	out := map[string]int64{}
	if len(texts) == 0 {
		return out, nil
	}
	match := func(r *event.Row) bool {
		if id.In(r) || dataset != "" && r.DatasetID != dataset {
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
	_, err := l.events.Count(ctx, condition{
		Columns: []string{
			"data_set_id", "email_sha256", "ip_sha256", "ifa", "partner_id", "page_url", "referer", "custom_data",
			"custom_event_name", "source", "cp_id", "cp_name", "sender_event_id", "order_id",
		}, Match: match,
	})
	return out, err
}

// leastMention is how long an identifier is at least that is looked for inside of other texts. Arbitrary: shorter ones
// occur everywhere.
const leastMention = 8

// spellings are those of an identifier, in lower case.
func spellings(id identifier.ID) (out []string) {
	text := strings.ToLower(id.Value)
	if len(text) < leastMention {
		return nil
	}
	out = append(out, text)
	if bare := strings.ReplaceAll(text, "-", ""); id.Kind == identifier.IFA && bare != text {
		out = append(out, bare)
	}
	return out
}

func mentions(value string, texts []string) bool {
	if len(value) < leastMention {
		return false
	}
	value = strings.ToLower(value)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(value, text) })
}
