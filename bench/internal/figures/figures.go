// Package figures is what the commands here hand on to whoever makes a page of
// it: one line of JSON for each row of each table, beside the text that they
// print for people.
package figures

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Row is one system in one table.
type Row struct {
	// Section is the command, and what it measured where it has several:
	// "grpc", "latency", "redis", "process".
	Section string `json:"section"`
	// Table and System are what the printed tables call it.
	Table  string `json:"table"`
	System string `json:"system"`
	// Values are the figures, by names that end in their unit: "server_us",
	// "p99_ms".
	Values map[string]float64 `json:"values,omitempty"`
	// Missing says why nothing was measured; then there are no Values.
	Missing string `json:"missing,omitempty"`
}

// Append adds rows to the end of the file, which it makes if there is none. A
// name of "" is no file: nothing is kept.
func Append(name string, rows []Row) (err error) {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep figures: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	encoder := json.NewEncoder(file)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return fmt.Errorf("keep figures in %s: %w", name, err)
		}
	}
	return nil
}

// maxLine bounds a line that is read, in bytes.
const maxLine = 1 << 20

// Read reads rows until the end of in.
func Read(in io.Reader) (Set, error) {
	var all Set
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read figures, line %d: %w; hint: each line is one row in JSON", n, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	return all, nil
}

// Set is all rows of a run.
type Set []Row

// Place names one figure.
type Place struct{ Section, Table, System, Value string }

// MissingError says that a figure is not there.
type MissingError struct {
	Place  Place
	Reason string
}

// Error implements error.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s, %s: %s", e.Place.Table, e.Place.System, e.Reason)
}

// At returns the figure at p. The error is a *MissingError.
func (s Set) At(p Place) (float64, error) {
	for _, r := range s {
		if r.Section != p.Section || r.Table != p.Table || r.System != p.System {
			continue
		}
		if v, ok := r.Values[p.Value]; ok {
			return v, nil
		}
		if r.Missing != "" {
			return 0, &MissingError{p, r.Missing}
		}
		return 0, &MissingError{p, "it has no " + p.Value}
	}
	return 0, &MissingError{p, "not in this run"}
}
