package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/headgate/headgate/bench/internal/figures"
)

// peers are what Headgate is compared with, and the heads of their columns.
var peers = []struct{ system, head string }{
	{"x-time-rate/token_bucket_mutex_map", "x x/time/rate"},
	{"go-limiter/token_bucket", "x go-limiter"},
	{"throttled/gcra", "x throttled"},
	{"httprate/sliding_window", "x httprate"},
	{"ulule-limiter/fixed_window", "x ulule/limiter"},
}

// unitAdded is by how much an operation is longer than that of the first row, measured in pairs.
const unitAdded = "added-ns/op"

// table is one benchmark at one size.
type table struct {
	rows  []string
	procs map[int]bool
	units map[string]bool
	cells map[string]map[int]measurement // by system and processors
}

// tables are all benchmarks, in the order in which they ran.
type tables struct {
	order []string
	all   map[string]*table
}

func newTables() *tables { return &tables{all: make(map[string]*table)} }

// add takes in a measurement. Of a row that was measured several times the one with the least
// processor time stays, because whatever else runs on the machine can only add to it.
func (ts *tables) add(m measurement) {
	t := ts.all[m.table]
	if t == nil {
		t = &table{procs: make(map[int]bool), units: make(map[string]bool), cells: make(map[string]map[int]measurement)}
		ts.all[m.table] = t
		ts.order = append(ts.order, m.table)
	}
	if t.cells[m.system] == nil {
		t.rows = append(t.rows, m.system)
		t.cells[m.system] = make(map[int]measurement)
	}
	if before, again := t.cells[m.system][m.procs]; !again || m.values["cpu-ns/op"] < before.values["cpu-ns/op"] {
		t.cells[m.system][m.procs] = m
	}
	t.procs[m.procs] = true
	for unit := range m.values {
		t.units[unit] = true
	}
}

func (ts *tables) print(out io.Writer) error {
	for _, name := range ts.order {
		fmt.Fprintf(out, "\n%s\n", name)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		if t := ts.all[name]; t.units["heap-B/key"] {
			t.printHeap(w)
		} else {
			t.printTimes(w)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// printTimes writes ns per decision for each number of processors, the processor
// time of one decision on the fewest, and how that relates to the peers.
func (t *table) printTimes(w io.Writer) {
	procs := slices.Sorted(maps.Keys(t.procs))
	var head strings.Builder
	for _, n := range procs {
		fmt.Fprintf(&head, "ns, %d proc\t", n)
	}
	if t.units[unitAdded] {
		head.WriteString("added ns\t")
	}
	fmt.Fprintf(w, "%sCPU ns\tallocs\t%s  system\n", head.String(), t.peerHeads())
	for _, system := range t.rows {
		for _, n := range procs {
			fmt.Fprintf(w, "%.1f\t", t.value(system, n, "ns/op"))
		}
		if t.units[unitAdded] {
			fmt.Fprintf(w, "%.1f\t", t.value(system, procs[0], unitAdded))
		}
		fmt.Fprintf(w, "%.1f\t%.0f\t%s  %s\n", t.value(system, procs[0], "cpu-ns/op"),
			t.value(system, procs[0], "allocs/op"), t.ratios(system, procs[0], "cpu-ns/op"), system)
	}
}

// printHeap writes the memory of each key and the time of a collection.
func (t *table) printHeap(w io.Writer) {
	procs := slices.Min(slices.Collect(maps.Keys(t.procs)))
	fmt.Fprintf(w, "bytes/key\tfull GC ms\t%s  system\n", t.peerHeads())
	for _, system := range t.rows {
		fmt.Fprintf(w, "%.1f\t%.1f\t%s  %s\n", t.value(system, procs, "heap-B/key"), t.value(system, procs, "gc-ms"),
			t.ratios(system, procs, "heap-B/key"), system)
	}
}

// figures are the rows for a page: the values on the fewest processors.
func (ts *tables) figures(section string) (rows []figures.Row) {
	for _, name := range ts.order {
		t := ts.all[name]
		procs := slices.Min(slices.Collect(maps.Keys(t.procs)))
		for _, system := range t.rows {
			rows = append(rows, figures.Row{Section: section, Table: name, System: system, Values: t.cells[system][procs].values})
		}
	}
	return rows
}

func (t *table) value(system string, procs int, unit string) float64 {
	return t.cells[system][procs].values[unit]
}

// peerHeads are the heads of the ratio columns: one for each peer in the table.
func (t *table) peerHeads() string {
	var heads strings.Builder
	for _, p := range peers {
		if t.cells[p.system] != nil {
			heads.WriteString(p.head + "\t")
		}
	}
	return heads.String()
}

// ratios are the cells below peerHeads: a value as a multiple of the peer's.
func (t *table) ratios(system string, procs int, unit string) string {
	var cells strings.Builder
	for _, p := range peers {
		if base := t.value(p.system, procs, unit); t.cells[p.system] != nil && base > 0 {
			fmt.Fprintf(&cells, "%.2f\t", t.value(system, procs, unit)/base)
		} else if t.cells[p.system] != nil {
			cells.WriteString("-\t")
		}
	}
	return cells.String()
}
