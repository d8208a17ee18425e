package upload

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
)

// BenchmarkPrepare is the uploader's own work on a batch of CSV: convert, hash, validate, write.
func BenchmarkPrepare(b *testing.B) {
	now := time.Now()
	var text bytes.Buffer
	text.WriteString("timestamp,event_type,email,value,currency_code,order\n")
	for i := range client.FillEvents {
		fmt.Fprintf(&text, "%d,purchase,buyer%d@example.com,%d.50,EUR,%d\n", now.Unix(), i, i, i)
	}
	in := &input.Options{Format: input.CSV, Hash: []string{"email=email_sha256"}, Dataset: "spring"}
	f, err := in.Open("-", &text)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	cut := &input.Cutter{Rows: f.Rows, MaxRows: client.FillEvents, MaxBytes: client.FillBytes}
	batch := new(input.Batch)
	if err := cut.Next(batch); err != nil {
		b.Fatal(err)
	}
	p := &Preparer{Mapping: f.Mapping, Now: func() time.Time { return now }}
	b.ReportAllocs()
	for b.Loop() {
		if prep := p.Prepare(batch); len(prep.Rejected) > 0 {
			b.Fatal("a row is rejected")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*client.FillEvents), "ns/row")
}
