package simulate

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Sizes of a plot, in the units of its picture.
const (
	plotWidth, plotHeight = 420.0, 260.0
	plotLeft, plotRight   = 48.0, 12.0
	plotTop, plotBottom   = 26.0, 34.0
	lowest                = 1e-5 // the share that the axis begins with: 0.001 %
)

// colours are told apart by people who see few of them (Okabe and Ito, 2008).
var colours = []string{"#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"}

// WriteSVG writes two plots of a workload as one picture: the first two figures, with a line for
// each algorithm over the loads. Both axes are logarithmic, and what is below one is drawn on it.
func WriteSVG(w io.Writer, o Options, cells []Cell, workload string) error {
	var b strings.Builder
	height := plotHeight + 20*math.Ceil(float64(len(o.Algorithms))/4)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11" role="img" aria-label="%s">`,
		2*plotWidth, height, html.EscapeString(workload))
	b.WriteString("\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n")
	for i, f := range figures(o)[:2] {
		f.plot(&b, o, cells, workload, float64(i)*plotWidth)
	}
	for i, a := range o.Algorithms {
		x, y := 48+float64(i%4)*200, plotHeight+12+20*float64(i/4)
		fmt.Fprintf(&b, `<line x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f" stroke="%s" stroke-width="3"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			x, y, x+20, y, colours[i%len(colours)], x+26, y+4, html.EscapeString(a.Name))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (f figure) plot(b *strings.Builder, o Options, cells []Cell, workload string, left float64) {
	fmt.Fprintf(b, `<text x="%.0f" y="16" font-size="13">%s: %s</text>`+"\n", left+plotLeft, html.EscapeString(workload), f.heading)
	for power := -5; power <= 0; power++ {
		y := yOf(math.Pow10(power))
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#dddddd"/><text x="%.1f" y="%.1f" text-anchor="end">%v %%</text>`+"\n",
			left+plotLeft, y, left+plotWidth-plotRight, y, left+plotLeft-4, y+4, math.Round(1e5*math.Pow10(power))/1e3)
	}
	for _, load := range o.Loads {
		x := left + xOf(o, load)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%v</text>`+"\n", x, plotHeight-plotBottom+16, load)
	}
	for i, a := range o.Algorithms {
		var points strings.Builder
		for _, c := range cells {
			if c.Workload == workload && c.Algorithm == a.Name {
				fmt.Fprintf(&points, "%.1f,%.1f ", left+xOf(o, c.Load), yOf(f.of(c)))
			}
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"/>`+"\n", strings.TrimSpace(points.String()), colours[i%len(colours)])
	}
}

func xOf(o Options, load float64) float64 {
	first, last := o.Loads[0], o.Loads[0]
	for _, l := range o.Loads {
		first, last = min(first, l), max(last, l)
	}
	width := plotWidth - plotLeft - plotRight
	if first == last {
		return plotLeft + width/2
	}
	return plotLeft + width*math.Log(load/first)/math.Log(last/first)
}

func yOf(share float64) float64 {
	up := math.Log10(max(share, lowest)/lowest) / -math.Log10(lowest)
	return plotHeight - plotBottom - up*(plotHeight-plotTop-plotBottom)
}
