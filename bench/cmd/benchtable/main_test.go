package main

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/bench/internal/figures"
)

const sample = `goos: linux
pkg: example
BenchmarkTake/keys=1/headgate/gcra         	1000	70.0 ns/op	 55.0 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkTake/keys=1/headgate/gcra         	1000	40.0 ns/op	 30.0 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkTake/keys=1/headgate/gcra         	1000	60.0 ns/op	 50.0 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkTake/keys=1/headgate/gcra-2       	1000	50.0 ns/op	 30.0 cpu-ns/op	 0 B/op	 0 allocs/op
BenchmarkTake/keys=1/go-limiter/token_bucket 	1000	80.0 ns/op	 60.0 cpu-ns/op	 60.0 cpu-ns/op	 0 B/op	 2 allocs/op
BenchmarkTake/keys=1/go-limiter/token_bucket-2	1000	160.0 ns/op	 60.0 cpu-ns/op	 60.0 cpu-ns/op	 0 B/op	 2 allocs/op
BenchmarkHeap/keys=1000000/headgate/gcra   	1	 1.5 gc-ms	 40.00 heap-B/key
PASS
`

func TestTables(t *testing.T) {
	var out strings.Builder
	var kept figures.Set
	keep := func(rows []figures.Row) error { kept = rows; return nil }
	if err := run(strings.NewReader(sample), &out, "process", keep); err != nil {
		t.Fatal(err)
	}
	if v, err := kept.At(figures.Place{Section: "process", Table: "Take, keys=1", System: "headgate/gcra", Value: "cpu-ns/op"}); err != nil || v != 30 {
		t.Errorf("kept %v: %v, %v", kept, v, err)
	}
	want := `
Take, keys=1
  ns, 1 proc  ns, 2 proc  CPU ns  allocs  x go-limiter  system
        40.0        50.0    30.0       0          0.50  headgate/gcra
        80.0       160.0    60.0       2          1.00  go-limiter/token_bucket

Heap, keys=1000000
  bytes/key  full GC ms  system
       40.0         1.5  headgate/gcra
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestNothingMeasured(t *testing.T) {
	if err := run(strings.NewReader("PASS\n"), new(strings.Builder), "process", nil); err == nil {
		t.Error("an empty report is no error")
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]measurement{
		"Take/keys=1/go-limiter/token_bucket-2":          {table: "Take, keys=1", system: "go-limiter/token_bucket", procs: 2},
		"Take/keys=1/go-limiter/token_bucket":            {table: "Take, keys=1", system: "go-limiter/token_bucket", procs: 1},
		"Check/headgate/sliding_window/descriptors=3-16": {table: "Check", system: "headgate/sliding_window/descriptors=3", procs: 16},
		"Take/keys=1000000/loop":                         {table: "Take, keys=1000000", system: "loop", procs: 1},
	} {
		var got measurement
		got.setName(name)
		if got.table != want.table || got.system != want.system || got.procs != want.procs {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
