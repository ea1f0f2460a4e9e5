package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
)

var update = flag.Bool("update", false, "write the table of docs/accuracy.md anew")

// small are options that a test can pay for.
func small(workload string, loads ...float64) Options {
	o := Defaults()
	o.Loads, o.Sources, o.Periods = loads, 5, 30
	o.Workloads = slices.DeleteFunc(Workloads(), func(w Workload) bool { return w.Name != workload })
	return o
}

func run(t *testing.T, o Options) []Cell {
	t.Helper()
	cells, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != len(o.Workloads)*len(o.Loads)*len(o.Algorithms) {
		t.Fatalf("%d cells", len(cells))
	}
	return cells
}

// long leaves t to the run without the race detector: the workers of a simulation run side by
// side in shorter ones, too.
func long(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("make norace has it, in a tenth of the time")
	}
}

// TestTheory holds the simulator to what can be reckoned: with a Poisson source exactly at the
// limit, an estimate from n parts of a window differs from the exact count in a share of
// decisions that does not depend on the limit. For two counters it is the mean of
// arcsin(sqrt(a(1-a)))/pi over the phase a, 12.93 %.
func TestTheory(t *testing.T) {
	long(t)
	for _, c := range []struct {
		spec limit.Spec
		want float64
	}{
		{limit.Spec{Algorithm: limit.SlidingWindow}, 0.1293},
		{limit.Spec{Algorithm: limit.SubWindows, SubWindows: 2}, 0.0898},
		{limit.Spec{Algorithm: limit.SubWindows, SubWindows: 5}, 0.0563},
		{limit.Spec{Algorithm: limit.SubWindows, SubWindows: 10}, 0.0397},
		{limit.Spec{Algorithm: limit.SubWindows, SubWindows: 60}, 0.0161},
	} {
		o := small("poisson", 1)
		o.Quota, o.Sources, o.Periods = 1000, 16, 30
		o.Algorithms, o.OpenLoop = []Algorithm{{"estimate", c.spec}}, true
		cell := run(t, o)[0]
		wrong := cell.Share(cell.WrongAllowed + cell.WrongDenied)
		// The estimate rounds up what is used, which moves the limit by half a hit in the mean.
		if math.Abs(wrong-c.want) > 0.1*c.want {
			t.Errorf("%v in %d parts: %.4f wrong, theory says %.4f", c.spec.Algorithm, c.spec.SubWindows, wrong, c.want)
		}
	}
}

// TestExactIsNeverWrong holds the log to itself, and every algorithm to what it promises.
func TestExactIsNeverWrong(t *testing.T) {
	long(t)
	o := small("", 0.5, 1, 3)
	o.Workloads = Workloads()
	for _, c := range run(t, o) {
		if c.Algorithm == "sliding_log" && (c.WrongAllowed > 0 || c.Allowed != c.LogAllowed) {
			t.Errorf("%+v", c)
		}
		most := 1.0 // twice the quota in a period
		switch c.Algorithm {
		case "sliding_log", "sub_windows_strict":
			most = 0
		case "leaky_bucket":
			most = 0.01
		}
		if c.Overshoot > most+1e-9 {
			t.Errorf("%s, %s at %v: overshoot %v", c.Algorithm, c.Workload, c.Load, c.Overshoot)
		}
	}
}

// TestLoads holds that each workload asks for the load that it is given.
func TestLoads(t *testing.T) {
	long(t)
	for _, w := range Workloads() {
		o := small(w.Name, 0.9)
		o.Quota, o.Sources, o.Periods = 10, 250, 120
		o.Algorithms = o.Algorithms[:1]
		c := run(t, o)[0]
		want := 0.9 * float64(o.Quota) * float64(o.Sources) * float64(o.Periods)
		if w.Name == "flash-crowd" {
			want *= 1 + 9*crowdStay/float64(o.Periods)
		}
		got := float64(c.Requests)
		most := 1.06 * want
		if w.again != nil {
			most = maxTries * want // with what is asked again
		}
		if got < 0.94*want || got > most {
			t.Errorf("%s: %v requests, want about %v", w.Name, got, want)
		}
	}
}

// TestAdversary holds that who knows the windows gets twice the quota out of fixed ones, and not
// out of those that slide over a log.
func TestAdversary(t *testing.T) {
	o := small("adversary", 2)
	o.Period = 7 * time.Minute // days are no multiple of it
	for _, c := range run(t, o) {
		switch c.Algorithm {
		case "fixed_window":
			if c.Overshoot < 0.95 {
				t.Errorf("fixed_window: overshoot %v, want nearly 1", c.Overshoot)
			}
		case "sliding_window":
			if c.Overshoot > 0.05 {
				t.Errorf("sliding_window: overshoot %v, want little at one edge", c.Overshoot)
			}
		}
	}
}

// TestJitterSpreadsRetries holds that requests which come again at one time come again in one
// heap, and less so with a random part.
func TestJitterSpreadsRetries(t *testing.T) {
	peak := map[string]float64{}
	for _, name := range []string{"poisson", "retry-storm", "retry-jitter"} {
		o := small(name, 2)
		o.Algorithms = []Algorithm{{"fixed_window", limit.Spec{Algorithm: limit.FixedWindow}}}
		peak[name] = run(t, o)[0].Peak
	}
	if peak["retry-storm"] < 3*peak["poisson"] || peak["retry-jitter"] > peak["retry-storm"]/2 {
		t.Errorf("peaks: %v", peak)
	}
}

// TestNodesDivideTheQuota holds that shares never let more pass than the whole, and deny some
// that it would let pass.
func TestNodesDivideTheQuota(t *testing.T) {
	o := small("poisson", 1)
	o.Algorithms = []Algorithm{{"sliding_log", limit.Spec{Algorithm: limit.SlidingLog}}}
	o.Nodes = 7
	c := run(t, o)[0]
	if c.WrongAllowed > 0 || c.Overshoot > 0 || c.Lost() < 0.01 {
		t.Errorf("%+v", c)
	}
}

// TestSameSeedSameFigures holds that figures can be had again, and that the seed matters.
func TestSameSeedSameFigures(t *testing.T) {
	o := small("on-off", 0.8, 2)
	first, second := run(t, o), run(t, o)
	if !reflect.DeepEqual(first, second) {
		t.Error("two runs differ")
	}
	o.Seed++
	if reflect.DeepEqual(first, run(t, o)) {
		t.Error("the seed changes nothing")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"quota":   func(o *Options) { o.Quota = 0 },
		"period":  func(o *Options) { o.Period = time.Microsecond },
		"sources": func(o *Options) { o.Sources = 0 },
		"nodes":   func(o *Options) { o.Nodes = 101 },
		"loads":   func(o *Options) { o.Loads = nil },
		"load":    func(o *Options) { o.Loads = []float64{math.NaN()} },
		"million": func(o *Options) { o.Sources = 1_000_000 },
		"token_bucket": func(o *Options) {
			o.Algorithms = []Algorithm{{"token_bucket", limit.Spec{Algorithm: limit.TokenBucket, SubWindows: 3}}}
		},
	} {
		o := Defaults()
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Run(ended, Defaults()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestReports holds that pictures and pages are whole, and ask for nothing.
func TestReports(t *testing.T) {
	o := small("poisson", 0.5, 2)
	o.Algorithms = append(o.Algorithms, Algorithm{"<b>", limit.Spec{}})
	cells := run(t, o)
	var svg, html, table, doc bytes.Buffer
	for _, err := range []error{WriteSVG(&svg, o, cells, "poisson"), WriteHTML(&html, o, cells), WriteTable(&table, o, cells), json.NewEncoder(&doc).Encode(Document(o, cells))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	lines := 0
	for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != 2*len(o.Algorithms) {
		t.Errorf("%d lines for %d algorithms", lines, len(o.Algorithms))
	}
	for _, no := range []string{"%!", "0x", "<b>", "<script", "src=", "@import", "url("} {
		if strings.Contains(html.String(), no) {
			t.Errorf("the page has %q", no)
		}
	}
	if n := strings.Count(table.String(), "\n"); n != 4+len(cells) {
		t.Errorf("%d lines of text:\n%s", n, table.String())
	}
	if !strings.Contains(doc.String(), `"limit":"100 in 1m0s"`) {
		t.Error(doc.String())
	}
}

// docsTable is what docs/accuracy.md shows: few sources, so that a test can make it anew.
func docsTable(t *testing.T) string {
	o := Defaults()
	o.Loads = []float64{0.5, 0.9, 1, 1.1, 2, 10}
	o.Sources, o.Periods = 5, 40
	var b strings.Builder
	open := o
	open.OpenLoop, open.Algorithms, open.Workloads = true, Open(o.Algorithms), o.Workloads[:2]
	for _, o := range []Options{open, o} {
		cells := run(t, o)
		for _, w := range o.Workloads {
			b.WriteString("\n**" + w.Name + "**" + map[bool]string{true: ", denied requests count"}[o.OpenLoop] + ": " + w.Text + "\n\n")
			if err := WriteMarkdown(&b, o, cells, w.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.String()
}

// TestDocs holds the table of the documentation to what comes out.
func TestDocs(t *testing.T) {
	const file, begin, end = "../../docs/accuracy.md", "<!-- made by internal/simulate: begin -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatal("docs/accuracy.md has no place for the table")
	}
	if raceEnabled {
		t.Skip("the same figures are made without the race detector, in a tenth of the time")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round otherwise")
	}
	table := docsTable(t)
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if old != table {
		t.Errorf("docs/accuracy.md shows other figures; hint: go test ./internal/simulate -run Docs -update")
	}
}

func BenchmarkRun(b *testing.B) {
	o := small("poisson", 1)
	o.Algorithms = o.Algorithms[:1]
	var requests int64
	for b.Loop() {
		cells, err := Run(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		requests += cells[0].Requests
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(requests), "ns/request")
}
