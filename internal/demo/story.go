// Package demo is what sluice demo shows: a story of three senders, who sends it, and what people are told about it.
package demo

import (
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Days is how much of a story has happened before the day on which it is told.
const Days = 14

// Story is what a few senders send: fourteen whole days, and then on. The same seed tells the same story, so what the
// tables say about its first days can be written down. A Story is not for concurrent use.
type Story struct {
	Begin   int64 // midnight of its first day, in Unix seconds
	Senders []*Shop
}

// NewStory is a story that is told at a time, in Unix seconds.
//
//	shop    is well
//	travel  computes the wrong hash since a release on the morning of its day 11
//	outlet  is silent since noon of its day 12; its operator has opt-outs suppressed
func NewStory(seed uint64, now int64) *Story {
	s := &Story{Begin: now - now%86400 - Days*86400}
	s.Senders = []*Shop{
		{
			Dataset: "shop", Name: "Demo shop", visits: 160, currencies: []string{"USD", "USD", "USD", "EUR"}, sloppy: 0.004,
			campaigns: []campaign{
				{"cmp-101", "Autumn prospecting", 0},
				{"cmp-102", "Cart reminder", 0},
				{"cmp-103", "Brand film", 0},
				{"cmp-104", "Lamp launch", 7},
			},
			pages: []string{"/product/blue-lamp", "/product/oak-table-180", "/product/linen-chair"},
		},
		{
			Dataset: "travel", Name: "Travel app", visits: 70, currencies: []string{"EUR"}, bad: 11*24 + 9,
			campaigns: []campaign{{"trv-1", "City breaks", 0}, {"trv-2", "Last minute", 3}},
			pages:     []string{"/trips/lisbon", "/trips/tirol", "/trips/oslo"},
		},
		{
			Dataset: "outlet", Name: "Outlet store", Suppress: true, visits: 50, currencies: []string{"GBP"}, silent: 12*24 + 12,
			campaigns: []campaign{{"out-9", "Clearance", 0}},
			pages:     []string{"/sale/shoes", "/sale/coats"},
		},
	}
	for i, one := range s.Senders {
		one.begin, one.rand = s.Begin, rand.New(rand.NewPCG(seed, uint64(i)))
	}
	return s
}

// Shop is a sender of a story.
type Shop struct {
	Dataset, Name string
	Suppress      bool // the dataset's events of people who opted out are suppressed

	visits      int // in an hour at noon
	currencies  []string
	campaigns   []campaign
	pages       []string
	sloppy      float64 // share of events without an identifier
	bad, silent int64   // hours of the story from which on; 0 is never

	begin  int64
	rand   *rand.Rand
	shown  []impression // the last ones
	orders int
	later  []report // that are due later, in order
	out    []string
}

type campaign struct {
	id, name string
	from     int64 // day
}

type impression struct {
	at       int64
	person   int64
	campaign campaign
}

// report is an event on its way.
type report struct {
	due  int64 // when it is sent
	body string
}

// Hour is what the shop sends in an hour of the story up to a time, as elements of a batch. Hours come in their order.
func (s *Shop) Hour(hour, until int64) []string {
	from := s.begin + hour*3600
	spread := min(until-from, 3600)
	if spread <= 0 || s.silent > 0 && hour >= s.silent {
		return nil
	}
	// Few at night, most in the evening; and no hour is like the other.
	curve := []int{3, 2, 2, 2, 2, 3, 5, 7, 9, 10, 11, 12, 12, 11, 11, 11, 12, 14, 16, 18, 18, 15, 10, 6}
	visits := int64(s.visits*curve[hour%24]*(90+s.rand.IntN(20))) / 1200 * spread / 3600
	for range visits {
		s.visit(from+s.rand.Int64N(spread), spread)
	}
	if day := hour / 24; hour%24 == 4 && day >= 8 && day < Days {
		for range 6 { // the tills hand in what they sold a week ago
			s.order(from-8*86400+s.rand.Int64N(36000), s.rand.Int64N(people), campaign{}, "offline")
		}
	}
	return s.take(from+spread, len(s.out)+len(s.later))
}

// Next is n events that the shop sends now.
func (s *Shop) Next(now int64, n int) []string {
	if s.silent > 0 {
		return nil
	}
	for len(s.out) < n {
		s.visit(now-s.rand.Int64N(60), 600)
	}
	return s.take(now, n)
}

// take moves up to n events out, those first that were due earlier.
func (s *Shop) take(now int64, n int) (events []string) {
	due := 0
	for ; due < len(s.later) && s.later[due].due <= now; due++ {
		s.out = append(s.out, s.later[due].body)
	}
	s.later = slices.Delete(s.later, 0, due)
	n = min(n, len(s.out))
	events = slices.Clone(s.out[:n])
	s.out = slices.Delete(s.out, 0, n)
	return events
}

// people is how many there are. Two of them share a household.
const people = 200_000

// visit is two impressions, and somebody who looks around and may buy, mostly somebody who was shown something before.
func (s *Shop) visit(at, spread int64) {
	for range 2 {
		s.show(at - s.rand.Int64N(spread))
	}
	person, cp := s.rand.Int64N(people), campaign{}
	if i := s.shown[s.rand.IntN(len(s.shown))]; i.at < at-300 && s.chance(0.6) {
		person, cp = i.person, i.campaign
		if s.chance(0.1) {
			person ^= 1 // somebody else of the household
		}
	}
	page := s.pick(s.pages)
	s.event(at-240, "page_view", person, cp, page, "")
	for _, step := range []struct {
		eventType string
		before    int64
		share     float64
	}{{"viewed_item", 200, 0.6}, {"add_to_cart", 120, 0.5}, {"begin_checkout", 60, 0.5}} {
		if !s.chance(step.share) {
			if s.chance(0.03) {
				s.event(at, "sign_up", person, cp, "/account", "")
			}
			return
		}
		s.event(at-step.before, step.eventType, person, cp, page, "")
	}
	if s.chance(0.55) {
		s.order(at, person, cp, "website")
	}
}

func (s *Shop) show(at int64) {
	i := impression{at: at, person: s.rand.Int64N(people)}
	i.campaign = s.campaigns[s.rand.IntN(len(s.campaigns))]
	if at < s.begin+i.campaign.from*86400 {
		i.campaign = s.campaigns[0]
	}
	s.event(at, "ad_impression", i.person, i.campaign, "", "")
	if s.shown = append(s.shown, i); len(s.shown) > 500 { // arbitrary: some hours of them
		s.shown = slices.Delete(s.shown, 0, 100)
	}
}

// order is a purchase. The CRM reports many of them once more, an hour later, and some are given back after some days.
func (s *Shop) order(at, person int64, cp campaign, source string) {
	s.orders++
	id := fmt.Sprintf("%s-%d", s.Dataset, 1000+s.orders)
	cents, currency := 900+s.rand.Int64N(24_000), s.pick(s.currencies)
	details := func(source string, cents int64) string {
		return fmt.Sprintf(`,"source":"%s","value":%d.%02d,"currency_code":"%s","custom_data":{"order_id":"%s","items":%d}`,
			source, cents/100, cents%100, currency, id, 1+cents%4)
	}
	s.event(at, "purchase", person, cp, "/checkout/done", details(source, cents))
	if source != "offline" && s.chance(0.4) {
		s.follow(at+3600, s.body(at, "purchase", person, campaign{}, "", details("crm", cents)))
	}
	if s.chance(0.07) {
		back := at + 86400 + s.rand.Int64N(3*86400)
		if s.chance(0.3) {
			cents /= 2
		}
		s.follow(back, s.body(back, "refund", person, campaign{}, "", details("crm", cents)+`,"id":"r-`+id+`"`))
	}
}

func (s *Shop) event(at int64, eventType string, person int64, cp campaign, page, details string) {
	s.out = append(s.out, s.body(at, eventType, person, cp, page, details))
}

func (s *Shop) follow(due int64, body string) {
	s.later = append(s.later, report{due, body})
	slices.SortStableFunc(s.later, func(a, b report) int { return cmp.Compare(a.due, b.due) })
}

// body is one event. Whether a person opted out, and what is known of a device, are the same in all events of the
// person.
func (s *Shop) body(at int64, eventType string, person int64, cp campaign, page, details string) string {
	b := fmt.Appendf(nil, `{"data_set_id":"%s","timestamp":%d,"event_type":"%s"`, s.Dataset, at, eventType)
	if cp.id != "" {
		b = fmt.Appendf(b, `,"cp_id":"%s","cp_name":"%s"`, cp.id, cp.name)
	}
	if page != "" {
		b = fmt.Appendf(b, `,"page_url":"https://%s.example%s"`, s.Dataset, page)
	}
	if details == "" {
		details = `,"source":"website"`
	}
	b = append(b, details...)
	switch {
	case person%10 == 0:
		b = append(b, `,"privacy":{"gpp_string":"DBABLA~BVVmAAAACqA.QA","gpp_sid":[7]}`...) // opted out of sale
	case person%10 < 5:
		b = append(b, `,"privacy":{"gpp_string":"DBABLA~BVVqAAAACqA.QA","gpp_sid":[7]}`...)
	}
	return string(append(s.identifiers(append(b, `,"identifiers":{`...), at, eventType, person), "}}"...))
}

// identifiers adds the members of identifiers. A television shows an ad to a household, an app to a device.
func (s *Shop) identifiers(b []byte, at int64, eventType string, person int64) []byte {
	screen := person % 4
	switch {
	case s.chance(s.sloppy):
		return b
	case s.bad > 0 && at >= s.begin+s.bad*3600 && s.chance(0.8):
		return fmt.Appendf(b, `"email_sha256":"%x"`, md5.Sum(strconv.AppendInt(nil, person, 10)))
	}
	b = fmt.Appendf(b, `"ip":"%x"`, s.digest("household", person/2))
	if eventType != "ad_impression" || screen < 2 {
		b = fmt.Appendf(b, `,"email_sha256":"%x"`, s.digest("person", person))
	}
	if d := s.digest("device", person); screen == 2 {
		b = fmt.Appendf(b, `,"ifa":"%x-%x-4%s-a%s-%x"`, d[:4], d[4:6], hex.EncodeToString(d[6:8])[1:],
			hex.EncodeToString(d[8:10])[1:], d[10:16])
	}
	return b
}

// digest is the SHA-256 of something that belongs to nobody.
func (s *Shop) digest(what string, n int64) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %s %d", s.Dataset, what, n))
}

func (s *Shop) chance(share float64) bool { return s.rand.Float64() < share }

func (s *Shop) pick(from []string) string { return from[s.rand.IntN(len(from))] }
