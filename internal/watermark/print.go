package watermark

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Print tells the files of a day from others: two are the same if the day lists the same files, which never change.
// Nobody uses the name of a file twice, in whatever copy of a table.
type Print uint64

func (p Print) String() string { return fmt.Sprintf("%016x", uint64(p)) }

// PrintOf is the print of files by their names, which are in order.
func PrintOf(names []string) Print {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write([]byte(name + "\n")) // never fails
	}
	return Print(h.Sum64())
}

const daySeconds = 24 * 60 * 60

// FormatPrints writes the prints of days, which are counted from 1970: "2026-11-14:1f…,2026-11-15:07…".
func FormatPrints(prints map[int32]Print) string {
	var b strings.Builder
	for _, day := range slices.Sorted(maps.Keys(prints)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(time.Unix(int64(day)*daySeconds, 0).UTC().Format(time.DateOnly) + ":" + prints[day].String())
	}
	return b.String()
}

// ParsePrints reads what FormatPrints wrote, and passes over what is no day.
func ParsePrints(text string) map[int32]Print {
	out := map[int32]Print{}
	for one := range strings.SplitSeq(text, ",") {
		name, print, _ := strings.Cut(one, ":")
		day, err := time.Parse(time.DateOnly, name)
		if err != nil {
			continue
		}
		if p, err := strconv.ParseUint(print, 16, 64); err == nil {
			out[int32(day.Unix()/daySeconds)] = Print(p)
		}
	}
	return out
}
