package replay

import (
	"fmt"
	"html/template"
	"io"
	"strings"
)

// page needs nothing but itself: it opens without a network.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": percent, "rule": ruleName, "key": KeyRow.name,
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Headgate: replay</title>
<style>
body{font:14px/1.5 sans-serif;margin:2em auto;max-width:960px;padding:0 1em;color:#111;background:#fff}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}th:last-child,td:last-child{text-align:left;overflow-wrap:anywhere}
svg{width:100%;height:auto}.big{font-size:1.6em}
</style></head><body><main>
<h1>What the candidate would change</h1>
<p>{{.Requests}} requests from {{.From.Format "2006-01-02 15:04:05"}} to {{.Until.Format "2006-01-02 15:04:05"}} UTC, compared with {{.Against}}.</p>
<p><span class="big">{{.NewlyDenied}}</span> ({{percent (.Share .NewlyDenied)}}) newly denied,
<span class="big">{{.NewlyAllowed}}</span> ({{percent (.Share .NewlyAllowed)}}) newly allowed, {{.Same}} as before.
Denied before: {{.DeniedBefore}}, after: {{.DeniedAfter}}.{{if .ShadowDenied}} In shadow mode the candidate would deny {{.ShadowDenied}}.{{end}}</p>
{{range .Notes}}<p>Note: {{.}}.</p>
{{end}}{{.Picture}}
{{if .Rules}}<h2>Rules</h2><table id="rules"><thead><tr><th>newly denied<th>newly allowed<th>denied before<th>denied after<th>rule</tr></thead><tbody>
{{range .Rules}}<tr><td>{{.NewlyDenied}}<td>{{.NewlyAllowed}}<td>{{.DeniedBefore}}<td>{{.DeniedAfter}}<td>{{rule .Rule}}</tr>
{{end}}</tbody></table>{{end}}
{{if .Domains}}<h2>Domains</h2><table id="domains"><thead><tr><th>requests<th>newly denied<th>newly allowed<th>domain</tr></thead><tbody>
{{range .Domains}}<tr><td>{{.Requests}}<td>{{.NewlyDenied}}<td>{{.NewlyAllowed}}<td>{{.Domain}}</tr>
{{end}}</tbody></table>{{end}}
{{range .Rankings}}{{if .Keys}}<h2>{{.Title}}</h2><table id="{{.ID}}"><thead><tr><th>requests<th>at most too many<th>{{.What}}</tr></thead><tbody>
{{range .Keys}}<tr><td>{{.Count}}<td>{{.Error}}<td>{{key .}}</tr>
{{end}}</tbody></table>{{if .Unlisted}}<p>Each other one has {{.Unlisted}} at most.</p>{{end}}{{end}}
{{end}}
<details><summary>Hours</summary><table id="hours"><thead><tr><th>requests<th>newly denied<th>newly allowed<th>hour (UTC)</tr></thead><tbody>
{{range .Hours}}<tr><td>{{.Requests}}<td>{{.NewlyDenied}}<td>{{.NewlyAllowed}}<td>{{.From.Format "2006-01-02 15:04"}}</tr>
{{end}}</tbody></table>{{if .HoursCut}}<p>Further hours are in the totals alone.</p>{{end}}</details>
<details><summary>Lines</summary><p>{{.Reading.Lines}} lines: {{.Reading.Bad}} bad, {{.Reading.Skipped}} about no request or nobody that can be told, {{.Reading.Twice}} there twice, {{.Reading.Late}} too late.</p>
{{if .Reading.Troubles}}<ul>{{range .Reading.Troubles}}<li>{{.Input}}:{{.Line}}: {{.Error}}{{end}}</ul>{{end}}</details>
</main></body></html>
`))

// titled is a ranking on the page.
type titled struct {
	ID, Title, What string
	Ranking
}

// WriteHTML writes a page with a plot and tables that opens offline.
func (r *Report) WriteHTML(w io.Writer) error {
	return page.Execute(w, struct {
		*Report
		Picture  template.HTML
		Rankings []titled
	}{r, r.picture(), []titled{
		{"tenants", "Tenants that are newly denied most", "tenant", r.DeniedTenants},
		{"keys", "Keys that are newly denied most", "key", r.DeniedKeys},
		{"allowed", "Keys that are newly allowed most", "key", r.AllowedKeys},
	}})
}

// Sizes of the plot, in the units of its picture.
const (
	plotWidth, plotHeight = 900.0, 200.0
	plotLeft, plotBottom  = 64.0, 24.0
	plotTop               = 22.0
	widestBar             = 60.0
	// maxBars bounds the bars: further hours are joined, as many for each bar.
	maxBars = 240
)

// bar is some hours, one after the other.
type bar struct {
	from            string
	denied, allowed int64
}

// bars joins hours, as many for each bar. Hours without requests have no bar.
func (r *Report) bars() (bars []bar) {
	per := (len(r.Hours) + maxBars - 1) / maxBars
	for i, h := range r.Hours {
		if i%per == 0 {
			bars = append(bars, bar{from: h.From.Format("2006-01-02 15:04")})
		}
		last := &bars[len(bars)-1]
		last.denied += h.NewlyDenied
		last.allowed += h.NewlyAllowed
	}
	return bars
}

// picture draws what is newly denied and newly allowed by hour, side by side.
func (r *Report) picture() template.HTML {
	bars, most := r.bars(), int64(0)
	for _, b := range bars {
		most = max(most, b.denied, b.allowed)
	}
	if most == 0 {
		return ""
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11" role="img" aria-label="Newly denied and newly allowed by hour">`, plotWidth, plotHeight)
	fmt.Fprintf(&s, `<rect x="%.0f" y="4" width="10" height="10" fill="#d55e00"/><text x="%.0f" y="13">newly denied</text>`, plotLeft, plotLeft+14)
	fmt.Fprintf(&s, `<rect x="%.0f" y="4" width="10" height="10" fill="#0072b2"/><text x="%.0f" y="13">newly allowed</text>`, plotLeft+110, plotLeft+124)
	bottom, height := plotHeight-plotBottom, plotHeight-plotBottom-plotTop
	for _, n := range []int64{0, most} {
		y := bottom - height*float64(n)/float64(most)
		fmt.Fprintf(&s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%d</text>`, plotLeft, y, plotWidth, y, plotLeft-4, y+4, n)
	}
	wide := min((plotWidth-plotLeft)/float64(len(bars)), widestBar)
	for i, b := range bars {
		x := plotLeft + wide*float64(i)
		for j, side := range []struct {
			n      int64
			colour string
		}{{b.denied, "#d55e00"}, {b.allowed, "#0072b2"}} {
			high := height * float64(side.n) / float64(most)
			fmt.Fprintf(&s, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s"><title>%s: %d</title></rect>`,
				x+wide*(0.1+0.4*float64(j)), bottom-high, wide*0.4, high, side.colour, b.from, side.n)
		}
	}
	fmt.Fprintf(&s, `<text x="%.1f" y="%.1f">%s</text>`, plotLeft, plotHeight-6, bars[0].from)
	if end := plotLeft + wide*float64(len(bars)); end > plotLeft+plotWidth/3 {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`, end, plotHeight-6, bars[len(bars)-1].from)
	}
	s.WriteString("</svg>")
	return template.HTML(s.String()) // numbers and times alone
}
