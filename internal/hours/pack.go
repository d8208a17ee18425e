package hours

import (
	"math"
	"math/bits"
	"slices"
)

// packed is the numbers of one dataset in few bytes, for there are thousands of them: its totals by the hour for a
// week, and its other numbers by the hour for a day. The slices never change.
type packed struct {
	last   int64  // the latest hour in which an event was accepted
	totals []byte // all five
	recent []byte // how many series there are; of each the number of its key, and its hours
	large  bool   // recent does not fit: only what alarms look at is there
}

// keys numbers the names of series. Datasets share them.
type keys struct {
	list   []seriesKey
	number map[seriesKey]uint32
}

// keysMax bounds the names of all datasets together. A dataset with others counts as a large one. Arbitrary: a hundred
// times more than senders use.
const keysMax = 1 << 16

func (k *keys) of(key seriesKey) (uint32, bool) {
	if n, ok := k.number[key]; ok {
		return n, true
	}
	if len(k.list) >= keysMax {
		return 0, false
	}
	if k.number == nil {
		k.number = map[seriesKey]uint32{}
	}
	n := uint32(len(k.list))
	k.number[key] = n
	k.list = append(k.list, key)
	return n, true
}

// packer writes numbers, small ones in half a byte: three bits at a time, and one that says whether more follow.
type packer struct {
	b    []byte
	half bool // half of the last byte is free
}

func (p *packer) put(v uint64) {
	for {
		n := byte(v & 7)
		if v >>= 3; v > 0 {
			n |= 8
		}
		if p.half {
			p.b[len(p.b)-1] |= n << 4
		} else {
			p.b = append(p.b, n)
		}
		p.half = !p.half
		if v == 0 {
			return
		}
	}
}

// unpacker reads them. After the end it reads zeros, and bad is true.
type unpacker struct {
	b   []byte
	at  int // in halves
	bad bool
}

func (u *unpacker) next() (v uint64) {
	for shift := 0; ; shift += 3 {
		if u.at/2 >= len(u.b) || shift > 63 {
			u.bad = true
			return 0
		}
		n := u.b[u.at/2] >> (4 * (u.at % 2))
		u.at++
		v |= uint64(n&7) << shift
		if n&8 == 0 {
			return v
		}
	}
}

// pack makes the packed form of a dataset: hours from week on of its totals, and from day on of its other numbers, in
// most bytes at the most.
func (k *keys) pack(d *Dataset, week, day int64, most int) *packed {
	d.filled()
	p := &packed{last: d.last}
	var out packer
	for i := range d.totals {
		out.series(&d.totals[i], week)
	}
	p.totals = slices.Clone(out.b)
	if p.recent, p.large = k.packSeries(d, day, most-len(p.totals), false); p.large {
		p.recent, _ = k.packSeries(d, day, math.MaxInt, true)
	}
	return p
}

// shownByName says whether somebody shows the number by its name; of the others the totals are enough.
func (k seriesKey) shownByName() bool { return k.Kind != KindEvents || k.Field == FieldAccepted }

// packSeries packs the series of a dataset, or those that alarms look at. These come first: lists of all datasets read
// no more. It says whether they do not fit.
func (k *keys) packSeries(d *Dataset, day int64, most int, alarms bool) (packed []byte, large bool) {
	var list, others []*series
	for key, s := range d.series {
		switch {
		case len(s.hours) == 0 || s.hours[len(s.hours)-1].at < day || !key.shownByName():
		case alarmed[key.Kind]:
			list = append(list, s)
		case !alarms:
			others = append(others, s)
		}
	}
	list = append(list, others...)
	if len(list) == 0 {
		return nil, most < 0
	}
	var out packer
	out.put(uint64(len(list)))
	for _, s := range list {
		n, ok := k.of(s.key)
		if !ok {
			return nil, true
		}
		out.put(uint64(n))
		if out.series(s, day); len(out.b) > most {
			return nil, true
		}
	}
	return slices.Clone(out.b), false
}

// series writes the hours of a series from one on, and days its days.
func (p *packer) series(s *series, from int64) {
	i, _ := slices.BinarySearchFunc(s.hours, from, comparePoint)
	p.points(s.hours[i:], 3600, func(at int64) float64 { return s.values[-at] })
}

func (p *packer) days(s *series) {
	p.points(s.days, 86400, func(at int64) float64 { return s.values[at] })
	for _, d := range s.days {
		p.put(uint64(int64(d.first) - d.at/3600))
		p.put(uint64(d.last - d.first))
	}
}

// points writes points: twice how many runs of them without a gap there are, and one more if there is money; of each
// run how far it is from the one before, how long it is, and its counts; then the money.
func (p *packer) points(points []point, step int64, value func(at int64) float64) {
	runs, money := 0, uint64(0)
	for j, one := range points {
		if j == 0 || one.at != points[j-1].at+step {
			runs++
		}
		if value(one.at) != 0 {
			money = 1
		}
	}
	p.put(uint64(runs)<<1 | money)
	before := int64(0)
	for j := 0; j < len(points); {
		n := 1
		for j+n < len(points) && points[j+n].at == points[j].at+int64(n)*step {
			n++
		}
		p.put(uint64(points[j].at/step - before))
		p.put(uint64(n))
		for _, one := range points[j : j+n] {
			p.put(uint64(max(0, one.count)))
		}
		before = points[j+n-1].at / step
		j += n
	}
	if money == 1 {
		for _, one := range points {
			p.put(bitsOf(value(one.at)))
		}
	}
}

// bitsOf are the bits of a number with those first that are often zero, so that round sums are short.
func bitsOf(v float64) uint64 { return bits.ReverseBytes64(math.Float64bits(v)) }

func valueOf(packed uint64) float64 { return math.Float64frombits(bits.ReverseBytes64(packed)) }

// points hands points to yield, and says whether money follows. Totals have none.
func (u *unpacker) points(step int64, yield func(at, count int64)) (money bool) {
	head := u.next()
	at := int64(0)
	for i := uint64(0); i < head>>1 && !u.bad; i++ {
		at += int64(u.next())
		n := u.next()
		for j := uint64(0); j < n && !u.bad; j++ {
			if j > 0 {
				at++
			}
			yield(at*step, int64(u.next()))
		}
	}
	return head&1 == 1
}

// series reads the hours of a series, and days its days.
func (u *unpacker) series(s *series) {
	money := u.points(3600, func(hour, count int64) {
		s.hours = append(s.hours, point{hour, count, int32(hour / 3600), int32(hour / 3600)})
	})
	if money {
		u.values(s, s.hours, -1)
	}
}

func (u *unpacker) days(s *series) {
	money := u.points(86400, func(day, count int64) {
		s.days = append(s.days, point{at: day, count: count})
	})
	if money {
		u.values(s, s.days, 1)
	}
	for i := range s.days {
		d := &s.days[i]
		d.first = int32(d.at/3600) + int32(u.next())
		d.last = d.first + int32(u.next())
	}
}

// values reads the money of points. The sign is that of their keys.
func (u *unpacker) values(s *series, points []point, sign int64) {
	if s.values == nil {
		s.values = make(map[int64]float64, len(points))
	}
	for _, p := range points {
		if v := valueOf(u.next()); v != 0 {
			s.values[sign*p.at] = v
		}
	}
}

// unpack is the dataset of its packed form. It is unpacked when somebody asks for more than its totals.
func (k *keys) unpack(p *packed) *Dataset {
	d := newDataset()
	if p == nil {
		return d
	}
	d.last, d.packed, d.recent, d.keys = p.last, p.totals, p.recent, k
	return d
}

// bytes is about how much memory a packed dataset takes, without its id.
func (p *packed) bytes() int { return 64 + cap(p.totals) + cap(p.recent) }
