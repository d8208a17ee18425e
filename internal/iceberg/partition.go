package iceberg

import (
	"path"
	"time"

	apache "github.com/apache/iceberg-go"
)

// A partition of a table is a day or a month. Its number is that of its first day, whatever it is: see dataFile.

// partition is the first day of the partition that a day is in.
func (l *layout) partition(day int32) int32 {
	if !l.months {
		return day
	}
	at := dayTime(day)
	return day - int32(at.Day()-1)
}

// after is the first day after the partition that begins with a day.
func (l *layout) after(first int32) int32 {
	if !l.months {
		return first + 1
	}
	return dayOf(dayTime(first).AddDate(0, 1, 0).Unix())
}

// partitionValue is a partition as Iceberg counts it: days, or months, since 1970.
func (l *layout) partitionValue(first int32) any {
	if !l.months {
		return first
	}
	at := dayTime(first)
	return int32((at.Year()-1970)*12 + int(at.Month()) - 1)
}

// partitionType is the logical type of the value.
func (l *layout) partitionType() map[int]string {
	if l.months {
		return nil
	}
	return map[int]string{dayField: "date"}
}

// readPartition is the first day of a partition as Iceberg counts it.
func (l *layout) readPartition(value any) (first int32, ok bool) {
	if !l.months {
		day, ok := value.(apache.Date)
		return int32(day), ok
	}
	months, ok := value.(int32)
	return dayOf(time.Date(1970, time.Month(1+months), 1, 0, 0, 0, 0, time.UTC).Unix()), ok
}

// newFileName is that of a data file of the partition which begins with a day.
func (l *layout) newFileName(first int32) string {
	dir := "day=" + dayName(first)
	if l.months {
		dir = "month=" + dayTime(first).Format("2006-01")
	}
	return path.Join("data", dir, newName()+".parquet")
}
