package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/alarm"
	"sluice/internal/humanize"
	"sluice/internal/journal"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

type lookupPage struct {
	Query    string
	Problem  *message
	Found    *foundPage
	Requests []*requestPage // of different datasets: senders choose request ids
}

// requestPage is a request that was rejected, whole or in part.
type requestPage struct {
	journal.Request
	Answer, Class, ReceivedAt, Counts, DatasetPath, DiagnosisPath, SubmissionPath string
}

type foundPage struct {
	Status, Class, SubmissionID, DatasetID, DatasetPath string
	ReceivedAt, Counts, EventsSay                       string
	stream.Position
	Steps      []step
	Events     []foundEvent
	Rejections []event.Rejection
}

type step struct{ Name, Say, Class string }

type foundEvent struct {
	Index                                                        int32
	ID, Type, Time, Outcome, Class, Identifiers, Eligible, About string
	Late, Asked                                                  bool
}

// foundMax is how many events of a submission are listed.
const foundMax = 200

// lookup answers "where is my event?".
func (c *Console) lookup(w http.ResponseWriter, r *http.Request) {
	p := lookupPage{Query: strings.TrimSpace(r.URL.Query().Get("id"))}
	there := shown(c.s.Registry.Datasets())
	for _, r := range c.s.API.Journal.Find(p.Query, c.now()) {
		if there[r.DatasetID] {
			p.Requests = append(p.Requests, newRequestPage(r))
		}
	}
	if p.Query != "" { // what a sender chose as a request id hides no submission and no event
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		found, err := c.find(ctx, strings.ToLower(p.Query))
		if err == nil && !there[found.sub.DatasetID] {
			err = errNothing
		}
		switch {
		case err != nil && len(p.Requests) > 0:
		case errors.Is(err, errNoID):
			p.Problem = &message{
				Title: "Not a submission or event id",
				Say: "A submission id begins with single. or batch.; an event id is a UUID. Both are in the receipt and in GET " +
					"/v1/submissions. " + requestSay,
			}
		case errors.Is(err, errNothing):
			p.Problem = &message{
				Title: "Nothing has this id",
				Say: "It is neither in the stream nor in the lake. If the sender has a receipt with this id, compare it " +
					"letter by letter; if the answer was not a 200, the event was not accepted: see Diagnosis. " + requestSay,
			}
		case err != nil:
			c.s.Log.Error("look-up", "error", err)
			p.Problem = &message{
				Title: "The look-up did not work",
				Say:   "The stream or the lake did not answer; the log says why. Try again in a moment.",
			}
		default:
			p.Found = c.foundPage(found)
		}
	}
	c.show(w, http.StatusOK, "lookup", "Look-up", "/lookup", 0, p)
}

// requestSay is why a request id may find nothing.
const requestSay = "A request id (X-Request-Id) finds rejected requests of the last 24 hours, at the node that " +
	"answered, since it started."

// exactly is the form of a time to the millisecond.
const exactly = "2 Jan 2006 15:04:05.000"

func newRequestPage(r journal.Request) *requestPage {
	p := &requestPage{
		Request: r, Class: "bad", ReceivedAt: r.At.UTC().Format(exactly),
		Answer: strconv.Itoa(r.Status) + " " + string(r.Code),
	}
	if r.DatasetID != "" {
		p.DatasetPath, p.DiagnosisPath = alarm.DatasetPath(r.DatasetID), alarm.DiagnosisPath(r.DatasetID)
	}
	if r.SubmissionID != "" {
		p.Class, p.Answer = "warn", strconv.Itoa(r.Status)+", accepted in part"
		p.SubmissionPath = lookupPath(r.SubmissionID)
	}
	if r.Accepted+r.Rejected > 0 {
		p.Counts = receivedSum(r.Accepted, r.Rejected)
	}
	return p
}

// receivedSum writes out what became of the events that were received.
func receivedSum[T int | int64](accepted, rejected T) string {
	return fmt.Sprintf("%s received = %s accepted + %s rejected", humanize.Count(accepted+rejected),
		humanize.Count(accepted), humanize.Count(rejected))
}

func lookupPath(id string) string { return "/lookup?" + url.Values{"id": {id}}.Encode() }

var (
	errNoID    = errors.New("not an id")
	errNothing = errors.New("nothing by this id")
)

// found is a submission and where it was found.
type found struct {
	sub       *submission.Submission
	at        stream.Position
	inStream  bool
	stored    bool
	committed time.Time // zero when it is no longer known
	asked     event.ID  // the event that was asked for, if it was an event
}

func (c *Console) find(ctx context.Context, query string) (*found, error) {
	if kind, id, ok := submission.ParseID(query); ok {
		return c.findSubmission(ctx, kind, id)
	}
	id, ok := event.ParseID(query)
	if !ok {
		return nil, errNoID
	}
	row, err := c.s.Lake.FindEvent(ctx, id)
	if err != nil {
		waiting, missing := c.findWaiting(ctx, id)
		if errors.Is(missing, errNothing) && !errors.Is(err, lake.ErrNotFound) {
			return nil, err // it may be in the table
		}
		return waiting, missing
	}
	kind, sid, ok := submission.ParseID(row.SubmissionID)
	if !ok {
		return nil, errNothing
	}
	f, err := c.findSubmission(ctx, kind, sid)
	if f != nil {
		f.asked = id
	}
	return f, err
}

// findSubmission looks in the stream, by position, and then in the lake.
func (c *Console) findSubmission(ctx context.Context, kind submission.Kind, id event.ID) (*found, error) {
	f := &found{}
	var ok bool
	if f.at.Partition, f.at.Seq, f.at.Slot, ok = c.s.API.IDs.Locate(kind, id); !ok {
		return nil, errNothing
	}
	record, err := c.s.Stream.Read(ctx, f.at)
	switch {
	case err == nil:
		sub, err := c.s.API.IDs.DecodeRecord(string(record), f.at.Partition, f.at.Seq, f.at.Slot)
		if err == nil && sub.Kind == kind && sub.ID == id {
			f.sub, f.inStream = sub, true
			c.settle(f)
			return f, nil
		}
	case !errors.Is(err, stream.ErrNotFound) && !errors.Is(err, stream.ErrGone) && !errors.Is(err, stream.ErrDamaged):
		return nil, err
	}
	in, err := c.s.Lake.FindSubmission(ctx, "", submission.FormatID(kind, id))
	if errors.Is(err, lake.ErrNotFound) {
		return nil, errNothing
	}
	if err != nil {
		return nil, err
	}
	f.sub = &submission.Submission{Kind: kind, ID: id, Rows: in.Rows, ReceivedAt: submission.Time(id).Unix()}
	if len(in.Rows) > 0 {
		f.sub.DatasetID, f.sub.ReceivedAt = in.Rows[0].DatasetID, in.Rows[0].ReceivedAt
	}
	if in.Rejected > 0 {
		f.sub.Rejections = []event.Rejection{{Events: int32(in.Rejected)}}
	}
	c.settle(f)
	return f, nil
}

// waitingMax is how many frames are searched for an event that is not in the lake yet: far more than wait when
// the loader keeps up.
const waitingMax = 20_000

var errEnough = errors.New("enough")

// findWaiting looks for an event among what the loader has not stored yet.
func (c *Console) findWaiting(ctx context.Context, id event.ID) (*found, error) {
	base := submission.EventID(id, 0)
	var out *found
	for p := range c.s.Stream.Partitions() {
		frames := 0
		err := c.s.Stream.Scan(ctx, uint8(p), c.s.Loader.Watermark(uint8(p))+1, func(f stream.Frame) error {
			if frames++; frames > waitingMax {
				return errEnough
			}
			for slot, record := range f.Records {
				sub, err := c.s.API.IDs.DecodeRecord(string(record), uint8(p), f.Seq, uint16(slot))
				if err != nil || submission.EventID(sub.Base, 0) != base {
					continue
				}
				at := stream.Position{Partition: uint8(p), Seq: f.Seq, Slot: uint16(slot)}
				out = &found{sub: sub, at: at, inStream: true, asked: id}
				return errEnough
			}
			return nil
		})
		if out != nil {
			c.settle(out)
			return out, nil
		}
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
	}
	return nil, errNothing
}

// settle says whether the submission is stored, and since when.
func (c *Console) settle(f *found) {
	f.stored = !f.inStream || c.s.Loader.Watermark(f.at.Partition) >= f.at.Seq
	if f.stored {
		c.commits.look(c.s.Lake.Commits)
		f.committed = c.commits.at(f.at.Partition, f.at.Seq)
	}
}

func (c *Console) foundPage(f *found) *foundPage {
	s := f.sub
	counts := s.Counts()
	p := &foundPage{
		Status: "RECEIVED", Class: "note", SubmissionID: submission.FormatID(s.Kind, s.ID), DatasetID: s.DatasetID,
		DatasetPath: alarm.DatasetPath(s.DatasetID), ReceivedAt: humanize.Time(time.Unix(s.ReceivedAt, 0)), Position: f.at,
		Counts: fmt.Sprintf("%s; %s late, %s restricted, %s suppressed", receivedSum(counts.Accepted, counts.Rejected),
			humanize.Count(counts.Late), humanize.Count(counts.Restricted), humanize.Count(counts.Suppressed)),
		EventsSay: humanize.Plural(len(s.Rows), "accepted event", "accepted events"), Steps: steps(f),
	}
	if f.stored {
		p.Status, p.Class = "PROCESSED", "ok"
	}
	for i := range s.Rows {
		if len(p.Events) == foundMax {
			p.EventsSay += fmt.Sprintf(", the first %d are listed", foundMax)
			break
		}
		r := &s.Rows[i]
		e := foundEvent{
			Index: r.SubmissionIndex, ID: r.EventID.String(), Type: r.EventType, Time: humanize.Time(time.Unix(r.EventTime, 0)),
			Outcome: r.Privacy.String(), Class: outcomeClass(r.Privacy), Identifiers: kinds(r),
			Eligible: "not for optimization", About: about(r), Late: r.Late, Asked: r.EventID == f.asked,
		}
		if r.OptimizationEligible {
			e.Eligible = "for optimization, too"
		}
		p.Events = append(p.Events, e)
	}
	for _, r := range s.Rejections {
		if r.Code != "" && r.Events > 0 {
			p.Rejections = append(p.Rejections, r)
		}
	}
	return p
}

// steps is the way from receipt to commit.
func steps(f *found) []step {
	received := submission.Time(f.sub.ID)
	out := []step{
		{"Received", received.Format(exactly) + " UTC", ""},
		{"Acknowledged", fmt.Sprintf("The receipt went out once the frame was on stable storage: partition %d, frame %s.",
			f.at.Partition, humanize.Count(f.at.Seq)), ""},
	}
	switch {
	case f.stored && !f.committed.IsZero():
		out = append(out, step{"Stored", fmt.Sprintf("Committed to the lake %s UTC, %s after receipt.",
			humanize.Time(f.committed), humanize.Span(f.committed.Sub(received))), ""})
	case f.stored:
		out = append(out, step{"Stored", "In the lake. When it was committed is no longer known.", ""})
	default:
		out = append(out, step{"Waiting to be stored", "Safe in the stream; the loader commits every few seconds.", "wait"})
	}
	if !f.inStream {
		out = append(out, step{"Left the stream", "The stream has dropped it; the lake keeps it.", ""})
	}
	return out
}
