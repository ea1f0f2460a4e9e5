package main

import (
	"errors"
	"fmt"
	"html"
	"strings"

	"github.com/headgate/headgate/bench/internal/figures"
)

// chartPart is the generated part of README.md.
const chartPart = `
![Processor time of one exact decision over gRPC: Headgate and its peers](bench/cost.svg)

Measured [in one run](bench/README.md#figures); [what that means for a fleet](docs/capacity.md).

`

// bars are the systems of the chart, from top to bottom, and what it calls them.
var bars = []struct{ name, system string }{
	{"Headgate, Redis", inRedis},
	{"Headgate, Redis, by grpc-go", grpcGoInRedis},
	{"envoyproxy/ratelimit, Redis", ratelimit},
	{"limitador, Redis", "limitador, Redis"},
	{"Headgate, memory", inMemory},
	{"Headgate, memory, by grpc-go", grpcGoInMemory},
	{"gubernator, memory", "gubernator, memory"},
	{"limitador, memory", "limitador, memory"},
	{"grpc-go, a constant answer", constant},
}

// The measures of the chart, in pixels.
const (
	chartWidth = 720
	labelWidth = 260
	valueWidth = 160 // right of the longest bar
	barHeight  = 18
	barStep    = 28
	chartTop   = 54
	chartFoot  = 34
)

// bar is what stands in one line of the chart.
type bar struct {
	name          string
	server, redis float64 // us
}

// chartOf draws microseconds of processor time for each exact decision, of the
// systems that were measured.
func chartOf(set figures.Set) (string, error) {
	var shown []bar
	longest := 0.0
	for _, b := range bars {
		of := func(value string) float64 {
			v, err := set.At(figures.Place{Section: "grpc", Table: oneDescriptor, System: b.system, Value: value})
			if err != nil {
				return 0 // without Redis, or not in this run
			}
			return v
		}
		if s := of("server_us"); s > 0 {
			shown = append(shown, bar{b.name, s, of("redis_us")})
			longest = max(longest, s+of("redis_us"))
		}
	}
	if len(shown) == 0 {
		return "", errors.New("make the chart: no system was measured over gRPC")
	}
	return draw(shown, longest), nil
}

// draw writes SVG that reads on light and on dark pages.
func draw(shown []bar, longest float64) string {
	height := chartTop + barStep*len(shown) + chartFoot
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title">`+"\n", chartWidth, height, chartWidth, height)
	b.WriteString("<title id=\"title\">Processor time of one decision over gRPC, in microseconds: ")
	for i, s := range shown {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s", html.EscapeString(s.name), s.text())
	}
	b.WriteString("</title>\n")
	b.WriteString(`<style>text{font:13px system-ui,sans-serif;fill:#24292f}.h{font-weight:600;font-size:15px}.s{fill:#2563a8}.r{fill:#d97706}.b{fill:#fff}` +
		`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#0d1117}.s{fill:#6ca6e8}}</style>` + "\n")
	fmt.Fprintf(&b, `<rect class="b" width="%d" height="%d"/>`+"\n", chartWidth, height)
	b.WriteString(`<text class="h" x="12" y="24">Processor time of one exact decision, us</text>` + "\n")
	for i, s := range []struct{ class, name string }{{"s", "server"}, {"r", "Redis"}} {
		x := chartWidth - 190 + 90*i
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="13" width="12" height="12"/><text x="%d" y="24">%s</text>`+"\n", s.class, x, x+18, s.name)
	}
	scale := (chartWidth - labelWidth - valueWidth) / longest
	for i, s := range shown {
		y := chartTop + barStep*i
		server, redis := s.server*scale, s.redis*scale
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+13, html.EscapeString(s.name))
		fmt.Fprintf(&b, `<rect class="s" x="%d" y="%d" width="%.1f" height="%d"/>`, labelWidth, y, server, barHeight)
		if s.redis > 0 {
			fmt.Fprintf(&b, `<rect class="r" x="%.1f" y="%d" width="%.1f" height="%d"/>`, labelWidth+server, y, redis, barHeight)
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+server+redis+8, y+13, s.text())
	}
	fmt.Fprintf(&b, `<text x="12" y="%d">One descriptor, 100,000 keys, saturated, in one run. Machine and commit: bench/README.md</text>`+"\n", height-12)
	b.WriteString("</svg>\n")
	return b.String()
}

func (s bar) text() string {
	if s.redis > 0 {
		return fmt.Sprintf("%.1f + %.1f = %.1f", s.server, s.redis, s.server+s.redis)
	}
	return fmt.Sprintf("%.1f", s.server)
}
