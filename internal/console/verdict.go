package console

import (
	"fmt"

	"sluice/internal/alarm"
	"sluice/internal/humanize"
)

// namedMost is how many datasets an alarm names; the others are counted. Arbitrary: what a person reads.
const namedMost = 5

// verdict is the sentence at the top of the overview.
type verdict struct {
	Class, Icon, Sentence, More string
	Alarms                      []alarm.Raised
}

// sound lists the alarms that are on as a page shows them: of each the first datasets, and how many others there are.
func sound(all []alarm.Raised) []alarm.Raised {
	var out []alarm.Raised
	named := map[string]int{}
	for i, r := range all {
		named[r.Name]++
		switch n := named[r.Name]; {
		case n <= namedMost:
			out = append(out, r)
		case i == len(all)-1 || all[i+1].Name != r.Name: // the last one of its name
			out = append(out, alarm.Raised{
				Name: r.Name, Level: r.Level, Class: r.Class, Subject: "others",
				Say: fmt.Sprintf("And %s.", humanize.Plural(n-namedMost, "other dataset", "other datasets")),
				Do:  "The page Datasets shows the state of each, the worst first.", Path: "/datasets?by=worst",
			})
		}
	}
	return out
}

// judge says whether all is well and, if not, what to do.
func judge(s *state) verdict {
	alarms := sound(s.Raised())
	v := verdict{Class: "ok", Icon: "check", Alarms: alarms}
	switch {
	case len(alarms) > 0 && alarms[0].Class == "bad":
		v.Class, v.Icon = "bad", "bad"
		v.Sentence = "Something needs you now."
		v.More = "See below what to do; docs/operate.md has more on each."
	case len(alarms) > 0:
		v.Class, v.Icon = "warn", "warn"
		v.Sentence = "Events flow, but something needs a look."
		v.More = "Nothing acknowledged is at risk. See below what to do."
	case s.Ready != nil:
		v.Class, v.Icon, v.Sentence, v.More = "warn", "warn", "Starting.", "The service takes events in a moment."
	case len(s.Datasets) == 0:
		v.Sentence = "All is well, and nothing to do yet."
		v.More = "The service is ready to take events. It needs a dataset first."
	default:
		v.Sentence = "All is well."
		v.More = wellBeing(s)
	}
	return v
}

func wellBeing(s *state) string {
	safe := "Every acknowledged event is stored"
	switch {
	case s.Backlog.Waits():
		safe = "Every acknowledged event is safe; the oldest one not yet stored has waited " + humanize.Span(s.Backlog.Age())
	case !s.Backlog.Known():
		safe = "Whether every acknowledged event is stored is not known: the engine does not answer"
	}
	return fmt.Sprintf("Events are taken. %s. %s free on disk.", safe, humanize.Bytes(s.Disk.Free))
}
