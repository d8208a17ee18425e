package lake

import (
	"cmp"
	"encoding/hex"
	"strings"

	"sluice/event"
)

// Times are microseconds in the tables, seconds in rows.
const micro = 1_000_000

// hash is a SHA-256. All zeros stand for absence: the validator takes such a value for junk.
type hash [32]byte

// eventRow is one row of the events table as Parquet sees it. An empty optional member is null. How each column
// is encoded was measured (docs/decisions/0004): hashes do not shrink, so nobody tries; words that repeat go
// to a dictionary; times and ids are near their neighbours.
type eventRow struct {
	EventID              event.ID `parquet:"event_id,uuid,id(1)"`
	SubmissionID         string   `parquet:"submission_id,dict,id(2)"`
	SubmissionIndex      int32    `parquet:"submission_index,delta,id(3)"`
	ReceivedAt           int64    `parquet:"received_at,timestamp(microsecond:utc),dict,id(4)"`
	DatasetID            string   `parquet:"data_set_id,dict,id(5)"`
	EventTime            int64    `parquet:"event_time,timestamp(microsecond:utc),delta,id(6)"`
	EventType            string   `parquet:"event_type,dict,id(7)"`
	CustomEventName      string   `parquet:"custom_event_name,optional,dict,id(8)"`
	Source               string   `parquet:"source,optional,dict,id(9)"`
	CampaignID           string   `parquet:"cp_id,optional,dict,id(10)"`
	CampaignName         string   `parquet:"cp_name,optional,dict,id(11)"`
	Referer              string   `parquet:"referer,optional,dict,id(12)"`
	PageURL              string   `parquet:"page_url,optional,dict,id(13)"`
	Value                *float64 `parquet:"value,optional,id(14)"`
	CurrencyCode         string   `parquet:"currency_code,optional,dict,id(15)"`
	EmailSHA256          hash     `parquet:"email_sha256,optional,uncompressed,id(16)"`
	IFA                  string   `parquet:"ifa,optional,id(17)"`
	IPSHA256             hash     `parquet:"ip_sha256,optional,uncompressed,id(18)"`
	PartnerID            string   `parquet:"partner_id,optional,id(19)"`
	GPPString            string   `parquet:"gpp_string,optional,dict,id(20)"`
	GPPSID               []int32  `parquet:"gpp_sid,optional,list,id(21)" parquet-element:",dict,id(29)"`
	USPrivacyString      string   `parquet:"us_privacy_string,optional,dict,id(22)"`
	Privacy              string   `parquet:"privacy,dict,id(23)"`
	Late                 bool     `parquet:"late,id(24)"`
	MeasurementOnly      bool     `parquet:"mmt_only,id(25)"`
	OptimizationEligible bool     `parquet:"optimization_eligible,id(26)"`
	CustomData           string   `parquet:"custom_data,optional,dict,id(27)"`
	SchemaVersion        string   `parquet:"schema_version,dict,id(28)"`
}

// fill makes dst the stored form of an event. Its strings and lists are src's own.
func (dst *eventRow) fill(src *event.Row) {
	*dst = eventRow{
		EventID:              src.EventID,
		SubmissionID:         src.SubmissionID,
		SubmissionIndex:      src.SubmissionIndex,
		ReceivedAt:           src.ReceivedAt * micro,
		DatasetID:            src.DatasetID,
		EventTime:            src.EventTime * micro,
		EventType:            src.EventType,
		CustomEventName:      src.CustomEventName,
		Source:               src.Source,
		CampaignID:           src.CampaignID,
		CampaignName:         src.CampaignName,
		Referer:              src.Referer,
		PageURL:              src.PageURL,
		CurrencyCode:         src.CurrencyCode,
		IFA:                  src.IFA,
		PartnerID:            src.PartnerID,
		GPPString:            src.GPPString,
		GPPSID:               src.GPPSID,
		USPrivacyString:      src.USPrivacyString,
		Privacy:              src.Privacy.String(),
		Late:                 src.Late,
		MeasurementOnly:      src.MeasurementOnly,
		OptimizationEligible: src.OptimizationEligible,
		CustomData:           src.CustomData,
		SchemaVersion:        src.SchemaVersion,
	}
	if src.HasValue {
		dst.Value = &src.Value
	}
	dst.EmailSHA256.parse(src.EmailSHA256)
	dst.IPSHA256.parse(src.IPSHA256)
}

// event makes dst the event that was stored. Its strings and lists are the row's own, but for the hashes.
func (r *eventRow) event(dst *event.Row) {
	privacy, _ := event.ParseOutcome(r.Privacy)
	*dst = event.Row{
		EventID:              r.EventID,
		SubmissionID:         r.SubmissionID,
		SubmissionIndex:      r.SubmissionIndex,
		ReceivedAt:           r.ReceivedAt / micro,
		DatasetID:            r.DatasetID,
		EventTime:            r.EventTime / micro,
		EventType:            r.EventType,
		CustomEventName:      r.CustomEventName,
		Source:               r.Source,
		CampaignID:           r.CampaignID,
		CampaignName:         r.CampaignName,
		Referer:              r.Referer,
		PageURL:              r.PageURL,
		CurrencyCode:         r.CurrencyCode,
		EmailSHA256:          r.EmailSHA256.String(),
		IFA:                  r.IFA,
		IPSHA256:             r.IPSHA256.String(),
		PartnerID:            r.PartnerID,
		GPPString:            r.GPPString,
		GPPSID:               r.GPPSID,
		USPrivacyString:      r.USPrivacyString,
		Privacy:              privacy,
		Late:                 r.Late,
		MeasurementOnly:      r.MeasurementOnly,
		OptimizationEligible: r.OptimizationEligible,
		CustomData:           r.CustomData,
		SchemaVersion:        r.SchemaVersion,
	}
	if r.Value != nil {
		dst.Value, dst.HasValue = *r.Value, true
	}
}

// parse reads 64 hex digits; the validator lets no other shape through, "" is absence.
func (h *hash) parse(s string) bool {
	if len(s) != 2*len(h) {
		*h = hash{}
		return false
	}
	for i := range h {
		a, b := unhex[s[2*i]], unhex[s[2*i+1]]
		if a|b > 15 {
			*h = hash{}
			return false
		}
		h[i] = a<<4 | b
	}
	return true
}

func (h *hash) String() string {
	if *h == (hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

var unhex = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range "0123456789abcdef" {
		t[c] = byte(i)
	}
	for i, c := range "ABCDEF" {
		t[c] = byte(10 + i)
	}
	return t
}()

// compareEvents is the order of the rows in a part.
func compareEvents(a, b *eventRow) int {
	if c := strings.Compare(a.DatasetID, b.DatasetID); c != 0 {
		return c
	}
	if c := cmp.Compare(a.EventTime, b.EventTime); c != 0 {
		return c
	}
	return strings.Compare(string(a.EventID[:]), string(b.EventID[:]))
}

// Rejection counts how often one problem was found at one field in one submission, or in requests that were
// refused whole (then SubmissionID is empty). No content is kept.
type Rejection struct {
	ReceivedAt   int64 // Unix seconds
	DatasetID    string
	SubmissionID string
	Code         string
	Field        string
	Count        int64
	Events       int64 // events whose first problem this was: they add up to the rejected events
}

type rejectionRow struct {
	ReceivedAt   int64  `parquet:"received_at,timestamp(microsecond:utc),delta,id(1)"`
	DatasetID    string `parquet:"data_set_id,dict,id(2)"`
	SubmissionID string `parquet:"submission_id,optional,dict,id(3)"`
	Code         string `parquet:"error_code,dict,id(4)"`
	Field        string `parquet:"field,dict,id(5)"`
	Count        int64  `parquet:"count,dict,id(6)"`
	Events       int64  `parquet:"events,dict,id(7)"`
}

func (dst *rejectionRow) fill(src *Rejection) {
	*dst = rejectionRow{
		src.ReceivedAt * micro, src.DatasetID, src.SubmissionID, src.Code, src.Field, src.Count, src.Events,
	}
}

func compareRejections(a, b *rejectionRow) int {
	return cmp.Or(strings.Compare(a.DatasetID, b.DatasetID), cmp.Compare(a.ReceivedAt, b.ReceivedAt))
}

// Hour is one number of one dataset in one hour of receipt. What Kind, Name and Field mean is the writer's
// business; rows that agree in everything but Count and Value are added up.
type Hour struct {
	Hour      int64 // Unix seconds, a whole hour
	DatasetID string
	Kind      string
	Name      string
	Field     string
	Count     int64
	Value     float64
}

type hourRow struct {
	Hour      int64   `parquet:"hour,timestamp(microsecond:utc),dict,id(1)"`
	DatasetID string  `parquet:"data_set_id,dict,id(2)"`
	Kind      string  `parquet:"kind,dict,id(3)"`
	Name      string  `parquet:"name,dict,id(4)"`
	Field     string  `parquet:"field,dict,id(5)"`
	Count     int64   `parquet:"count,delta,id(6)"`
	Value     float64 `parquet:"value,id(7)"`
}

func (dst *hourRow) fill(src *Hour) {
	*dst = hourRow{src.Hour * micro, src.DatasetID, src.Kind, src.Name, src.Field, src.Count, src.Value}
}

func compareHours(a, b *hourRow) int {
	if a.DatasetID != b.DatasetID { // one after the other, for most rows differ in the first
		return strings.Compare(a.DatasetID, b.DatasetID)
	}
	if a.Hour != b.Hour {
		return cmp.Compare(a.Hour, b.Hour)
	}
	if a.Kind != b.Kind {
		return strings.Compare(a.Kind, b.Kind)
	}
	if a.Name != b.Name {
		return strings.Compare(a.Name, b.Name)
	}
	return strings.Compare(a.Field, b.Field)
}
