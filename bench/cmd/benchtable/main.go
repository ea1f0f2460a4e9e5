// Command benchtable turns the output of go test -bench of package inprocess,
// on standard input, into tables with ratios to the peers of the same run.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/headgate/headgate/bench/internal/figures"
)

func main() {
	section := flag.String("section", "process", "what the figures are called")
	file := flag.String("figures", "", "add the figures to this `file`, for benchpage")
	flag.Parse()
	keep := func(rows []figures.Row) error { return figures.Append(*file, rows) }
	if err := run(os.Stdin, os.Stdout, *section, keep); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, section string, keep func([]figures.Row) error) error {
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
	if err := tables.print(out); err != nil {
		return err
	}
	return keep(tables.figures(section))
}
