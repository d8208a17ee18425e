// Package humanize writes numbers, sizes and times as people read them.
package humanize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count writes a whole number with its thousands apart.
func Count[T int | int64 | uint64 | int32](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Percent writes a share. What is more than nothing is not written as 0 %, what is less than all not as 100 %.
func Percent(share float64) string {
	p := share * 100
	switch {
	case math.IsNaN(p) || p <= 0:
		return "0 %"
	case p < 0.1:
		return "< 0.1 %"
	case p >= 100:
		return "100 %"
	case p > 99.9:
		return "> 99.9 %"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}

// Money writes an amount with two decimals.
func Money(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 2, 64)
	whole, cents, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	out := Count(n) + "." + cents
	if v < 0 {
		out = "-" + out
	}
	return out
}

// Ago says how long since, in the largest unit that fits.
func Ago(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	d := now.Sub(then)
	if d < 2*time.Second {
		return "just now"
	}
	return Span(d) + " ago"
}

// Span writes a duration in one unit, as people say it.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

// Bytes writes a number of bytes.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

// Plural puts a number before its noun.
func Plural[T int | int64 | uint64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(int64(n)) + " " + many
}

// Share is part of whole, 0 when there is no whole.
func Share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Time writes a time to the second, in UTC.
func Time(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04:05") }
