package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/bench/internal/figures"
)

const report = `# Headgate beside its peers

date       2026-11-28T18:00Z
commit     0123456789ab of 2026-11-28T17:00:00Z

## In process: ns

Take, keys=1
  36.0  headgate/gcra

Aims:
  met           hot key

## gRPC: us

1 descriptor
  5.8  headgate
`

// sample has some of the figures that the pages show.
var sample = figures.Set{
	{Section: "process", Table: "Take, keys=1", System: "headgate/gcra", Values: map[string]float64{"cpu-ns/op": 30}},
	{Section: "process", Table: "Take, keys=1", System: "headgate/sliding_window", Values: map[string]float64{"cpu-ns/op": 50}},
	{Section: "process", Table: "Heap, keys=1000000", System: "headgate/gcra", Values: map[string]float64{"heap-B/key": 33.25}},
	{Section: "grpc", Table: oneDescriptor, System: inRedis, Values: map[string]float64{"server_us": 20, "redis_us": 5, "sum_us": 25, "key_bytes": 130}},
	{Section: "grpc", Table: oneDescriptor, System: ratelimit, Values: map[string]float64{"server_us": 80, "redis_us": 20, "sum_us": 100}},
	{Section: "grpc", Table: oneDescriptor, System: constant, Missing: "it ended"},
	{Section: "grpc", Table: oneDescriptor, System: "gubernator, memory", Values: map[string]float64{"server_us": 70, "sum_us": 70}},
}

func repository(t *testing.T) (root string, files map[string]string) {
	t.Helper()
	root = t.TempDir()
	files = map[string]string{
		"README.md":        "front\n" + begin + "\n" + end + "\nand more\n",
		"bench/README.md":  "text\n" + begin + "\nold figures\n" + end + "\nmore text\n",
		"docs/capacity.md": "costs\n" + begin + "\nold\n" + end + "\nformulas\n",
	}
	for name, text := range files {
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, files
}

func content(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPagesAreMade(t *testing.T) {
	root, _ := repository(t)
	if err := writePages(root, sample, report); err != nil {
		t.Fatal(err)
	}
	for name, wanted := range map[string][]string{
		"README.md": {"front\n" + begin + "\n\n![", "(bench/cost.svg)", end + "\nand more\n"},
		"bench/README.md": {
			"text\n" + begin, end + "\nmore text\n", "commit     0123456789ab of",
			"### In process: ns\n\n```text\nTake, keys=1\n  36.0  headgate/gcra\n\nAims:\n  met           hot key\n```",
			"### gRPC: us\n", "| hot key, GCRA | 36 ns | 30.0 ns | met |", "| hot key, sliding window | 36 ns | 50.0 ns | **missed** |",
			"| 1 descriptor, headgate, Redis: server + Redis to envoyproxy/ratelimit | 0.1 | 0.25 | **missed** |", "not measured |",
		},
		"docs/capacity.md": {
			"costs\n", "formulas\n", "| gRPC, one descriptor | Redis | 20.0 | 5.0 |", "| gRPC, one descriptor | memory | not measured |  |",
			"| active key in the memory store, GCRA | 33.2 |", "50000 decisions/s for each processor of Headgate, 200000 for each of Redis",
			"Headgate 500000 x 20.0 us / 1,000,000 / 0.7 = 14.3 processors", "10000000 x 130 B = 1.3 GB", "grpc-go, one descriptor: not measured",
		},
		"bench/cost.svg": {"80.0 + 20.0 = 100.0", "gubernator, memory", ">70.0</text>"},
	} {
		got := content(t, root, name)
		for _, w := range wanted {
			if !strings.Contains(got, w) {
				t.Errorf("%s lacks %q:\n%s", name, w, got)
			}
		}
		if strings.Contains(got, "\nold") {
			t.Errorf("%s still has what was there:\n%s", name, got)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*", ".benchpage*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestNothingIsWrittenWhenOnePageCannotBe: a page without its lines, a report
// without a head, no system for the chart.
func TestNothingIsWrittenWhenOnePageCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		set    figures.Set
		report string
		page   string
	}{
		"no lines":  {sample, report, "a page that was written by hand"},
		"two pairs": {sample, report, strings.Repeat(begin+"\n"+end+"\n", 2)},
		"no head":   {sample, "\n## gRPC\n", ""},
		"no report": {sample, "", ""},
		"no chart":  {sample[:3], report, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, files := repository(t)
			if c.page != "" {
				files["docs/capacity.md"] = c.page
				if err := os.WriteFile(filepath.Join(root, "docs/capacity.md"), []byte(c.page), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := writePages(root, c.set, c.report); err == nil {
				t.Error("it is no error")
			}
			for file, text := range files {
				if got := content(t, root, file); got != text {
					t.Errorf("%s was changed:\n%s", file, got)
				}
			}
		})
	}
}

// TestPageCanBeMadeAgain: from what it made before.
func TestPageCanBeMadeAgain(t *testing.T) {
	root, _ := repository(t)
	var first string
	for range 2 {
		if err := writePages(root, sample, report); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = content(t, root, "bench/README.md")
		}
	}
	if again := content(t, root, "bench/README.md"); again != first {
		t.Errorf("the second time it is\n%s\nand was\n%s", again, first)
	}
}

// TestPagesHaveTheirLines: those of this tree can be made anew.
func TestPagesHaveTheirLines(t *testing.T) {
	for _, name := range []string{"README.md", "bench/README.md", "docs/capacity.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replaced(string(text), "new\n"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryAimCanBeMet: each is at most what it should be in a run that has all
// figures at 0, or 1 where something is divided by them, and is missed in one
// that has them far too high.
func TestEveryAimCanBeMet(t *testing.T) {
	for _, a := range aims() {
		if verdict, why := a.judge(nil); verdict != notMeasured || why == "" {
			t.Errorf("%s: %s, %s of nothing", a.what, verdict, why)
		}
		if a.most < 0 || a.section == "" || a.what == "" {
			t.Errorf("%+v", a)
		}
	}
	low := aim{"s", "what", func(figures.Set) (float64, error) { return 1, nil }, 1, ""}
	high := low
	high.figure = func(figures.Set) (float64, error) { return 1.01, nil }
	failed := low
	failed.figure = func(figures.Set) (float64, error) { return 0, errors.New("no") }
	for want, a := range map[string]aim{met: low, missed: high, notMeasured: failed} {
		if verdict, _ := a.judge(nil); verdict != want {
			t.Errorf("%s, want %s", verdict, want)
		}
	}
}

// TestWhatWasNotDecidedIsNoFigure: nor what was not sent.
func TestWhatWasNotDecidedIsNoFigure(t *testing.T) {
	for name, most := range map[string]float64{"undecided_percent": mostUndecided, "unsent_percent": mostUnsent} {
		row := func(share float64) figures.Set {
			return figures.Set{{Section: "s", Table: "t", System: "x", Values: map[string]float64{"sum_us": 1, name: share}}}
		}
		if v, err := at("s", "t", "x", "sum_us")(row(most)); v != 1 || err != nil {
			t.Errorf("%s: %v, %v", name, v, err)
		}
		var missing *figures.MissingError
		if _, err := at("s", "t", "x", "sum_us")(row(most + 1)); !errors.As(err, &missing) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRatio(t *testing.T) {
	of := func(v float64) figure { return func(figures.Set) (float64, error) { return v, nil } }
	if v, err := ratio(of(3), of(2))(nil); v != 1.5 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := ratio(of(3), of(0))(nil); err == nil {
		t.Error("a ratio to 0 is no error")
	}
}

// TestSectionsHaveAims: run.sh asks for those of each.
func TestSectionsHaveAims(t *testing.T) {
	script, err := os.ReadFile("../../run.sh")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for line := range strings.Lines(string(script)) {
		if section, ok := strings.CutPrefix(strings.TrimSpace(line), "aims "); ok {
			asked++
			if err := writeAims(io.Discard, nil, section); err != nil {
				t.Error(err)
			}
		}
	}
	if asked < 6 {
		t.Errorf("run.sh asks for the aims of %d sections", asked)
	}
	if err := writeAims(io.Discard, nil, "nowhere"); err == nil {
		t.Error("a section without aims is no error")
	}
}

// TestChartIsXML: a system's name cannot break it.
func TestChartIsXML(t *testing.T) {
	text := draw([]bar{{"a < b & \"c\"", 10, 5}, {"d", 2, 0}}, 15)
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}
