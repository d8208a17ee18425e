package console

import (
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"time"

	"sluice/event"
	"sluice/internal/humanize"
)

//go:embed page/*.html
var pageFiles embed.FS

//go:embed static
var staticFiles embed.FS

var functions = template.FuncMap{
	"num": number, "pct": humanize.Percent, "share": humanize.Share, "money": humanize.Money, "rfc": rfc, "clock": clock,
	"icon": icon, "bar": bar, "spark": spark, "info": codeInfo[event.Code],
}

// pages holds one set of templates per page: the layout, and the page's own "content".
var pages = func() map[string]*template.Template {
	layout := template.Must(template.New("").Funcs(functions).ParseFS(pageFiles, "page/layout.html", "page/login.html"))
	out := map[string]*template.Template{}
	for _, name := range []string{
		"overview", "datasets", "dataset", "campaigns", "diagnosis", "requests", "lookup",
		"live", "try", "system", "message",
	} {
		t := template.Must(layout.Clone())
		out[name] = template.Must(t.ParseFS(pageFiles, "page/"+name+".html"))
	}
	out["login"] = layout
	return out
}()

// number is num for templates, which know no type parameters.
func number(v any) string {
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	if err != nil {
		return fmt.Sprint(v)
	}
	return humanize.Count(n)
}

func rfc(t time.Time) string   { return t.UTC().Format(time.RFC3339) }
func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// bar is a share as a bar. The policy of the page forbids style attributes, so it is drawn.
func bar(share float64, class string) template.HTML {
	w := min(max(share, 0), 1) * 100
	if share > 0 {
		w = max(w, 0.8)
	}
	return template.HTML(fmt.Sprintf(`<svg class="bar %s" viewBox="0 0 100 8" preserveAspectRatio="none" `+
		`aria-hidden="true"><rect width="%.2f" height="8"></rect></svg>`, template.HTMLEscapeString(class), w))
}

// spark is a row of numbers as a small curve.
func spark(values []int64, class string) template.HTML {
	if len(values) < 2 {
		return ""
	}
	top := max(1, slices.Max(values))
	var p []byte
	for i, v := range values {
		p = fmt.Appendf(p, " %.1f,%.1f", float64(i)*110/float64(len(values)-1), 24-22*float64(v)/float64(top))
	}
	return template.HTML(fmt.Sprintf(`<svg class="spark %s" viewBox="0 0 110 26" preserveAspectRatio="none" `+
		`aria-hidden="true"><polygon class="area" points="0,25%s 110,25"></polygon><polyline class="edge" points="%s">`+
		`</polyline></svg>`, template.HTMLEscapeString(class), p, p[1:]))
}

// icons are drawn on a grid of 24.
var icons = map[string]string{
	"home":   "M4 11l8-7 8 7v9H4zM10 20v-6h4v6",
	"stack":  "M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4",
	"flag":   "M5 21V4M5 4h13l-3 4.5 3 4.5H5",
	"pulse":  "M3 12h4l3-8 4 16 3-8h4",
	"list":   "M8 6h13M8 12h13M8 18h13M3.5 6h.5M3.5 12h.5M3.5 18h.5",
	"search": "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L21 21",
	"live": "M12 13a1 1 0 1 0 0-2 1 1 0 0 0 0 2zM8 8a5.5 5.5 0 0 0 0 8M16 8a5.5 5.5 0 0 1 0 8M5 5a10 10 0 0 0 0 14M19 " +
		"5a10 10 0 0 1 0 14",
	"beaker": "M9 3h6M10 3v6l-5 9a2 2 0 0 0 2 3h10a2 2 0 0 0 2-3l-5-9V3M7.5 15h9",
	"gauge":  "M12 14l4-5M4 18a9 9 0 1 1 16 0",
	"check":  "M5 12.5l4.5 4.5L19 7.5",
	"warn":   "M12 8v5M12 16.5v.5M12 3l9.5 17h-19z",
	"bad":    "M12 7v6M12 16.5v.5M8 3h8l5 5v8l-5 5H8l-5-5V8z",
}

func icon(name string) template.HTML {
	return template.HTML(`<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" ` +
		`stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="` + icons[name] + `"></path></svg>`)
}
