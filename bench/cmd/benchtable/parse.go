package main

import (
	"fmt"
	"strconv"
	"strings"
)

// measurement is one line of go test -bench.
type measurement struct {
	table  string             // "Take, keys=1": the benchmark and its size
	system string             // "headgate/gcra"
	procs  int                // GOMAXPROCS
	values map[string]float64 // by unit: "ns/op", "allocs/op", "heap-B/key", ...
}

// parseLine reads a line; ok is false for lines that are no measurement.
func parseLine(line string) (m measurement, ok bool, err error) {
	fields := strings.Fields(line)
	// Name, number of iterations, then pairs of value and unit.
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return m, false, nil
	}
	if _, err := strconv.ParseInt(fields[1], 10, 64); err != nil {
		return m, false, nil
	}
	m.values = make(map[string]float64)
	for i := 2; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return m, false, fmt.Errorf("measurement %q: %w", line, err)
		}
		m.values[fields[i+1]] = v
	}
	m.setName(strings.TrimPrefix(fields[0], "Benchmark"))
	return m, true, nil
}

// setName takes "Take/keys=1/headgate/gcra-2" apart.
func (m *measurement) setName(name string) {
	m.procs = 1
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		if n, err := strconv.Atoi(name[i+1:]); err == nil {
			m.procs, name = n, name[:i]
		}
	}
	m.table, m.system, _ = strings.Cut(name, "/")
	if size, rest, ok := strings.Cut(m.system, "/"); ok && strings.HasPrefix(size, "keys=") {
		m.table, m.system = m.table+", "+size, rest
	}
}
