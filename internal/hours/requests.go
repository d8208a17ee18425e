package hours

// Requests are how many requests with events were answered, with a valid key. Those that were told to come later (429,
// 5xx) are neither.
type Requests struct {
	Accepted int64 // with a receipt, replays included
	Rejected int64
	ByCode   []Group // the rejected ones, the most frequent code first
}

// Requests are those of the window.
func (d *Dataset) Requests(w Window) (out Requests) {
	rejected := func(yield func(*series) bool) {
		for s := range d.alarmed() {
			if s.key.acceptedRequest() {
				out.Accepted += s.sum(w)
			} else if !yield(s) {
				return
			}
		}
	}
	out.ByCode = groups(rejected, w, seriesKey.rejectedRequest)
	for i := range out.ByCode {
		out.Rejected += out.ByCode[i].Count
	}
	return out
}

// RequestsBy are the requests of each step of the window.
func (d *Dataset) RequestsBy(w Window) (accepted, rejected []int64) {
	accepted, rejected = make([]int64, w.Steps), make([]int64, w.Steps)
	for s := range d.alarmed() {
		switch {
		case s.key.acceptedRequest():
			s.addTo(accepted, w)
		case s.key.rejectedRequest():
			s.addTo(rejected, w)
		}
	}
	return accepted, rejected
}

// RejectedRequests are the requests of the window that were rejected with a code, and since when there are some, as
// Onset says it.
func (d *Dataset) RejectedRequests(code string, w Window) (requests, onset int64) {
	s := d.find(KindRequests, code, FieldRejected)
	if s == nil {
		return 0, 0
	}
	return s.sum(w), s.onset()
}

// acceptedRequest says that the series is one of those that add up to all accepted requests.
func (k seriesKey) acceptedRequest() bool {
	return k.Kind == KindSubmissions || k.Kind == KindRequests && k.Field == FieldReplayed
}

func (k seriesKey) rejectedRequest() bool { return k.Kind == KindRequests && k.Field == FieldRejected }
