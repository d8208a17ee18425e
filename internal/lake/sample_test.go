package lake

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/objectstore"
	"sluice/internal/submission"
)

// noon is the instant tests happen at.
var noon = time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)

// sampler makes rows as real senders send them: the standard mix that sizes and speeds are measured with.
type sampler struct {
	rand     *rand.Rand
	datasets int
	batch    int
}

func newSampler(seed uint64, datasets, batch int) *sampler {
	return &sampler{rand: rand.New(rand.NewPCG(seed, 1)), datasets: datasets, batch: batch}
}

func (s *sampler) base(at time.Time) (id event.ID) {
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	a, b := s.rand.Uint64(), s.rand.Uint64()
	for i := range 8 {
		id[6+i] = byte(a >> (8 * i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = 0x80 | byte(b)&0x3f
	return id
}

// idOf is a submission id with the time and the chance of a base.
func idOf(base event.ID) event.ID {
	base[6] = base[6]&0x0f | 0x80
	return base
}

// rows makes n events in submissions that arrive from at on.
func (s *sampler) rows(n int, at time.Time) []event.Row {
	out := make([]event.Row, 0, n)
	for len(out) < n {
		base := s.base(at.Add(time.Duration(s.rand.IntN(5000)) * time.Millisecond))
		id := submission.FormatID(submission.Batch, idOf(base))
		if s.batch == 1 {
			id = submission.FormatID(submission.Single, idOf(base))
		}
		dataset := "shop-" + strconv.Itoa(s.rand.IntN(s.datasets))
		for i := range min(s.batch, n-len(out)) {
			out = append(out, s.row(base, id, dataset, i, at))
		}
	}
	return out
}

func (s *sampler) row(base event.ID, submissionID, dataset string, i int, at time.Time) event.Row {
	r := s.rand
	age := int64(r.IntN(3600))
	if r.IntN(50) == 0 {
		age = int64(event.LateAge/time.Second) + int64(r.IntN(100000))
	}
	row := event.Row{
		EventID: submission.EventID(base, int32(i)), SubmissionID: submissionID, SubmissionIndex: int32(i),
		ReceivedAt: at.Unix(), DatasetID: dataset, EventTime: at.Unix() - age, Late: age >= int64(event.LateAge/time.Second),
		EventType: []string{"purchase", "add_to_cart", "view_content", "page_view", "lead"}[r.IntN(5)],
		Source:    "web", CampaignID: dataset, SchemaVersion: "1.0",
		PageURL: fmt.Sprintf("https://shop.example/products/%d?utm_source=mail&utm_campaign=c%d", r.IntN(2000), r.IntN(20)),
	}
	if r.IntN(2) == 0 {
		row.Referer = "https://search.example/?q=shoes"
	}
	if row.EventType == "purchase" {
		row.Value, row.HasValue, row.CurrencyCode = float64(r.IntN(20000))/100, true, "USD"
		row.OrderID = strconv.Itoa(r.IntN(1e9))
		row.CustomData = fmt.Sprintf(`{"order_id":"%s","items":%d}`, row.OrderID, r.IntN(9))
	}
	if r.IntN(10) < 6 {
		row.EmailSHA256 = digest(r.Uint64())
	}
	if r.IntN(10) < 4 {
		row.IPSHA256 = digest(r.Uint64())
	}
	if r.IntN(10) < 3 {
		row.IFA = s.base(at).String()
	}
	if r.IntN(10) < 2 {
		row.PartnerID = "p" + strconv.FormatUint(r.Uint64(), 36)
	}
	if r.IntN(10) < 3 {
		row.GPPString, row.GPPSID = "DBABLA~BVQqAAAAAgA.QA", []int32{7, 8}
		row.Privacy = event.MeasurementOnly
	}
	if i%5 == 0 {
		row.SenderEventID = "e-" + row.EventID.String()[24:]
	}
	row.OptimizationEligible = row.Privacy == event.Unrestricted && !row.Late
	return row
}

func digest(n uint64) string {
	h := sha256.Sum256(strconv.AppendUint(nil, n, 10))
	return hex.EncodeToString(h[:])
}

// openLake opens a lake whose clock stands at noon.
func openLake(t testing.TB, o Options) *Lake {
	t.Helper()
	if o.Store == nil {
		o.Store = at(t, t.TempDir())
	}
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// at is a directory as a store.
func at(t testing.TB, dir string) objectstore.Store {
	t.Helper()
	store, err := objectstore.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}
