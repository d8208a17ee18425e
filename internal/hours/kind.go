package hours

// alarmed are the kinds that alarms of datasets look at: they stay in memory however much fits. Others are kept for the
// last 24 hours of each dataset, as far as that fits.
var alarmed = map[string]bool{KindWarnings: true, KindSubmissions: true, KindRequests: true}

// A row of KindRejections has a count and a value. In an index they are two series.
const (
	kindRejected = "rejected" // events, at the code and field of their first problem: they add up to all rejected events
	kindProblem  = "problem"  // all problems of rejected events
)

// seriesKey names one number: a kind, and what of that kind. Thousands of datasets have the same names, so they share
// them.
type seriesKey struct{ Kind, Name, Field string }

// accepted says that the series is one of those that add up to all accepted events, one for each type.
func (k seriesKey) accepted() bool { return k.Kind == KindEvents && k.Field == FieldAccepted }

// The totals of a dataset, each a series of its own.
const (
	totalAccepted = iota
	totalRejected
	totalLate
	totalRestricted
	totalSuppressed
	totalCount
)

// total is the total that a series adds up to, or -1. A rejected event is counted at its first problem alone, so that
// the numbers add up.
func (k seriesKey) total() int {
	if k.Kind == kindRejected {
		return totalRejected
	}
	if k.Kind == KindEvents {
		switch k.Field {
		case FieldAccepted:
			return totalAccepted
		case FieldLate:
			return totalLate
		case FieldRestricted:
			return totalRestricted
		case FieldSuppressed:
			return totalSuppressed
		}
	}
	return -1
}
