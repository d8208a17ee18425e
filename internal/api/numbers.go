package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"sluice/event"
	"sluice/internal/campaign"
)

// NumbersWindow is a stretch of time for which a sender may ask for its numbers. It ends with the hour or day that is
// running now. Times are UTC.
type NumbersWindow struct {
	Name  string
	Step  time.Duration // an hour or a day
	Steps int
}

// numbersWindows are the windows, the default one first. The smallest one holds the hour before the running one too, so
// that it never holds less than the last 60 minutes.
var numbersWindows = []NumbersWindow{
	{"24h", time.Hour, 24},
	{"1h", time.Hour, 2},
	{"7d", time.Hour, 7 * 24},
	{"30d", 24 * time.Hour, 30},
}

// Numbers are what the store holds of a dataset in a window. The members of the answer that the API knows by itself are
// filled in by it: see answerNumbers.
type Numbers struct {
	DatasetID string        `json:"data_set_id"`
	Window    string        `json:"window"`
	From      time.Time     `json:"from"`
	To        time.Time     `json:"to"`       // end of the running hour or day
	Complete  bool          `json:"complete"` // false while a server that has just started still reads its tables
	Received  int64         `json:"received"`
	Accepted  int64         `json:"accepted"`
	Rejected  int64         `json:"rejected"`
	Late      int64         `json:"late"`
	Outcomes  OutcomeCounts `json:"outcomes"`
	Requests  RequestCounts `json:"requests"`

	EventTypes     []TypeCount       `json:"event_types"` // of the most events first
	Rejections     []RejectionCount  `json:"rejections"`  // of the most events first
	Identifiers    []IdentifierCount `json:"identifiers"`
	MatchReadiness MatchReadiness    `json:"match_readiness"`
	Freshness      Freshness         `json:"freshness"`
	Key            KeyAge            `json:"key"`

	*CampaignNumbers // only where they are asked for
}

// CampaignNumbers are the numbers by campaign.
type CampaignNumbers struct {
	Campaigns  []campaign.Campaign `json:"campaigns"`
	AsReported bool                `json:"as_reported"`
	Note       string              `json:"note"`
}

// asReported says what numbers by campaign are not.
const asReported = "As reported: a conversion that was sent twice counts twice, and nothing is attributed. " +
	"The views campaign_days and attribution_days count each conversion once: ask the operator of the service for them."

// OutcomeCounts are accepted events by privacy outcome.
type OutcomeCounts struct {
	Unrestricted    int64 `json:"unrestricted"`
	MeasurementOnly int64 `json:"measurement_only"`
	Suppressed      int64 `json:"suppressed"`
}

// RequestCounts are requests with events. Those that were told to come later (409, 429, 5xx) are neither.
type RequestCounts struct {
	Accepted int64            `json:"accepted"` // answered with a receipt, replays included
	Rejected int64            `json:"rejected"` // rejected whole
	ByCode   map[string]int64 `json:"by_code"`  // the rejected ones, by the error_code of the answer
}

// TypeCount is how many events of a type were accepted.
type TypeCount struct {
	EventType string `json:"event_type"`
	Accepted  int64  `json:"accepted"`
}

// RejectionCount is one reason for rejections.
type RejectionCount struct {
	ErrorCode string    `json:"error_code"`
	Field     string    `json:"field"`
	Events    int64     `json:"events"`     // whose first problem it was: they add up to rejected
	Problems  int64     `json:"problems"`   // how often it was found at all
	FirstSeen time.Time `json:"first_seen"` // start of the hour, in the window
	LastSeen  time.Time `json:"last_seen"`  // start of the hour, in the window
	Hint      string    `json:"hint"`
	Example   string    `json:"example,omitempty"` // a member with a valid value
}

// IdentifierCount is how many accepted events carry an identifier.
type IdentifierCount struct {
	Field  string  `json:"field"`
	Events int64   `json:"events"`
	Share  float64 `json:"share"` // of the accepted events
}

// MatchReadiness says how well accepted events can be matched to persons.
type MatchReadiness struct {
	Points  float64        `json:"points"` // 0 to 100
	Formula string         `json:"formula"`
	Terms   ReadinessTerms `json:"terms"`
}

// ReadinessTerms are the numbers in the formula.
type ReadinessTerms struct {
	Strong   int64 `json:"with_email_or_ifa"`
	Weak     int64 `json:"with_ip_only"`
	Accepted int64 `json:"accepted"`
}

// Freshness says how new the numbers are.
type Freshness struct {
	CountedAt time.Time `json:"counted_at"` // when the tables were last read
	// how long the oldest event that is not counted yet has waited
	DelaySeconds  int64     `json:"delay_seconds"`
	LastEventHour time.Time `json:"last_accepted_hour,omitzero"` // start of the last hour with an accepted event
}

// KeyAge is the key that the request came with.
type KeyAge struct {
	KeyID      string    `json:"key_id"`
	CreatedAt  time.Time `json:"created_at"`
	AgeSeconds int64     `json:"age_seconds"`
	EndsAt     time.Time `json:"ends_at,omitzero"` // absent while the key has no end
}

// answerNumbers answers a sender with the numbers of its own dataset.
func (q *request) answerNumbers() error {
	names := windowNames()
	name, err := q.parameter("window", names[0], names...)
	if err != nil {
		return err
	}
	window := numbersWindows[slices.Index(names, name)]
	by, err := q.parameter("by", "", byCampaign)
	if err != nil {
		return err
	}
	n, err := q.server.Numbers(q.r.Context(), q.dataset.ID, window, q.start)
	if err == nil && by == byCampaign {
		n.CampaignNumbers = &CampaignNumbers{AsReported: true, Note: asReported}
		n.Campaigns, err = q.server.Campaigns(q.r.Context(), q.dataset.ID, window, q.start)
	}
	if err != nil {
		return advise(event.Unavailable, "The numbers of this window cannot be read now.",
			"Ask again later, or ask for window=24h.")
	}
	n.DatasetID, n.Window = q.dataset.ID, window.Name
	for i := range n.Rejections {
		r := &n.Rejections[i]
		r.Hint, r.Example = codeInfo(event.Code(r.ErrorCode)).Remedy, ValidExample(event.Code(r.ErrorCode), r.Field)
	}
	for i := range q.dataset.Keys {
		if k := &q.dataset.Keys[i]; k.ID == q.keyID {
			n.Key = KeyAge{
				KeyID: k.ID, CreatedAt: k.Created.UTC().Truncate(time.Second),
				AgeSeconds: max(0, int64(q.start.Sub(k.Created).Seconds())), EndsAt: k.Expires.UTC().Truncate(time.Second),
			}
		}
	}
	tag, err := n.tag()
	if err != nil {
		return err
	}
	q.w.Header()["Etag"] = []string{"W/" + tag}
	if known(q.r.Header["If-None-Match"], tag) {
		q.status = http.StatusNotModified
		return nil
	}
	out, err := json.Marshal(n)
	q.out = append(q.out[:0], out...)
	return err
}

// tag names the numbers. What moves with each second is no part of it: when they were counted, and the age of the key.
func (n Numbers) tag() (string, error) {
	n.Freshness.CountedAt, n.Freshness.DelaySeconds, n.Key.AgeSeconds = time.Time{}, 0, 0
	b, err := json.Marshal(n)
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:16]) + `"`, err
}

// byCampaign is the one value of the parameter by.
const byCampaign = "campaign"

func windowNames() (names []string) {
	for _, w := range numbersWindows {
		names = append(names, w.Name)
	}
	return names
}

// ValidExample is the member at a field with a valid value, for the sender to copy; "" where no single value can be
// given.
func ValidExample(code event.Code, field string) string {
	if code == event.MissingIdentifier && field == "" {
		field = "/identifiers"
	}
	f, known := event.LookupField(field)
	if !known {
		return ""
	}
	return `"` + f.Name() + `": ` + f.Example
}

func numbersSchema() object {
	shareSchema := func(most int, about string) object {
		return object{{"type", "number"}, {"format", "double"}, {"minimum", 0}, {"maximum", most}, {"description", about}}
	}
	count := func(description string) object { return countSchema(description).with("format", "int64") }
	byName := func(of object, description string) object {
		return object{{"type", "object"}, {"additionalProperties", of}, {"description", description}}
	}
	return shape(17, object{
		{"data_set_id", textSchema("The dataset of the key.")},
		{"window", object{{"type", "string"}, {"enum", windowNames()}}},
		{"from", timeSchema("Start of the window, a whole hour or day, in UTC.")},
		{"to", timeSchema("End of the hour or day that is running now.")},
		{"complete", flagSchema("False while a server that has just started still reads its tables: " +
			"the numbers are too small then.")},
		{"received", count("Events received: accepted and rejected.")},
		{"accepted", count("Events accepted.")},
		{"rejected", count("Events rejected.")},
		{"late", count("Accepted events that were late.")},
		{"outcomes", shape(3, object{
			{"unrestricted", count("Accepted events without restriction.")},
			{"measurement_only", count("Accepted events for measurement alone.")},
			{"suppressed", count("Accepted events whose identifiers were removed.")},
		})},
		{"requests", shape(3, object{
			{"accepted", count("Requests answered with a receipt, replays included.")},
			{"rejected", count("Requests rejected whole: malformed, from a browser, of the wrong method, media type or " +
				"dataset, too large, or without a valid event. 409, 429 and 5xx are neither.")},
			{"by_code", byName(count("Requests."), "Rejected requests by the error_code of their answer.")},
		})},
		{"event_types", listSchema(shape(2, object{
			{"event_type", textSchema("The type, or other for types beyond the first thousand.")},
			{"accepted", count("Events accepted.")},
		}), "Accepted events by type, the most frequent first.")},
		{"rejections", listSchema(shape(7, object{
			{"error_code", textSchema("As in the answers to events.")},
			{"field", textSchema("JSON Pointer inside the event; empty for the whole of it.")},
			{"events", count("Events whose first problem it was. They add up to rejected.")},
			{"problems", count("How often it was found at all.")},
			{"first_seen", timeSchema("Start of the hour in which it was first seen in the window.")},
			{"last_seen", timeSchema("Start of the hour in which it was last seen in the window.")},
			{"hint", textSchema("What to send instead.")},
			{"example", textSchema("A member with a valid value, where one can be given.")},
		}), "Reasons for rejections, of the most events first.")},
		{"identifiers", listSchema(shape(3, object{
			{"field", textSchema("The member of identifiers.")},
			{"events", count("Accepted events that carry it.")},
			{"share", shareSchema(1, "Of the accepted events.")},
		}), "Identifier coverage.")},
		{"match_readiness", shape(3, object{
			{"points", shareSchema(100, "How well accepted events can be matched to persons.")},
			{"formula", textSchema("How points are computed from the terms.")},
			{"terms", shape(3, object{
				{"with_email_or_ifa", count("Accepted events with email_sha256 or ifa.")},
				{"with_ip_only", count("Accepted events with ip and neither of the others.")},
				{"accepted", count("Accepted events.")},
			})},
		})},
		{"freshness", shape(2, object{
			{"counted_at", timeSchema("When the tables were last read.")},
			{"delay_seconds", count("How long the oldest event that is not counted yet has waited.")},
			{"last_accepted_hour", timeSchema("Start of the last hour with an accepted event. Absent without one.")},
		})},
		{"key", shape(3, object{
			{"key_id", textSchema("The id of the key that the request came with, never the key.")},
			{"created_at", timeSchema("When it was issued.")},
			{"age_seconds", count("How old it is.")},
			{"ends_at", timeSchema("When it ends. Absent while it has no end.")},
		})},
		{"campaigns", listSchema(shape(5, object{
			{"cp_id", textSchema("The campaign as it was sent; the dataset's id where none was. (none): suppressed events " +
				"without one. (other): campaigns beyond the first thousand, and any whose own id is (none) or (other).")},
			{"cp_name", textSchema("Its name that was seen last; empty where none was sent.")},
			{"events", byName(count("Events accepted."), "Accepted events by type.")},
			{"value", byName(object{{"type", "number"}, {"format", "double"}}, "Sum of value by currency, without refunds.")},
			{"refunds", byName(object{{"type", "number"}, {"format", "double"}},
				"Sum of the absolute values of refunds by currency.")},
		}), "With by=campaign: the 1,000 campaigns of the most events, by time of receipt. Nothing is counted once here.")},
		{"as_reported", flagSchema("With by=campaign: true. A conversion that was sent twice counts twice.")},
		{"note", textSchema("With by=campaign: which views count each conversion once.")},
	})
}
