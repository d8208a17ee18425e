package bench

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
)

// WritePlot draws the report as an SVG picture: above, how long requests took, by share of requests; below,
// events in each second. It needs no other file and follows the reader's light or dark scheme.
func (r *Report) WritePlot(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := plot{out}
	height := 2*panelHeight + 40 + 22*len(r.Figures)
	p.f(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="13">`, panelWidth, height)
	p.f(`<style>:root{color-scheme:light dark}text{fill:light-dark(#222,#ddd)}.grid{stroke:light-dark(#ddd,#444)}.paper{fill:light-dark(#fff,#181818)}</style>`)
	p.f(`<rect class="paper" width="%d" height="%d"/>`, panelWidth, height)
	p.latency(r.Figures)
	p.series(r.Figures)
	for i := range r.Figures {
		f := &r.Figures[i]
		y := 2*panelHeight + 30 + 22*i
		p.f(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3"/>`, left, y-4, left+30, y-4, colour(i))
		p.f(`<text x="%d" y="%d">%s · %s · %.0f events/s</text>`, left+40, y, html.EscapeString(f.Name), html.EscapeString(f.Server), f.EventsPerSecond)
	}
	p.f(`</svg>`)
	return out.Flush()
}

const (
	panelWidth  = 760
	panelHeight = 300
	left        = 80
	right       = panelWidth - 20
	top         = 40
	bottom      = panelHeight - 40
)

// Colours of one lightness that people who confuse red and green can tell apart (after Okabe and Ito).
func colour(i int) string {
	palette := [...]string{"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"}
	return palette[i%len(palette)]
}

type plot struct{ *bufio.Writer }

// f writes a line. An error stays with the writer until Flush.
func (p plot) f(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

// latency draws milliseconds over shares, both in powers of ten: the interesting requests are the few slow ones.
func (p plot) latency(all []Figures) {
	low, high := math.Inf(1), 0.0
	for i := range all {
		for _, q := range all[i].Quantiles {
			low, high = min(low, max(q.MS, 0.01)), max(high, q.MS)
		}
	}
	if high == 0 {
		return
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high)+0.001)
	y := func(v float64) float64 {
		return bottom - (math.Log10(max(v, 0.01))-from)/(to-from)*(bottom-top)
	}
	const decades = 4 // up to 99.99 %
	x := func(share float64) float64 {
		return left + min(-math.Log10(1-min(share, 0.99999)), decades)/decades*(right-left)
	}
	p.f(`<text x="%d" y="24" font-weight="600">Latency in ms, by share of requests</text>`, left)
	for e := from; e <= to; e++ {
		p.tick(y(math.Pow(10, e)), fmt.Sprintf("%g", math.Pow(10, e)))
	}
	for _, share := range []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999} {
		p.f(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x(share), top, x(share), bottom)
		p.f(`<text x="%.1f" y="%d" text-anchor="middle">%g %%</text>`, x(share), bottom+18, math.Round(share*1e6)/1e4)
	}
	for i := range all {
		p.f(`<polyline fill="none" stroke="%s" stroke-width="2" points="`, colour(i))
		for _, q := range all[i].Quantiles {
			p.f(`%.1f,%.1f`, x(q.Share), y(q.MS))
		}
		p.f(`"/>`)
	}
}

// series draws events a second over seconds.
func (p plot) series(all []Figures) {
	most, longest := 1.0, 2
	for i := range all {
		longest = max(longest, len(all[i].Series))
		for _, n := range all[i].Series {
			most = max(most, float64(n))
		}
	}
	const down = panelHeight
	y := func(v float64) float64 { return down + bottom - v/most*(bottom-top) }
	x := func(second int) float64 { return left + float64(second)/float64(longest-1)*(right-left) }
	p.f(`<text x="%d" y="%d" font-weight="600">Events in each second</text>`, left, down+24)
	for i := range 5 {
		v := most * float64(i) / 4
		p.tick(y(v), fmt.Sprintf("%.0f", v))
	}
	for i := range 5 {
		second := (longest - 1) * i / 4
		p.f(`<text x="%.1f" y="%d" text-anchor="middle">%d s</text>`, x(second), down+bottom+18, second)
	}
	for i := range all {
		p.f(`<polyline fill="none" stroke="%s" stroke-width="2" points="`, colour(i))
		for second, n := range all[i].Series {
			p.f(`%.1f,%.1f`, x(second), y(float64(n)))
		}
		p.f(`"/>`)
	}
}

func (p plot) tick(y float64, label string) {
	p.f(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, left, y, right, y)
	p.f(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`, left-8, y+4, label)
}
