package simulate

import (
	"html/template"
	"io"
	"strings"
)

// page needs nothing but itself: it opens without a network.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"percent": percent}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Headgate: how exact the algorithms are</title>
<style>
body{font:14px/1.5 sans-serif;margin:2em auto;max-width:900px;padding:0 1em;color:#111;background:#fff}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}td:nth-child(2),th:nth-child(2){text-align:left}
svg{width:100%;height:auto}
</style></head><body>
<h1>How exact the algorithms are</h1>
<p>{{.Title}}. {{if .Options.OpenLoop}}Each decision is compared with an exact log of what was asked.
Wrong allowed: passed although the last period was full. Wrong denied: denied although it was not.
{{else}}Each decision is compared with an exact log of what the same limit has let pass.
Wrong allowed: passed although the last period was full.
Lost: what passed less than a limit with an exact log lets pass of the same traffic; below zero it is more.
Overshoot: the most that a period let pass beyond the quota. {{end}}Peak: the most requests in a hundredth of a period, over the mean.</p>
{{range .Workloads}}<h2>{{.Name}}</h2><p>{{.Text}}</p>
{{.Picture}}
<details><summary>Figures</summary><table><tr><th>load<th>algorithm<th>requests{{range .Figures}}<th>{{.}}{{end}}<th>peak</tr>
{{range .Rows}}<tr><td>{{.Load}}<td>{{.Algorithm}}<td>{{.Requests}}{{range .Figures}}<td>{{percent .}}{{end}}<td>{{printf "%.1f" .Peak}}</tr>
{{end}}</table></details>
{{end}}</body></html>
`))

// section is a workload on the page.
type section struct {
	Workload
	Picture template.HTML
	Figures []string
	Rows    []row
}

// row is a cell with its shares, in the order of the headings.
type row struct {
	Cell
	Figures []float64
}

// WriteHTML writes a page with plots and figures that opens offline.
func WriteHTML(w io.Writer, o Options, cells []Cell) error {
	var sections []section
	for _, workload := range o.Workloads {
		var picture strings.Builder
		if err := WriteSVG(&picture, o, cells, workload.Name); err != nil {
			return err
		}
		// All text of the picture was escaped when it was written.
		s := section{Workload: workload, Picture: template.HTML(picture.String())}
		for _, f := range figures(o) {
			s.Figures = append(s.Figures, f.heading)
		}
		for _, c := range cells {
			if c.Workload == workload.Name {
				r := row{Cell: c}
				for _, f := range figures(o) {
					r.Figures = append(r.Figures, f.of(c))
				}
				s.Rows = append(s.Rows, r)
			}
		}
		sections = append(sections, s)
	}
	return page.Execute(w, struct {
		Title     string
		Options   Options
		Workloads []section
	}{title(o), o, sections})
}
