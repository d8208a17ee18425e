package main

import (
	"encoding/json"
	"fmt"
	"time"

	"sluice/cmd/sluice-send/internal/upload"
	"sluice/event"
)

// summary is the end of an upload.
type summary struct {
	Files    []*upload.Report `json:"files"`
	Rows     int              `json:"rows"`
	Accepted int              `json:"accepted"`
	Rejected int              `json:"rejected"`
	Seconds  float64          `json:"seconds"`
	begin    time.Time
}

func (s *summary) add(r *upload.Report) {
	s.Files = append(s.Files, r)
	s.Rows, s.Accepted, s.Rejected = s.Rows+r.Rows, s.Accepted+r.Accepted, s.Rejected+r.Rejected
}

// print gives the summary: data to standard output, remarks to the user.
func (s *summary) print(p *program) {
	s.Seconds = p.now().Sub(s.begin).Seconds()
	if p.json {
		_ = json.NewEncoder(p.stdout).Encode(s) // a closed standard output leaves nobody to inform
		return
	}
	for _, r := range s.Files {
		fmt.Fprintf(p.stdout, "%s: %d rows, %d accepted, %d rejected\n", r.File, r.Rows, r.Accepted, r.Rejected)
		if r.Resumed > 0 && r.Resumed == r.Rows && r.Finished {
			p.say("%s was uploaded before; --again would store its rows a second time", r.File)
		} else if r.Resumed > 0 {
			p.say("%s: went on after %d rows of an earlier run", r.File, r.Resumed)
		}
		if r.RejectedFile != "" {
			p.say("%s: rejected rows are in %s", r.File, r.RejectedFile)
		}
		if r.RejectedRows != "" {
			p.say("%s: the rows themselves are in %s; delete it when they are corrected", r.File, r.RejectedRows)
		}
		p.sayCodes(r.File, r.Codes, r.Warnings)
	}
}

// sayCodes says how many rows of a file were rejected or warned about, by code.
func (p *program) sayCodes(file string, rejected, warnings map[event.Code]int) {
	for _, code := range sortedKeys(rejected) {
		p.say("%s: %d rows rejected with %s", file, rejected[code], code)
	}
	for _, code := range sortedKeys(warnings) {
		p.say("%s: %s in %d rows", file, code, warnings[code])
	}
}
