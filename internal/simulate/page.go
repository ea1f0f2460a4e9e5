package simulate

import (
	"io"
	"strings"

	"github.com/headgate/headgate/internal/markup"
)

// pageHead needs nothing but itself: the page opens without a network.
const pageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Headgate: how exact the algorithms are</title>
<style>
body{font:14px/1.5 sans-serif;margin:2em auto;max-width:900px;padding:0 1em;color:#111;background:#fff}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}td:nth-child(2),th:nth-child(2){text-align:left}
svg{width:100%;height:auto}
</style></head><body>
<h1>How exact the algorithms are</h1>
`

// What the figures of the page are, by what decisions are compared with.
const (
	ofOpenLoop = `Each decision is compared with an exact log of what was asked.
Wrong allowed: passed although the last period was full. Wrong denied: denied although it was not.
`
	ofClosedLoop = `Each decision is compared with an exact log of what the same limit has let pass.
Wrong allowed: passed although the last period was full.
Lost: what passed less than a limit with an exact log lets pass of the same traffic; below zero it is more.
Overshoot: the most that a period let pass beyond the quota. `
)

// WriteHTML writes a page with plots and figures that opens offline.
func WriteHTML(w io.Writer, o Options, cells []Cell) error {
	var p markup.Page
	about := ofClosedLoop
	if o.OpenLoop {
		about = ofOpenLoop
	}
	p.Add("%s<p>%s. %sPeak: the most requests in a hundredth of a period, over the mean.</p>\n", markup.Raw(pageHead), title(o), about)
	for i := range o.Workloads {
		if err := addWorkload(&p, o, cells, &o.Workloads[i]); err != nil {
			return err
		}
	}
	p.Add("</body></html>\n")
	_, err := io.WriteString(w, p.String())
	return err
}

// addWorkload adds the plots and the figures of a workload.
func addWorkload(p *markup.Page, o Options, cells []Cell, workload *Workload) error {
	var picture strings.Builder
	if err := WriteSVG(&picture, o, cells, workload.Name); err != nil {
		return err
	}
	// All text of the picture was escaped when it was written.
	p.Add("<h2>%s</h2><p>%s</p>\n%s\n", workload.Name, workload.Text, markup.Raw(picture.String()))
	p.Add("<details><summary>Figures</summary><table><tr><th>load<th>algorithm<th>requests")
	for _, f := range figures(o) {
		p.Add("<th>%s", f.heading)
	}
	p.Add("<th>peak</tr>\n")
	for _, c := range cells {
		if c.Workload != workload.Name {
			continue
		}
		p.Add("<tr><td>%v<td>%s<td>%d", c.Load, c.Algorithm, c.Requests)
		for _, f := range figures(o) {
			p.Add("<td>%s", percent(f.of(c)))
		}
		p.Add("<td>%.1f</tr>\n", c.Peak)
	}
	p.Add("</table></details>\n")
	return nil
}
