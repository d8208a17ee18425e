//go:build mistakes

package measure

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/measure"
)

// swaps are single mistakes that somebody could make in a line of SQL.
var swaps = []struct{ old, new string }{
	{" < ", " <= "},
	{" <= ", " < "},
	{" > ", " >= "},
	{" = 1", " = 2"},
	{" <> ", " = "},
	{" AND ", " OR "},
	{" OR ", " AND "},
	{"IS NOT NULL", "IS NULL"},
	{"IS NULL", "IS NOT NULL"},
	{" DESC", ""},
	{"LEFT JOIN", "JOIN"},
	{"UNION ALL", "UNION"},
	{"count(DISTINCT ", "count("},
	{"lower(", "("},
	{"abs(", "("},
	{"row_number()", "rank()"},
	{"min(eligible)", "max(eligible)"},
	{"THEN 1 ELSE 0", "THEN 0 ELSE 1"},
	{"THEN 0 ELSE 1", "THEN 1 ELSE 0"},
	{"'measurement_only'", "'suppressed'"},
	{"'suppressed'", "'measurement_only'"},
	{"data_set_id, ", ""},
	{"event_type, key_kind", "key_kind"},
	{"key_kind, ", ""},
	{"cp_id", "cp_name"},
	{"event_time", "received_at"},
	{"received_at", "event_time"},
	{"order_id", "sender_event_id"},
	{"sender_event_id", "order_id"},
	{"'household'", "'device'"},
	{"'person'", "'device'"},
	{"email_sha256", "ip_sha256"},
	{"ip_sha256", "email_sha256"},
	{"gross", "refunded"},
	{" - sum", " + sum"},
	{"AT TIME ZONE", "AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE"},
	{"1000000)", "1000)"},
	{"IGNORE NULLS", ""},
	{"SELECT DISTINCT", "SELECT"},
	{"optimization_eligible AND", "NOT optimization_eligible AND"},
	{"'purchase'", "'sign_up'"},
	{"'refund'", "'purchase'"},
	{"'order'", "'event'"},
	{"currency_code = ", "order_id = "},
	{"floor(", "ceil("},
	{"1e15", "1e16"},
	{"> 1 THEN", "> 0 THEN"},
	{"NULLS FIRST", "NULLS LAST"},
	{", 0)", ", 1)"},
	{"COALESCE(order_time, event_time)", "event_time"},
	{"HAVING count(*) > ", "HAVING count(*) > 1 + "},
}

// dependants are the views that read another one, itself included.
var dependants = map[string][]string{
	"conversions":      {"conversions", "refunds", "campaign_days", "attributions", "attribution_days"},
	"refunds":          {"refunds", "campaign_days", "attribution_days"},
	"attributions":     {"attributions", "attribution_days"},
	"campaign_days":    {"campaign_days"},
	"touches":          {"touches"},
	"attribution_days": {"attribution_days"},
	"quality_days":     {"quality_days"},
}

// noticed says whether a view with a mistake in it gives other rows, or none at all.
func (tr *trial) noticed(view, mistaken string) bool {
	ctx, cancel := context.WithTimeout(tr.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := tr.ExecContext(ctx, "CREATE OR REPLACE VIEW "+view+" AS "+mistaken); err != nil {
		return true
	}
	for _, name := range dependants[view] {
		got, err := tr.read(ctx, name)
		if err != nil || differ(got, tr.want[name]) != "" {
			return true
		}
	}
	return false
}

// A single mistake in a line of the SQL is noticed. It takes long, and some of the mistakes change nothing, such as one in a
// filter that only saves work: whoever changes the SQL runs it and looks at what it names.
func TestMistakesAreNoticed(t *testing.T) {
	var trials []*trial
	for seed := range uint64(14) {
		trials = append(trials, newTrial(t, seed))
		for _, v := range trials[seed].views() {
			trials[seed].exec("CREATE OR REPLACE VIEW " + v.Name + " AS " + v.Query)
		}
	}
	tried, missed := 0, 0
	for at, name := range measure.Names() {
		for _, swap := range swaps {
			pattern := regexp.MustCompile(regexp.QuoteMeta(swap.old))
			// Both forms of a view have their own places; a mistake is the n-th place of its form.
			most := 0
			for _, tr := range trials {
				most = max(most, len(pattern.FindAllStringIndex(tr.views()[at].Query, -1)))
			}
			for n := range most {
				tried++
				seen, where := false, ""
				for _, tr := range trials {
					view := tr.views()[at]
					places := pattern.FindAllStringIndex(view.Query, -1)
					if n >= len(places) {
						continue
					}
					p := places[n]
					where = line(view.Query, p[0])
					seen = tr.noticed(view.Name, view.Query[:p[0]]+swap.new+view.Query[p[1]:])
					tr.exec("CREATE OR REPLACE VIEW " + view.Name + " AS " + view.Query)
					if seen {
						break
					}
				}
				if !seen {
					missed++
					t.Errorf("%s: %q instead of %q, place %d, changes nothing: %s", name, swap.new, swap.old, n, where)
				}
			}
		}
	}
	t.Log(fmt.Sprint(tried, " mistakes, ", missed, " not noticed"))
}

func line(text string, at int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	to := strings.IndexByte(text[at:], '\n')
	if to < 0 {
		to = len(text) - at
	}
	return strings.TrimSpace(text[from : at+to])
}
