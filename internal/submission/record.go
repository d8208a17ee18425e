package submission

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"sluice/event"
)

// RecordVersion is the first byte of every record: what this program writes, and the latest that it reads. A new layout
// gets a new number, and both are read until no stream has a record of the old one.
const RecordVersion = 1

// In the kind byte.
const (
	flagKeyed  = 0x80
	flagErased = 0x40
	flagWarned = 0x20
	flagCounts = 0x10 // of requests
)

// Which members of a row follow: text members in the order of textMembers, then the rest. The layout is not made from
// event.Columns, because records are read for as long as the stream retains them: a change to the
// columns must not move a bit. TestRecordHasEveryColumn fails for a column that the record does not have.
const (
	hasEmail = 1 << iota
	hasIP
	hasValue
	hasSID
	isLate
	isMeasurementOnly
	isEligible
	ownCampaign // cp_id is the dataset's id
	firstText   = iota
)

// textMembers are the members of a row that are written as text, each behind a bit of its own.
func textMembers(r *event.Row) [16]*string {
	return [...]*string{
		&r.EventType, &r.CustomEventName, &r.Source, &r.CampaignID, &r.CampaignName, &r.Referer, &r.PageURL,
		&r.CurrencyCode, &r.IFA, &r.PartnerID, &r.GPPString, &r.USPrivacyString, &r.CustomData, &r.SchemaVersion,
		&r.SenderEventID, &r.OrderID,
	}
}

// AppendRecord adds the submission's form in the stream to b. What is suppressed is no longer in the rows, so
// it is not in the record either. docs/format.md has the layout.
func AppendRecord(b []byte, s *Submission) []byte {
	kind := byte(s.Kind)
	if s.Keyed {
		kind |= flagKeyed
	}
	if s.Erased.Accepted > 0 {
		kind |= flagErased
	}
	if len(s.Warned) > 0 {
		kind |= flagWarned
	}
	if len(s.Requests) > 0 {
		kind |= flagCounts
	}
	b = append(b, RecordVersion, kind)
	b = append(b, s.Base[:]...)
	b = binary.AppendVarint(b, s.ReceivedAt)
	b = appendText(b, s.DatasetID)
	if s.Keyed {
		b = append(b, s.BodyDigest[:]...)
		b = appendText(b, s.Extra)
	}
	if s.Erased.Accepted > 0 {
		for _, n := range s.Erased.members() {
			b = binary.AppendUvarint(b, uint64(*n))
		}
	}
	if len(s.Warned) > 0 {
		b = binary.AppendUvarint(b, uint64(len(s.Warned)))
		for _, w := range s.Warned {
			b = appendText(b, string(w.Code))
			b = binary.AppendUvarint(b, uint64(w.Events))
		}
	}
	if len(s.Requests) > 0 {
		b = binary.AppendUvarint(b, uint64(len(s.Requests)))
		for _, r := range s.Requests {
			b = appendText(b, string(r.Code))
			b = binary.AppendUvarint(b, uint64(r.Count))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.Rejections)))
	for _, r := range s.Rejections {
		b = appendText(b, string(r.Code))
		b = appendText(b, r.Field)
		b = binary.AppendUvarint(b, uint64(r.Count))
		b = binary.AppendUvarint(b, uint64(r.Events))
	}
	b = binary.AppendUvarint(b, uint64(len(s.Rows)))
	for i := range s.Rows {
		b = appendRow(b, &s.Rows[i], s)
	}
	return b
}

// members are the counts of erased rows, in the order in which a record has them.
func (c *Counts) members() [4]*int {
	return [...]*int{&c.Accepted, &c.Late, &c.Restricted, &c.Suppressed}
}

// Without returns a record without the rows that were erased. It counts them, so that a look-up answers as before, and
// keeps what a replay of the Idempotency-Key needs. Of a deleted dataset it keeps the id and when the request was
// received, which tells a loader to leave it out. A record that cannot be read may hold such a row: it becomes an empty
// one, which cannot be read either.
func Without(record []byte, erased func(*event.Row) bool, deleted func(dataset string, received int64) bool) []byte {
	s, err := (*IDs)(nil).DecodeRecord(string(record), 0, 0, 0)
	if err != nil {
		return nil
	}
	if deleted(s.DatasetID, s.ReceivedAt) {
		return AppendRecord(nil, &Submission{Kind: Rejected, DatasetID: s.DatasetID, ReceivedAt: s.ReceivedAt})
	}
	kept := s.Rows[:0:0]
	for i := range s.Rows {
		if r := &s.Rows[i]; erased(r) {
			s.Erased.Accepted++
			s.Erased.Add(r)
		} else {
			kept = append(kept, *r)
		}
	}
	if len(kept) == len(s.Rows) {
		return record
	}
	s.Rows = kept
	return AppendRecord(nil, s)
}

func appendRow(b []byte, r *event.Row, s *Submission) []byte {
	texts := textMembers(r)
	bits := uint64(0)
	set := func(on bool, bit uint64) {
		if on {
			bits |= bit
		}
	}
	set(r.EmailSHA256 != "", hasEmail)
	set(r.IPSHA256 != "", hasIP)
	set(r.HasValue, hasValue)
	set(len(r.GPPSID) > 0, hasSID)
	set(r.Late, isLate)
	set(r.MeasurementOnly, isMeasurementOnly)
	set(r.OptimizationEligible, isEligible)
	own := r.CampaignID == s.DatasetID
	set(own, ownCampaign)
	for i, p := range texts {
		set(*p != "" && (!own || p != &r.CampaignID), 1<<(firstText+i))
	}
	b = binary.AppendUvarint(b, bits)
	b = binary.AppendUvarint(b, uint64(r.SubmissionIndex))
	b = binary.AppendVarint(b, s.ReceivedAt-r.EventTime)
	b = append(b, byte(r.Privacy))
	for i, p := range texts {
		if bits&(1<<(firstText+i)) != 0 {
			b = appendText(b, *p)
		}
	}
	if bits&hasEmail != 0 {
		b = appendHash(b, r.EmailSHA256)
	}
	if bits&hasIP != 0 {
		b = appendHash(b, r.IPSHA256)
	}
	if r.HasValue {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.Value))
	}
	if bits&hasSID != 0 {
		b = binary.AppendUvarint(b, uint64(len(r.GPPSID)))
		for _, id := range r.GPPSID {
			b = binary.AppendVarint(b, int64(id))
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendHash packs 64 hex digits into 32 bytes. The validator lets no other shape through.
func appendHash(b []byte, s string) []byte {
	n := len(b)
	b = append(b, make([]byte, 32)...)
	_, _ = hex.Decode(b[n:], []byte(s[:64]))
	return b
}

// ErrDamaged says that a record cannot be read: bytes are missing, left over or of an unknown version.
var ErrDamaged = errors.New("damaged record")

// ErrVersion says that a record is of a later version than this program reads. It is an ErrDamaged, too.
var ErrVersion = fmt.Errorf("%w: a later version", ErrDamaged)

// CheckVersion is ErrVersion for a record of a later version, without a look at the rest.
func CheckVersion(rec string) error {
	if rec != "" && rec[0] > RecordVersion {
		return fmt.Errorf("%w: the record has version %d, this program knows %d", ErrVersion, rec[0], RecordVersion)
	}
	return nil
}

// DecodeRecord reads the record at a place in the stream. Strings of the result are parts of rec.
func (ids *IDs) DecodeRecord(rec string, partition uint8, seq uint64, slot uint16) (*Submission, error) {
	s := new(Submission)
	d := Decoder{IDs: ids}
	if _, err := d.Decode(s, nil, rec, partition, seq, slot); err != nil {
		return nil, err
	}
	return s, nil
}

// Decoder is DecodeRecord for a caller that reads many records.
type Decoder struct {
	IDs *IDs
	scratch
}

// Decode makes s the submission in a record, adds its rows to rows and returns those; s.Rows are the new ones among
// them. After an error s is of no use and rows come back as they were.
func (d *Decoder) Decode(s *Submission, rows []event.Row, rec string, partition uint8, seq uint64,
	slot uint16,
) ([]event.Row, error) {
	if err := CheckVersion(rec); err != nil {
		return rows, err
	}
	if rec == "" || rec[0] != RecordVersion {
		return rows, fmt.Errorf("%w: no version", ErrDamaged)
	}
	r := reader{rest: rec[1:], scratch: &d.scratch}
	*s = Submission{}
	n := r.head(s)
	if s.Kind > Rejected {
		return rows, fmt.Errorf("%w: unknown kind", ErrDamaged)
	}
	d.IDs.Place(s, partition, seq, slot)
	all := r.rows(s, n, rows)
	if r.bad || r.rest != "" {
		return rows, fmt.Errorf("%w: wrong length", ErrDamaged)
	}
	return all, nil
}

// CountRows is how many rows a record holds, without a look at them; 0 for one that is damaged before them.
func CountRows(rec string) int {
	if rec == "" || rec[0] != RecordVersion {
		return 0
	}
	r := reader{rest: rec[1:]}
	return r.head(new(Submission))
}

// head reads what comes before the rows, but for the version, and returns how many rows there are.
func (r *reader) head(s *Submission) int {
	kind := r.byte()
	s.Kind = Kind(kind &^ (flagKeyed | flagErased | flagWarned | flagCounts))
	copy(s.Base[:], r.take(16))
	s.ReceivedAt = r.varint()
	s.DatasetID = r.text()
	if s.Keyed = kind&flagKeyed != 0; s.Keyed {
		copy(s.BodyDigest[:], r.take(32))
		s.Extra = r.text()
	}
	if kind&flagErased != 0 {
		e := &s.Erased
		for _, n := range e.members() {
			*n = int(r.small(math.MaxUint16))
		}
		if e.Accepted < max(1, e.Late, e.Restricted+e.Suppressed) { // no writer counts so
			r.fail()
		}
	}
	if kind&flagWarned != 0 {
		for n := r.count(2); n > 0; n-- {
			s.Warned = append(s.Warned, event.Warned{Code: event.Code(r.text()), Events: r.small(math.MaxInt32)})
		}
	}
	if kind&flagCounts != 0 {
		for n := r.count(2); n > 0; n-- {
			s.Requests = append(s.Requests, Requests{Code: event.Code(r.text()), Count: r.small(math.MaxInt32)})
		}
	}
	for n := r.count(4); n > 0; n-- {
		s.Rejections = append(s.Rejections, event.Rejection{
			Code: event.Code(r.text()), Field: r.text(), Count: r.small(math.MaxInt32), Events: r.small(math.MaxInt32),
		})
	}
	return r.count(leastRow)
}

// reader takes a record apart. After the first thing that does not fit everything reads as zero and bad is set.
type reader struct {
	rest string
	bad  bool
	*scratch
}

// scratch is memory for texts that are not in a record as they are read: the ids, the hex of hashes, the section ids.
// It is taken for many rows at once and never used twice.
type scratch struct {
	spelled []byte
	sids    []int32
}

// maxScratch is the most that is taken for rows that may come.
const maxScratch = 64 << 10

// reserve makes space for n more bytes of text. A caller that reads one record takes what it needs; one that reads many
// takes ever more.
func (r *scratch) reserve(n int) {
	if n > cap(r.spelled)-len(r.spelled) {
		r.spelled = make([]byte, 0, max(n, min(2*cap(r.spelled), maxScratch)))
	}
}

// last is the text that was added since at.
func (r *scratch) last(at int) string {
	return unsafe.String(unsafe.SliceData(r.spelled[at:]), len(r.spelled)-at)
}

// leastRow is the fewest bytes a row has: bits, index, time, outcome.
const leastRow = 4

func (r *reader) rows(s *Submission, n int, rows []event.Row) []event.Row {
	if n == 0 || s.Kind == Rejected {
		r.bad = r.bad || n > 0
		return rows
	}
	all := slices.Grow(rows, n)[:len(rows)+n]
	s.Rows = all[len(rows):]
	clear(s.Rows)                                   // the memory may have been used before
	r.reserve(idLength + min(2*len(r.rest), n*128)) // the longest that the hashes can be
	at := len(r.spelled)
	r.spelled = appendID(r.spelled, s.Kind, s.ID)
	id := r.last(at)
	for i := range s.Rows {
		row := &s.Rows[i]
		row.SubmissionID = id
		row.ReceivedAt = s.ReceivedAt
		row.DatasetID = s.DatasetID
		r.row(row, n-i)
		row.EventID = EventID(s.Base, row.SubmissionIndex)
	}
	return all
}

// row reads one row; left is how many there are from it on.
func (r *reader) row(row *event.Row, left int) {
	bits := r.uvarint()
	row.SubmissionIndex = r.small(math.MaxUint16)
	row.EventTime = row.ReceivedAt - r.varint()
	row.Privacy = event.Outcome(r.byte())
	row.Late = bits&isLate != 0
	row.MeasurementOnly = bits&isMeasurementOnly != 0
	row.OptimizationEligible = bits&isEligible != 0
	for i, p := range textMembers(row) {
		if bits&(1<<(firstText+i)) != 0 {
			*p = r.text()
		}
	}
	if bits&ownCampaign != 0 {
		row.CampaignID = row.DatasetID
	}
	if bits&hasEmail != 0 {
		row.EmailSHA256 = r.hash()
	}
	if bits&hasIP != 0 {
		row.IPSHA256 = r.hash()
	}
	if bits&hasValue != 0 {
		if b := r.take(8); len(b) == 8 {
			row.HasValue = true
			row.Value = math.Float64frombits(binary.LittleEndian.Uint64([]byte(b)))
		}
	}
	if bits&hasSID != 0 {
		row.GPPSID = r.sections(left)
	}
}

func (r *reader) fail() {
	r.bad = true
	r.rest = ""
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *reader) take(n int) string {
	if n < 0 || n > len(r.rest) {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) uvarint() uint64 {
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail()
	return 0
}

// small reads a number that is at most limit.
func (r *reader) small(limit uint64) int32 {
	v := r.uvarint()
	if v > limit {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// count reads how many things follow, each of at least size bytes: a damaged number must not reserve memory.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return r.take(r.count(1)) }

// sections reads a list of section ids. Most lists have one or two: memory for those of all rows left is taken at once.
func (r *reader) sections(left int) []int32 {
	n := r.count(1)
	if n > cap(r.sids)-len(r.sids) {
		r.sids = make([]int32, 0, max(n, min(2*left, 1024), min(2*cap(r.sids), 4096)))
	}
	at := len(r.sids)
	for range n {
		r.sids = append(r.sids, int32(r.varint()))
	}
	return r.sids[at:len(r.sids):len(r.sids)]
}

// hash reads 32 bytes as 64 hex digits. They are written behind those of the hashes before, never over them.
func (r *reader) hash() string {
	raw := r.take(32)
	if raw == "" {
		return ""
	}
	at := len(r.spelled)
	r.spelled = hex.AppendEncode(r.spelled, []byte(raw))
	return r.last(at)
}
