//go:build mistakes

package measure

import (
	"context"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
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
	{"SELECT DISTINCT", "SELECT"},
	{"optimization_eligible AND", "NOT optimization_eligible AND"},
	{"'purchase'", "'sign_up'"},
	{"'refund'", "'purchase'"},
	{"'order'", "'event'"},
	{"currency_code = ", "order_id = "},
	{"floor(", "ceil("},
	{"1e15", "1e16"},
	{"> 1 THEN", "> 0 THEN"},
	{", 0)", ", 1)"},
	{"COALESCE(order_time, event_time)", "event_time"},
	{"HAVING count(*) > ", "HAVING count(*) > 1 + "},
}

// harmless are mistakes that change no row, by a part of their line, and why.
var harmless = []struct{ views, old, line, why string }{
	{"", "lower(", "event_id AS VARCHAR)", "DuckDB spells a UUID in lower case"},
	{"", "lower(", "ELSE lower(CAST(ip_sha256", "the log has its hashes in lower case"},
	{"", "row_number()", "", "no two rows are equal in all that they are ordered by"},
	{"", "IS NOT NULL", "ELSE 'row' END", "two kinds of keys change their names"},
	{"", "IS NOT NULL", "ELSE 'event' END AS key_kind", "two kinds of keys change their names"},
	{"", " > ", "WHERE reports > 1", "it only saves work"},
	{"", "abs(", "amount", "an amount is never negative"},
	{"", " > ", "HAVING count(*) >", "it only saves work"},
	{"", " AND ", ") m ON m.data_set_id", "it only saves work"},
	{"attributions", " AND ", "JOIN known k ON k.place = t.place", "it only saves work"},
	{"attributions", " > ", "impressions > 16", "what has nothing on the other side is nowhere"},
	{"attributions", "UNION ALL", "", "impressions and conversions differ"},
	{"touches", "", "AS place,", "attributions reads it"},
	{"touches", "", "END AS identifier,", "it hands out how identifiers are spelled"},
	{"attributions", "", "END AS spelled,", "it joins by the identifier"},
	{"conversions", "", "AS event_type, received_at, order_id,", "quality_days reads them, too"},
	{"refunds", " AND ", "FROM events WHERE event_type = 'refund'", "it only saves work"},
	{"refunds", "'refund'", "FROM events WHERE event_type = 'refund'", "it only saves work"},
	{"refunds", "SELECT DISTINCT", "FROM events WHERE event_type = 'refund'", "it only saves work"},
	{"refunds", " AND ", "JOIN named n ON", "it only saves work"},
	{"quality_days", "", "AS eligible", "conversions reads it"},
	{"quality_days", "", "AS reports,", "conversions reads it"},
}

// isHarmless says whether a mistake in a line changes no row.
func (m mistake) isHarmless(line string) bool {
	for _, h := range harmless {
		if strings.Contains(measure.Names()[m.view], h.views) && strings.Contains(m.old, h.old) && strings.Contains(line, h.line) {
			return true
		}
	}
	return false
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

// mistake is a swap at the n-th place of a view's query where it fits. Both forms of a view have their own places.
type mistake struct {
	view, n  int // the view is one of measure.Names
	old, new string
}

// mistakes are all that can be made in the queries of some trials.
func mistakes(trials []*trial) (all []mistake) {
	for at := range measure.Names() {
		for _, swap := range swaps {
			most := 0
			for _, tr := range trials {
				most = max(most, strings.Count(tr.views()[at].Query, swap.old))
			}
			for n := range most {
				all = append(all, mistake{at, n, swap.old, swap.new})
			}
		}
	}
	return all
}

// in makes the mistake in the query of a view, and says in which line. It is not ok if it does not fit there.
func (m mistake) in(query string) (mistaken, where string, ok bool) {
	places := regexp.MustCompile(regexp.QuoteMeta(m.old)).FindAllStringIndex(query, -1)
	if m.n >= len(places) {
		return "", "", false
	}
	p := places[m.n]
	return query[:p[0]] + m.new + query[p[1]:], line(query, p[0]), true
}

// A single mistake in a line of the SQL is noticed: MISTAKES of them, chosen by SEED, or all. Some change no row: see
// harmless.
func TestMistakesAreNoticed(t *testing.T) {
	var trials []*trial
	for seed := range uint64(14) {
		trials = append(trials, newTrial(t, seed))
		for _, v := range trials[seed].views() {
			trials[seed].exec("CREATE OR REPLACE VIEW " + v.Name + " AS " + v.Query)
		}
	}
	all := mistakes(trials)
	if n, _ := strconv.Atoi(os.Getenv("MISTAKES")); n > 0 {
		seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(n, len(all))]
	}
	missed := 0
	for _, m := range all {
		seen, line := false, ""
		for _, tr := range trials {
			view := tr.views()[m.view]
			mistaken, where, ok := m.in(view.Query)
			if !ok {
				continue
			}
			line = where
			seen = tr.noticed(view.Name, mistaken)
			tr.exec("CREATE OR REPLACE VIEW " + view.Name + " AS " + view.Query)
			if seen {
				break
			}
		}
		if !seen && !m.isHarmless(line) {
			missed++
			t.Errorf("%s: %q instead of %q, place %d, changes nothing: %s", measure.Names()[m.view], m.new, m.old, m.n, line)
		}
	}
	t.Logf("%d mistakes, %d not noticed", len(all), missed)
}

func line(text string, at int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	to := strings.IndexByte(text[at:], '\n')
	if to < 0 {
		to = len(text) - at
	}
	return strings.TrimSpace(text[from : at+to])
}
