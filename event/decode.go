package event

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"sluice/event/internal/jsonscan"
	"sluice/gpp"
)

// MaxEvents is how many events one request may hold, from the specification.
const MaxEvents = 1000

// Bounds on what an answer repeats. Errors is the contract's; the two others are arbitrary, and only there so that a
// hostile body cannot make an answer many times its own size.
const (
	maxErrors       = 100
	maxWarnings     = 1000
	maxUnknownNamed = 32 // unknown members of one event that are warned about one by one
)

// Policy is what the key's dataset decides about its events.
type Policy struct {
	// DatasetID is the one data_set_id that is taken. Empty takes any, for a sender that checks events before it
	// knows the key.
	DatasetID string
	// SuppressOptOut removes the identifiers of people who opted out; without it their events are kept for
	// measurement only.
	SuppressOptOut bool
	// Suppression are the people whose events the operator suppresses; nil for nobody.
	Suppression SuppressionList
}

// SuppressionList knows identifiers of people whose events must not be matched.
type SuppressionList interface {
	// Seek appends what stands for the identifiers of a row, and begins to read for it, from memory that no cache has.
	Seek(*Row, []uint64) []uint64
	// Lists says whether a row has one of them, by what Seek appended for it.
	Lists([]uint64) bool
}

// Shape is what a body must be.
type Shape uint8

// The shapes of a body.
const (
	Single Shape = iota // one event
	Batch               // an array of events
	Any                 // either
)

// Decoder turns request bodies into rows. The zero value is ready; it may be used again and again, by one goroutine
// at a time.
type Decoder struct {
	// Explain asks for Result.Details.
	Explain bool

	scan  jsonscan.Scanner
	names jsonscan.Names
	path  [jsonscan.MaxLevels + 1]segment // where the value being read is, from the event on
	mute  bool                            // only the syntax of what is read matters

	nameless bool // names in what walk reads mean no consent signal: it is stored, or part of a signal that was noted
	inCustom bool // walk reads custom_data

	result   Result
	policy   Policy
	now      int64
	index    int
	draft    draft
	problems []problem // of the event being read
	broken   int       // how many problems it has, those not kept included
	doubled  int       // … names that occur twice among them
	plain    int       // … finds of plaintext among them
	warnings []Warning // of the event being read
	unknown  int       // its unknown members
	unread   int       // its consent signals that were not understood
	sids     []int32   // memory for the gpp_sid of the rows
	sought   []uint64  // of the event being read, in the suppression list

	lone      consent               // the first GPP string of this body
	consented bool                  // there is one
	consents  [consentSlots]consent // the others, by hash
	crowded   bool                  // there is one
}

// Result is what a body held.
type Result struct {
	Batch             bool        // the body was an array
	Total             int         // events in it
	Rows              []Row       // of the accepted events in request order; event and submission ids are not set
	Errors            []Error     // problems by index, then by the order of the rules; at most 100
	ErrorsTruncated   bool        // there were more
	Rejected          int         // events rejected
	Common            Code        // the code of every rejected event's first problem, "" if they differ
	Rejections        []Rejection // every problem, summed
	Warnings          []Warning   // of accepted events, by index; at most 1,000
	WarningsTruncated bool        // there were more
	// unknown members of rejected events, unless Explain puts them among the Warnings; at most 1,000
	Unknown      []Warning
	Warned       []Warned // accepted events by warning code
	Foreign      bool     // an event names another dataset than the policy's: the request is forbidden
	ForeignIndex int      // the first event that does
	Details      []Detail // one per row, when asked for
}

// Detail says why a row's privacy outcome is what it is.
type Detail struct {
	Reasons []string    // such as usnat.SaleOptOut
	GPP     *gpp.String // nil without one
}

// Decode reads a request body in one pass and judges every event in it. An error rejects the whole request; a Result
// returned with it holds only the number of events. now is the time of receipt, in whole seconds.
//
// The Result is valid until the next Decode or Reset. Strings in its rows are parts of body, a gpp_sid is memory of the
// Decoder.
func (d *Decoder) Decode(body string, shape Shape, p Policy, now time.Time) (*Result, *Error) {
	d.begin(body, p, now)
	var rejection *Error
	var ok bool
	switch d.scan.Space() {
	case '{':
		if shape == Batch {
			rejection = wholeError(InvalidType, "The body is an object; a batch is an array of events.",
				"Send a single event to /v1/events, or put it into an array. Convert the body of another platform with "+
					"sluice-send convert.")
			d.mute = true
		}
		d.result.Total = 1
		ok = d.oneEvent()
	case '[':
		if shape == Single {
			rejection = wholeError(InvalidType, "The body is an array; this path takes one event.",
				"Send arrays to /v1/events/batch.")
			d.mute = true
		}
		d.result.Batch = true
		ok = d.batch()
	case 0xef: // no value begins so, but a byte order mark does
		ok = d.scan.Fail(d.scan.Pos, "a byte order mark or another character that is no JSON")
	case 0:
		ok = d.scan.Fail(d.scan.Pos, "a byte that is no JSON")
	default:
		rejection = wholeError(InvalidType, "The body is neither an object nor an array.",
			"Send one event as an object to /v1/events, or an array of them to /v1/events/batch.")
		d.mute = true
		ok = d.walk(0)
	}
	if d.scan.Space(); ok && d.scan.Pos < len(d.scan.Input) {
		ok = d.scan.Fail(d.scan.Pos, "something follows the end of the JSON text")
	}
	if !ok {
		return nil, d.malformed()
	}
	if rejection == nil {
		rejection = d.sizeError()
	}
	if rejection != nil {
		return &Result{Batch: d.result.Batch, Total: d.result.Total}, rejection
	}
	return &d.result, nil
}

// malformed says why the body is no JSON, and how bodies get so.
func (d *Decoder) malformed() *Error {
	body, at := d.scan.Input, d.scan.FaultAt
	if strings.Trim(body, " \t\r\n") == "" {
		return wholeError(MalformedJSON, "The body is not valid JSON: it is empty (byte "+strconv.Itoa(at)+").",
			"Send the event in the body of the request, and check that the HTTP library sends it: some leave it out after a "+
				"redirect.")
	}
	hint := ""
	for _, m := range malformations {
		from := 0
		if !m.begins {
			from = at
		}
		if strings.HasPrefix(body[from:], m.text) {
			hint = m.hint
			break
		}
	}
	before := strings.TrimRight(body[:at], " \t\r\n")
	rest := strings.TrimLeft(body[at:], " \t\r\n")
	switch {
	case strings.HasSuffix(before, ",") && (strings.HasPrefix(rest, "}") || strings.HasPrefix(rest, "]")):
		hint = "Remove the comma before the closing brace or bracket."
	case strings.HasSuffix(before, "}") && strings.HasPrefix(rest, "{"):
		hint = "Send one JSON text: put the events into an array and send it to /v1/events/batch. sluice-send upload sends " +
			"files with one event a line."
	}
	return wholeError(MalformedJSON, "The body is not valid JSON: "+d.scan.Fault+" (byte "+strconv.Itoa(at)+").", hint)
}

// malformations are what bodies begin with that are no JSON, or what is at the fault.
var malformations = []struct {
	begins     bool
	text, hint string
}{
	{true, "\x1f\x8b", "The body is compressed with gzip: send Content-Encoding: gzip, too."},
	{true, "\x28\xb5\x2f\xfd", "The body is compressed with zstd: send Content-Encoding: zstd, too."},
	{true, "\xef\xbb\xbf", "The body begins with a byte order mark: write it as UTF-8 without one (in Python the " +
		"encoding utf-8, not utf-8-sig)."},
	{true, "\xff\xfe", "The body is UTF-16: write it as UTF-8 without a byte order mark."},
	{true, "\xfe\xff", "The body is UTF-16: write it as UTF-8 without a byte order mark."},
	{false, "NaN", "NaN is no JSON: leave the member out when there is no number."},
	{false, "nan", "NaN is no JSON: leave the member out when there is no number."},
	{false, "Infinity", "Infinity is no JSON: leave the member out when there is no number."},
	{false, "None", "None is Python, not JSON: make the body with json.dumps, which writes null."},
	{false, "True", "True is Python, not JSON: make the body with json.dumps, which writes true."},
	{false, "False", "False is Python, not JSON: make the body with json.dumps, which writes false."},
	{
		false, "undefined",
		"undefined is JavaScript, not JSON: make the body with JSON.stringify, which leaves such members out.",
	},
	{false, "'", "JSON has double quotes: make the body with a JSON library."},
}

// wholeError rejects the request. hint may be empty: then it is the code's remedy.
func wholeError(code Code, message, hint string) *Error {
	return &Error{Code: code, Message: message, Hint: cmp.Or(hint, codeTable[rank(code)].Remedy)}
}

// Reset forgets the last result, so that a Decoder that waits in a pool keeps no body and no person's data alive.
func (d *Decoder) Reset() {
	d.begin("", Policy{}, time.Time{})
	d.draft = draft{}
}

func (d *Decoder) begin(body string, p Policy, now time.Time) {
	d.scan.Start(body)
	d.names.Reset()
	d.mute = false
	d.policy, d.now, d.index = p, now.Unix(), 0
	d.sids = d.sids[:0]
	d.forgetConsents()
	r := &d.result
	clear(r.Rows)
	clear(r.Details)
	*r = Result{
		Rows: r.Rows[:0], Errors: r.Errors[:0], Rejections: r.Rejections[:0],
		Warnings: r.Warnings[:0], Unknown: r.Unknown[:0], Warned: r.Warned[:0], Details: r.Details[:0],
	}
}

// batch reads an array of events.
func (d *Decoder) batch() bool {
	d.scan.Pos++
	for {
		switch d.scan.Element(d.result.Total == 0) {
		case jsonscan.Broken:
			return false
		case jsonscan.End:
			return true
		}
		// The request is rejected by now, but a syntax fault comes first in the order of the rules.
		if d.result.Total == MaxEvents {
			d.mute = true
		}
		d.index = d.result.Total
		d.result.Total++
		if !d.oneEvent() {
			return false
		}
	}
}

// sizeError says that an array holds too few or too many events.
func (d *Decoder) sizeError() *Error {
	switch {
	case d.result.Total == 0:
		return wholeError(EmptyBatch, "The batch holds no event.", "")
	case d.result.Total > MaxEvents:
		message := "The batch holds " + strconv.Itoa(d.result.Total) + " events; at most 1,000 are taken."
		return wholeError(BatchTooLarge, message, "")
	}
	return nil
}

// oneEvent reads one event and judges it.
func (d *Decoder) oneEvent() bool {
	if d.mute {
		return d.walk(0)
	}
	d.draft = draft{}
	d.problems, d.warnings = d.problems[:0], d.warnings[:0]
	d.broken, d.doubled, d.plain, d.unknown, d.unread = 0, 0, 0, 0, 0
	if d.scan.Peek() != '{' {
		d.problem(InvalidType, "", "The event is not a JSON object.", "Send an object for every event.")
		d.mute = true
		ok := d.walk(0)
		d.mute = false
		d.reject()
		return ok
	}
	if !d.readMembers(fieldEvent, 1) {
		return false
	}
	d.judge()
	return true
}
