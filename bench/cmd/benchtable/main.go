// Command benchtable turns the output of go test -bench of package inprocess,
// on standard input, into tables with ratios to the peers of the same run.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	tables := newTables()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		m, ok, err := parseLine(lines.Text())
		if err != nil {
			return err
		}
		if ok {
			tables.add(m)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read measurements: %w", err)
	}
	if len(tables.order) == 0 {
		return fmt.Errorf("no measurements; hint: pipe the output of go test -bench into this command")
	}
	return tables.print(out)
}
