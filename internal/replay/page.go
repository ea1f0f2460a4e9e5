package replay

import (
	"fmt"
	"io"
	"strings"

	"github.com/headgate/headgate/internal/markup"
)

// pageHead needs nothing but itself: the page opens without a network.
const pageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Headgate: replay</title>
<style>
body{font:14px/1.5 sans-serif;margin:2em auto;max-width:960px;padding:0 1em;color:#111;background:#fff}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}th:last-child,td:last-child{text-align:left;overflow-wrap:anywhere}
svg{width:100%;height:auto}.big{font-size:1.6em}
</style></head><body><main>
<h1>What the candidate would change</h1>
`

// WriteHTML writes a page with a plot and tables that opens offline.
func (r *Report) WriteHTML(w io.Writer) error {
	var p markup.Page
	p.Add("%s", markup.Raw(pageHead))
	r.addSummary(&p)
	p.Add("%s\n", markup.Raw(r.picture()))
	r.addRules(&p)
	r.addDomains(&p)
	addRanking(&p, "tenants", "Tenants that are newly denied most", "tenant", &r.DeniedTenants)
	addRanking(&p, "keys", "Keys that are newly denied most", "key", &r.DeniedKeys)
	addRanking(&p, "allowed", "Keys that are newly allowed most", "key", &r.AllowedKeys)
	r.addHours(&p)
	r.addReading(&p)
	p.Add("</main></body></html>\n")
	_, err := io.WriteString(w, p.String())
	return err
}

func (r *Report) addSummary(p *markup.Page) {
	p.Add("<p>%d requests from %s to %s UTC, compared with %s.</p>\n", r.Requests, r.From.Format(clock), r.Until.Format(clock), r.against())
	p.Add(`<p><span class="big">%d</span> (%s) newly denied,`+"\n", r.NewlyDenied, percent(r.Share(r.NewlyDenied)))
	p.Add(`<span class="big">%d</span> (%s) newly allowed, %d as before.`+"\n", r.NewlyAllowed, percent(r.Share(r.NewlyAllowed)), r.Same())
	p.Add("Denied before: %d, after: %d.", r.DeniedBefore, r.DeniedAfter)
	if r.ShadowDenied > 0 {
		p.Add(" In shadow mode the candidate would deny %d.", r.ShadowDenied)
	}
	p.Add("</p>\n")
	for _, note := range r.Notes {
		p.Add("<p>Note: %s.</p>\n", note)
	}
}

// addTable adds a table, if it has rows: a title, the names of its columns, and the cells of each row.
func addTable[T any](p *markup.Page, id, title string, columns []string, rows []T, cells func(*T) []any) {
	if len(rows) == 0 {
		return
	}
	p.Add("%s<table id=\"%s\"><thead><tr>", markup.Raw(title), id)
	for _, column := range columns {
		p.Add("<th>%s", column)
	}
	p.Add("</tr></thead><tbody>\n")
	for i := range rows {
		p.Add("<tr>")
		for _, cell := range cells(&rows[i]) {
			p.Add("<td>%v", cell)
		}
		p.Add("</tr>\n")
	}
	p.Add("</tbody></table>")
}

func (r *Report) addRules(p *markup.Page) {
	addTable(p, "rules", "<h2>Rules</h2>", []string{"newly denied", "newly allowed", "denied before", "denied after", "rule"}, r.Rules, func(row *RuleRow) []any {
		return []any{row.NewlyDenied, row.NewlyAllowed, row.DeniedBefore, row.DeniedAfter, ruleName(row.Rule)}
	})
}

func (r *Report) addDomains(p *markup.Page) {
	addTable(p, "domains", "\n<h2>Domains</h2>", []string{"requests", "newly denied", "newly allowed", "domain"}, r.Domains, func(row *DomainRow) []any {
		return []any{row.Requests, row.NewlyDenied, row.NewlyAllowed, row.Domain}
	})
}

// addRanking adds keys of which most was found, if there are any.
func addRanking(p *markup.Page, id, title, what string, r *Ranking) {
	addTable(p, id, "\n<h2>"+title+"</h2>", []string{"requests", "at most too many", what}, r.Keys, func(row *KeyRow) []any {
		return []any{row.Count, row.Error, row.name()}
	})
	if len(r.Keys) > 0 && r.Unlisted > 0 {
		p.Add("<p>Each other one has %d at most.</p>", r.Unlisted)
	}
}

func (r *Report) addHours(p *markup.Page) {
	p.Add("\n<details><summary>Hours</summary>")
	addTable(p, "hours", "", []string{"requests", "newly denied", "newly allowed", "hour (UTC)"}, r.Hours, func(row *HourRow) []any {
		return []any{row.Requests, row.NewlyDenied, row.NewlyAllowed, row.From.Format("2006-01-02 15:04")}
	})
	if r.HoursCut {
		p.Add("<p>Further hours are in the totals alone.</p>")
	}
	p.Add("</details>\n")
}

func (r *Report) addReading(p *markup.Page) {
	read := &r.Reading
	p.Add("<details><summary>Lines</summary><p>%d lines: %d bad, %d about no request or nobody that can be told, %d there twice, %d too late.</p>\n",
		read.Lines, read.Bad, read.Skipped, read.Twice, read.Late)
	if len(read.Troubles) > 0 {
		p.Add("<ul>")
		for _, trouble := range read.Troubles {
			p.Add("<li>%s:%d: %s", trouble.Input, trouble.Line, trouble.Error)
		}
		p.Add("</ul>")
	}
	p.Add("</details>\n")
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

// picture draws what is newly denied and newly allowed by hour, side by side. There are numbers and
// times alone in it.
func (r *Report) picture() string {
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
	return s.String()
}
