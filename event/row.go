package event

import (
	"encoding/hex"
	"time"

	"sluice/gpp"
)

// Outcome is what the consent signals of an event allow. Larger is more restrictive.
type Outcome = gpp.Outcome

// The outcomes, in order of restriction.
const (
	Unrestricted    = gpp.Unrestricted    // as sent
	MeasurementOnly = gpp.MeasurementOnly // stored whole, never eligible for optimization
	Suppressed      = gpp.Suppressed      // every identifier is removed before anything durable is written
)

// ParseOutcome reads a wire spelling.
func ParseOutcome(s string) (Outcome, bool) {
	for o := Unrestricted; o <= Suppressed; o++ {
		if s == o.String() {
			return o, true
		}
	}
	return 0, false
}

// Row is one finished event, member by member as it is stored. Everything that can be decided is decided: a
// replay needs no clock, no key, no rule. An empty string is absence; hashes are lower case.
//
// Its strings may be parts of the request body they were decoded from, so a Row keeps that body alive.
type Row struct {
	EventID              ID     // given by the submission, not by the sender
	SubmissionID         string // given by the submission
	SubmissionIndex      int32  // position of the event in its request
	ReceivedAt           int64  // Unix seconds
	DatasetID            string
	EventTime            int64 // Unix seconds
	EventType            string
	CustomEventName      string
	Source               string
	CampaignID           string // cp_id
	CampaignName         string // cp_name
	Referer              string
	PageURL              string
	Value                float64
	HasValue             bool
	CurrencyCode         string
	EmailSHA256          string // 64 hex digits
	IFA                  string // UUIDs and hex in lower case
	IPSHA256             string // 64 hex digits
	PartnerID            string
	GPPString            string
	GPPSID               []int32
	USPrivacyString      string
	Privacy              Outcome
	Late                 bool
	MeasurementOnly      bool // mmt_only as sent
	OptimizationEligible bool
	CustomData           string // JSON object as it came, nulls dropped; "" when absent
	SchemaVersion        string
	SenderEventID        string // the sender's own id of what it reports
	OrderID              string // the sender's own id of the order
}

// ID is a UUID.
type ID [16]byte

const hexDigits = "0123456789abcdef"

// String is the canonical lower-case form.
func (id ID) String() string {
	var b [36]byte
	return string(id.Append(b[:0]))
}

// Append adds the canonical form to b.
func (id ID) Append(b []byte) []byte {
	for i, c := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// ParseID reads the canonical form, in lower case only: an id has one spelling.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != 36 {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:]))
	if err != nil || id.String() != s {
		return ID{}, false
	}
	return id, true
}

// The two ages that decide, from the specification.
const (
	LateAge = 7 * 24 * time.Hour  // at this age an event is late
	MaxAge  = 30 * 24 * time.Hour // over this age it is rejected
)
