package submission

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

var received = time.Date(2026, 11, 14, 23, 40, 5, 678e6, time.UTC)

// full is a submission in which every member of a row is used, and none.
func full() *Submission {
	s := &Submission{
		Kind: Batch, Base: NewBase(received), ReceivedAt: received.Unix(), DatasetID: "shop",
		Keyed: true, BodyDigest: [32]byte{1, 2, 3}, Extra: `,"accepted":2,"rejected":1`,
		Rejections: []event.Rejection{{Code: event.PlaintextPII, Field: "/identifiers/ip", Count: 3, Events: 1}},
		Rows: []event.Row{
			{
				SubmissionIndex: 0, EventTime: received.Unix() - 60, EventType: "custom", CustomEventName: "näme",
				Source: "app", CampaignID: "c", CampaignName: "n", Referer: "r", PageURL: "p", Value: -0.5, HasValue: true,
				CurrencyCode: "EUR", EmailSHA256: strings.Repeat("0a", 32), IFA: "9774d56d682e549c",
				IPSHA256: strings.Repeat("ff", 32), PartnerID: "x", GPPString: "DBAA", GPPSID: []int32{-1, 7},
				USPrivacyString: "1YNN", Privacy: event.MeasurementOnly, Late: true, MeasurementOnly: true,
				CustomData: `{"a":1.0}`, SchemaVersion: "1.0",
			},
			{SubmissionIndex: 2, EventTime: received.Unix() + 3, EventType: "purchase", CampaignID: "shop", Privacy: event.Suppressed, SchemaVersion: "1.0"},
			{SubmissionIndex: 999, EventTime: received.Unix(), EventType: "search", CampaignID: "shop", OptimizationEligible: true, HasValue: true, SchemaVersion: "1.0"},
		},
	}
	for i := range s.Rows {
		s.Rows[i].ReceivedAt, s.Rows[i].DatasetID = s.ReceivedAt, s.DatasetID
	}
	return s
}

func TestRecordRoundTrip(t *testing.T) {
	want := full()
	rec := string(AppendRecord(nil, want))
	got, err := DecodeRecord(rec, 3, 1<<39+7, 4095)
	if err != nil {
		t.Fatal(err)
	}
	want.Place(3, 1<<39+7, 4095)
	for i := range want.Rows {
		want.Rows[i].SubmissionID = FormatID(Batch, want.ID)
		want.Rows[i].EventID = EventID(want.Base, want.Rows[i].SubmissionIndex)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if g, w := got.Counts(), (Counts{Accepted: 3, Rejected: 1, Late: 1, Restricted: 1, Suppressed: 1}); g != w {
		t.Errorf("counts: got %+v, want %+v", g, w)
	}
}

// The record has every column of an event, though it does not follow the table of columns: its bytes lie on disks, so
// their order is fixed, and it spells each member as short as it can. A new column fails here until the record has it,
// in a new version: TestRecordRoundTrip compares the same rows.
func TestRecordHasEveryColumn(t *testing.T) {
	got, err := DecodeRecord(string(AppendRecord(nil, full())), 3, 1<<39+7, 4095)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range event.Columns() {
		absent, found := string(c.AppendText(nil, &event.Row{})), false
		for i := range got.Rows {
			found = found || string(c.AppendText(nil, &got.Rows[i])) != absent
		}
		if !found {
			t.Errorf("%s: no row that came back from a record has a value", c.Name)
		}
	}
}

// Rows are added to those there are, and nothing that was in their memory before shows through.
func TestDecodeAdds(t *testing.T) {
	rec := string(AppendRecord(nil, full()))
	want, err := DecodeRecord(rec, 0, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	var s Submission
	rows := make([]event.Row, 1, 10)
	for i := range rows[:cap(rows)] {
		rows[:cap(rows)][i] = event.Row{IFA: "before", GPPSID: []int32{1}, HasValue: true, Late: true}
	}
	for round := range 3 {
		if rows, err = d.Decode(&s, rows, rec, 0, 1, 0); err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1+3*(round+1) || rows[0].IFA != "before" {
			t.Fatalf("got %d rows", len(rows))
		}
		if !reflect.DeepEqual(&s, want) || !reflect.DeepEqual(rows[1:4], want.Rows) {
			t.Fatalf("round %d: got %+v, want %+v", round, s, want)
		}
	}
	if got, err := d.Decode(&s, rows, rec[:len(rec)-1], 0, 1, 0); err == nil || len(got) != len(rows) {
		t.Errorf("a damaged record: got %d rows, %v", len(got), err)
	}
}

// Every proper beginning of a record, and every record with something behind it, is rejected.
func TestRecordDamaged(t *testing.T) {
	rec := string(AppendRecord(nil, full()))
	for n := range len(rec) {
		if _, err := DecodeRecord(rec[:n], 0, 1, 0); !errors.Is(err, ErrDamaged) {
			t.Fatalf("first %d of %d bytes: got %v, want ErrDamaged", n, len(rec), err)
		}
	}
	for name, rec := range map[string]string{
		"left over":       rec + "\x00",
		"unknown version": "\x09" + rec[1:],
		"unknown kind":    rec[:1] + "\x07" + rec[2:],
	} {
		if _, err := DecodeRecord(rec, 0, 1, 0); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", name, err)
		}
	}
}

func TestIDHoldsItsPlace(t *testing.T) {
	base := NewBase(received)
	for _, want := range []struct {
		partition uint8
		seq       uint64
		slot      uint16
	}{{0, 1, 0}, {63, 1<<40 - 1, 4095}, {5, 123456789, 77}} {
		id := NewID(base, want.partition, want.seq, want.slot)
		p, seq, slot := Locate(id)
		if p != want.partition || seq != want.seq || slot != want.slot {
			t.Errorf("got %d/%d/%d, want %+v", p, seq, slot, want)
		}
		if got := Time(id); !got.Equal(received.Truncate(time.Millisecond)) {
			t.Errorf("time: got %v, want %v", got, received)
		}
		kind, back, ok := ParseID(FormatID(Single, id))
		if !ok || kind != Single || back != id {
			t.Errorf("parse %s: got %v %v %v", FormatID(Single, id), kind, back, ok)
		}
	}
}

func TestParseIDRejects(t *testing.T) {
	good := FormatID(Batch, NewID(NewBase(received), 0, 1, 0))
	if _, _, ok := ParseID(good); !ok {
		t.Fatalf("%s: rejected", good)
	}
	for _, s := range []string{
		"", "batch.", good[6:], "other." + good[6:], good + "0", strings.ToUpper(good), "batch." + strings.ToUpper(good[6:]),
		"single.00000000-0000-0000-0000-000000000000", strings.Replace(good, "-8", "-7", 1), strings.ReplaceAll(good, "-", "_"),
	} {
		if _, _, ok := ParseID(s); ok {
			t.Errorf("%q: accepted", s)
		}
	}
}

func TestReceipt(t *testing.T) {
	s := &Submission{Kind: Single, ReceivedAt: received.Unix()}
	s.Base = event.ID{1, 2, 3, 4, 5, 6, 0x70, 0, 0x80}
	s.Place(0, 1, 0)
	want := `{"submission_id":"single.01020304-0506-8000-8000-000000010000","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`
	if got := string(s.AppendReceipt(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(string(AppendRecord(nil, full())))
	f.Add(string(AppendRecord(nil, &Submission{Kind: Rejected, DatasetID: "d", Rejections: []event.Rejection{{Code: "X", Count: 1}}})))
	f.Add("\x01\x00")
	f.Fuzz(func(t *testing.T, rec string) {
		s, err := DecodeRecord(rec, 1, 2, 3)
		if err != nil {
			return
		}
		if n := CountRows(rec); n != len(s.Rows) {
			t.Errorf("got %d rows by count, %d by reading", n, len(s.Rows))
		}
		again, err := DecodeRecord(string(AppendRecord(nil, s)), 1, 2, 3)
		if err != nil {
			t.Fatalf("encoded again it is rejected: %v", err)
		}
		if len(again.Rows) != len(s.Rows) || again.DatasetID != s.DatasetID || again.Counts() != s.Counts() {
			t.Errorf("encoded again it differs")
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	s := full()
	for len(s.Rows) < 500 {
		s.Rows = append(s.Rows, s.Rows[0])
	}
	rec := string(AppendRecord(nil, s))
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendRecord(buf[:0], s)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/event")
		b.ReportMetric(float64(len(rec))/500, "B/event")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeRecord(rec, 0, 1, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/event")
	})
	b.Run("decode again", func(b *testing.B) { // into memory that was used before, as the loader does
		b.ReportAllocs()
		var rows []event.Row
		var d Decoder
		var s Submission
		for b.Loop() {
			var err error
			if rows, err = d.Decode(&s, rows[:0], rec, 0, 1, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/event")
	})
}
