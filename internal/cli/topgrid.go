package cli

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// grid is a table of texts.
type grid struct {
	columns []column
	rows    [][]cell
}

// column is one column of a grid.
type column struct {
	title string
	// right aligns numbers. flex gives way where the grid is too wide.
	right, flex bool
}

// cell is a text, with its colour where it has one.
type cell struct{ text, sgr string }

// add adds a row of cells without colours.
func (g *grid) add(texts ...string) {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i] = cell{text: oneLine(text)}
	}
	g.rows = append(g.rows, row)
}

// minFlex is how narrow a column may get that gives way, and maxFlex how wide it gets
// where lines may have any width: one long key is no reason to draw all others apart.
const minFlex, maxFlex = 6, 100

// between stands between columns.
const between = "  "

// widths are those of the columns, so that lines are no wider than width where that can
// be; 0 is any.
func (g *grid) widths(width int) []int {
	list := make([]int, len(g.columns))
	total := len(between) * (len(g.columns) - 1)
	for i, c := range g.columns {
		list[i] = ansi.StringWidth(c.title)
		for _, row := range g.rows {
			list[i] = max(list[i], ansi.StringWidth(row[i].text))
		}
		if c.flex && width <= 0 {
			list[i] = min(list[i], maxFlex)
		}
		total += list[i]
	}
	for width > 0 && total > width {
		widest := -1
		for i, c := range g.columns {
			if c.flex && list[i] > minFlex && (widest < 0 || list[i] > list[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		list[widest]--
		total--
	}
	return list
}

// lines are the title and the rows of the grid, no wider than width; 0 is any.
func (g *grid) lines(width int, paint func(sgr, text string) string) []string {
	widths := g.widths(width)
	title := make([]cell, len(g.columns))
	for i, c := range g.columns {
		title[i] = cell{c.title, bold}
	}
	list := []string{g.line(title, widths, width, paint)}
	for _, row := range g.rows {
		list = append(list, g.line(row, widths, width, paint))
	}
	return list
}

func (g *grid) line(row []cell, widths []int, width int, paint func(sgr, text string) string) string {
	var b strings.Builder
	for i, c := range row {
		if i > 0 {
			b.WriteString(between)
		}
		text := ansi.Truncate(c.text, widths[i], "…")
		blank := strings.Repeat(" ", widths[i]-ansi.StringWidth(text))
		switch {
		case g.columns[i].right:
			b.WriteString(blank + paint(c.sgr, text))
		case i == len(row)-1:
			b.WriteString(paint(c.sgr, text))
		default:
			b.WriteString(paint(c.sgr, text) + blank)
		}
	}
	return fitted(b.String(), width)
}

// fitted cuts a line at width; 0 is any.
func fitted(line string, width int) string {
	if width <= 0 {
		return line
	}
	return ansi.Truncate(line, width, "…")
}

// amount is a number in few letters: 0, 0.4, 12, 1.2k, 34M.
func amount(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v < 0:
		return "-" + amount(-v)
	case v == 0:
		return "0"
	case v < 0.05:
		return "<0.1"
	case v < 9.95:
		return trimmed(v, "")
	case v < 9999.5:
		return fmt.Sprintf("%.0f", v)
	}
	for _, unit := range []struct {
		size float64
		name string
	}{{1e3, "k"}, {1e6, "M"}, {1e9, "G"}} {
		if v < 999.5*unit.size {
			return trimmed(v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.1e", v)
}

// trimmed is v with one digit after the point where that says something.
func trimmed(v float64, unit string) string {
	if v >= 99.95 {
		return fmt.Sprintf("%.0f%s", v, unit)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + unit
}

// share is a part of a whole in percent, "" of nothing.
func share(part, whole float64) string {
	switch {
	case whole <= 0:
		return ""
	case part == 0:
		return "0%"
	case part > 0 && part/whole < 0.0005:
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*part/whole)
}

// took is a time in seconds, in few letters: 85µs, 1.2ms, 3.4s.
func took(seconds float64) string {
	switch {
	case seconds <= 0 || math.IsNaN(seconds) || seconds > 1e6:
		return "-"
	case seconds < 0.001:
		return fmt.Sprintf("%.0fµs", seconds*1e6)
	case seconds < 1:
		return trimmed(seconds*1e3, "ms")
	}
	return trimmed(seconds, "s")
}

// age is a time span in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// spark draws values, the latest last, as bars of which the highest value has the
// highest.
func spark(values []float64, width int) string {
	const bars = "▁▂▃▄▅▆▇█"
	list := []rune(bars)
	values = values[max(len(values)-width, 0):]
	highest := 0.0
	for _, v := range values {
		highest = max(highest, v)
	}
	var b strings.Builder
	for _, v := range values {
		at := 0
		if highest > 0 {
			at = min(int(v/highest*float64(len(list)-1)+0.5), len(list)-1)
		}
		b.WriteRune(list[max(at, 0)])
	}
	return b.String()
}
