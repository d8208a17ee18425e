package submission

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

var testIDs = newIDs(1)

var received = time.Date(2026, 11, 14, 23, 40, 5, 678e6, time.UTC)

// full is a submission in which every member of a row is used, and none.
func full() *Submission {
	s := &Submission{
		Kind: Batch, Base: NewBase(received), ReceivedAt: received.Unix(), DatasetID: "shop",
		Keyed: true, BodyDigest: [32]byte{1, 2, 3}, Extra: `,"accepted":2,"rejected":1`,
		Rejections: []event.Rejection{{Code: event.PlaintextPII, Field: "/identifiers/ip", Count: 3, Events: 1}},
		Warned:     []event.Warned{{Code: event.LateEvent, Events: 1}, {Code: event.GPPVersionUnknown, Events: 2}},
		Requests:   []Requests{{Code: event.MalformedJSON, Count: 7}, {Count: 2}},
		Rows: []event.Row{
			{
				SubmissionIndex: 0, EventTime: received.Unix() - 60, EventType: "custom", CustomEventName: "näme",
				Source: "app", CampaignID: "c", CampaignName: "n", Referer: "r", PageURL: "p", Value: -0.5, HasValue: true,
				CurrencyCode: "EUR", EmailSHA256: strings.Repeat("0a", 32), IFA: "9774d56d682e549c",
				IPSHA256: strings.Repeat("ff", 32), PartnerID: "x", GPPString: "DBAA", GPPSID: []int32{-1, 7},
				USPrivacyString: "1YNN", Privacy: event.MeasurementOnly, Late: true, MeasurementOnly: true,
				CustomData: `{"a":1.0}`, SchemaVersion: "1.0", SenderEventID: " e 7 ", OrderID: "o-7",
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
	got, err := testIDs.DecodeRecord(rec, 3, seqMask, 4095)
	if err != nil {
		t.Fatal(err)
	}
	testIDs.Place(want, 3, seqMask, 4095)
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
	got, err := testIDs.DecodeRecord(string(AppendRecord(nil, full())), 3, seqMask, 4095)
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

// A record without its erased rows counts them, and has everything else.
func TestWithout(t *testing.T) {
	kept := func(string, int64) bool { return false }
	rec := AppendRecord(nil, full())
	if got := Without(rec, func(*event.Row) bool { return false }, kept); string(got) != string(rec) {
		t.Error("a record of which nothing was erased has changed")
	}
	stripped := Without(rec, func(r *event.Row) bool { return r.IFA != "" }, kept)
	if bytes.Contains(stripped, bytes.Repeat([]byte{0x0a}, 32)) || bytes.Contains(stripped, []byte("9774d56d682e549c")) {
		t.Error("the record holds what was erased")
	}
	want, err := testIDs.DecodeRecord(string(rec), 3, 7, 9)
	if err != nil {
		t.Fatal(err)
	}
	counts := want.Counts()
	want.Rows, want.Erased = want.Rows[1:], Counts{Accepted: 1, Late: 1, Restricted: 1}
	got, err := testIDs.DecodeRecord(string(stripped), 3, 7, 9)
	if err != nil || !reflect.DeepEqual(got, want) || got.Counts() != counts {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if n := CountRows(string(stripped)); n != 2 {
		t.Errorf("got %d rows, want 2", n)
	}
	all := Without(stripped, func(*event.Row) bool { return true }, kept)
	if got, err := testIDs.DecodeRecord(string(all), 3, 7, 9); err != nil || len(got.Rows) != 0 || got.Counts() != counts || got.ID != want.ID {
		t.Errorf("without any row: got %+v, %v", got, err)
	}
	for n := range len(stripped) {
		if _, err := testIDs.DecodeRecord(string(stripped[:n]), 0, 1, 0); !errors.Is(err, ErrDamaged) {
			t.Fatalf("first %d of %d bytes: got %v, want ErrDamaged", n, len(stripped), err)
		}
	}
	if got := Without(rec[1:], func(*event.Row) bool { return false }, kept); len(got) != 0 {
		t.Error("a record that cannot be read is kept")
	}
}

// Rows are added to those there are, and nothing that was in their memory before shows through.
func TestDecodeAdds(t *testing.T) {
	rec := string(AppendRecord(nil, full()))
	want, err := testIDs.DecodeRecord(rec, 0, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := Decoder{IDs: testIDs}
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
		if _, err := testIDs.DecodeRecord(rec[:n], 0, 1, 0); !errors.Is(err, ErrDamaged) {
			t.Fatalf("first %d of %d bytes: got %v, want ErrDamaged", n, len(rec), err)
		}
	}
	for name, rec := range map[string]string{
		"left over":       rec + "\x00",
		"unknown version": "\x09" + rec[1:],
		"unknown kind":    rec[:1] + "\x07" + rec[2:],
	} {
		if _, err := testIDs.DecodeRecord(rec, 0, 1, 0); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", name, err)
		}
	}
}

func TestParseIDRejects(t *testing.T) {
	good := FormatID(Batch, placed(testIDs, Batch, 0, 1, 0).ID)
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
	s.ID = event.ID{1, 2, 3, 4, 5, 6, 0x80, 0, 0x80, 13: 1}
	want := `{"submission_id":"single.01020304-0506-8000-8000-000000010000","received_at":"2026-11-14T23:40:05Z","status":"RECEIVED"}`
	if got := string(s.AppendReceipt(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(string(AppendRecord(nil, full())))
	f.Add(string(AppendRecord(nil, &Submission{Kind: Rejected, DatasetID: "d", Rejections: []event.Rejection{{Code: "X", Count: 1}}})))
	f.Add("\x01\x00")
	f.Add("\x01A00000000000000000\x010\x00000\x00\x00") // flags of erased rows, and none erased
	f.Fuzz(func(t *testing.T, rec string) {
		s, err := testIDs.DecodeRecord(rec, 1, 2, 3)
		if err != nil {
			return
		}
		if n := CountRows(rec); n != len(s.Rows) {
			t.Errorf("got %d rows by count, %d by reading", n, len(s.Rows))
		}
		again, err := testIDs.DecodeRecord(string(AppendRecord(nil, s)), 1, 2, 3)
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
			if _, err := testIDs.DecodeRecord(rec, 0, 1, 0); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/event")
	})
	b.Run("decode again", func(b *testing.B) { // into memory that was used before, as the loader does
		b.ReportAllocs()
		var rows []event.Row
		d := Decoder{IDs: testIDs}
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
