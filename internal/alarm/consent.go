package alarm

import (
	"fmt"
	"slices"
	"strings"

	"sluice/event"
	"sluice/internal/hours"
	"sluice/internal/humanize"
)

// The edges of the alarm about consent that is not read: shares of a dataset's accepted events of the last 24 hours. A
// platform that switches passes the first within minutes; between the two the alarm stays as it is.
const (
	unreadBegins = 0.01
	unreadEnds   = 0.005
	unreadLeast  = 20 // events
)

// unreadCodes are the warnings that say that a consent signal is not read, or is no consent any more.
var unreadCodes = []event.Code{event.GPPVersionUnknown, event.TCFWithoutDisclosedVendors, event.PrivacyNotUnderstood}

// unreadConsent finds the codes of which a dataset has too many. It notes their shares in f.unread; before are those of
// the last look.
func (f *findings) unreadConsent(id string, numbers *hours.Dataset, day hours.Window, before []UnreadCode) {
	var says []string
	weight := int64(0)
	for _, code := range unreadCodes {
		n := numbers.Count(hours.KindWarnings, string(code), day)
		if n == 0 {
			continue
		}
		part := humanize.Share(n, numbers.Totals(day).Accepted)
		lasts := slices.ContainsFunc(before, func(u UnreadCode) bool { return u.Code == code })
		if part <= unreadBegins && !(lasts && part >= unreadEnds) || n < unreadLeast && !lasts {
			continue
		}
		f.unread[id] = append(f.unread[id], UnreadCode{code, part})
		says = append(says, fmt.Sprintf("%s have %s (%s)", humanize.Percent(part), code, humanize.Count(n)))
		weight += n
	}
	if len(says) > 0 {
		say := fmt.Sprintf("Dataset %s: of its accepted events of the last 24 hours %s.", id, strings.Join(says, ", "))
		f.consent = append(f.consent, finding{id, say, DiagnosisPath(id), weight})
	}
}

// Unread is consent of one dataset that is not read.
type Unread struct {
	Dataset, Say string
	Codes        []UnreadCode
}

// UnreadCode is the share of a dataset's accepted events that have a code.
type UnreadCode struct {
	Code  event.Code
	Share float64
}

// Unread lists the datasets whose consent is not read, those with the most events first.
func (s *State) Unread() (out []Unread) {
	for _, f := range s.found.consent {
		out = append(out, Unread{f.dataset, f.say, s.found.unread[f.dataset]})
	}
	return out
}
