package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/simulate"
)

type simulateCmd struct {
	Quota     int64         `env:"-" default:"100" help:"Requests that the limit lets pass in a period."`
	Period    time.Duration `env:"-" default:"1m" help:"The period."`
	Algorithm []string      `env:"-" placeholder:"NAME,..." help:"Algorithms: sliding_window, sub_windows, sub_windows_strict, sliding_log, fixed_window, token_bucket, gcra, leaky_bucket. Default: all."`
	Workload  []string      `env:"-" placeholder:"NAME,..." help:"Models of traffic: poisson, bursts, on-off, diurnal, flash-crowd, adversary, retry-storm, retry-jitter. Default: all."`
	Load      []float64     `env:"-" placeholder:"SHARE,..." help:"What a source asks for in the mean, as shares of the quota. Default: 0.2 to 10 in ten steps."`
	Sources   int           `env:"-" default:"10" help:"Keys in each row, each with a phase of its own."`
	Periods   int           `env:"-" default:"100" help:"Periods that count; two more come before."`
	Nodes     int           `env:"-" default:"1" help:"Divide the quota between so many nodes, as 'consistency: local' does."`
	OpenLoop  bool          `env:"-" help:"Let denied requests count, for limit and log alike: whether an estimate is above the limit is then compared with whether the exact count is."`
	Seed      uint64        `env:"-" default:"1" help:"What randomness begins with. The same seed gives the same figures."`
	Format    string        `env:"-" enum:"text,json,markdown" default:"text" help:"What is printed: text, json or markdown."`
	HTML      string        `env:"-" placeholder:"FILE" help:"Write a page with plots to this file; it opens without a network."`
	SVG       string        `env:"-" placeholder:"DIR" help:"Write a picture of each workload into this directory, WORKLOAD.svg."`
}

// Help implements kong.HelpProvider.
func (*simulateCmd) Help() string {
	return `Examples:

  headgate simulate --workload poisson,bursts --load 0.9,1,1.1
  headgate simulate --quota 1000 --period 1h --html report.html
  headgate simulate --algorithm sliding_window --nodes 5 --workload adversary

Traffic is made up and decided in virtual time, by the code that decides real requests;
no store is asked. Each decision is compared with an exact log. docs/accuracy.md says how
the figures are to be read.`
}

// options returns what the flags say.
func (c *simulateCmd) options() (o simulate.Options, err error) {
	o = simulate.Defaults()
	o.Quota, o.Period, o.Sources, o.Periods, o.Nodes, o.OpenLoop, o.Seed = c.Quota, c.Period, c.Sources, c.Periods, c.Nodes, c.OpenLoop, c.Seed
	if len(c.Load) > 0 {
		o.Loads = c.Load
	}
	if o.OpenLoop {
		o.Algorithms = simulate.Open(o.Algorithms)
	}
	if o.Algorithms, err = simulate.Named("--algorithm", o.Algorithms, algorithmName, c.Algorithm); err != nil {
		return o, err
	}
	o.Workloads, err = simulate.Named("--workload", o.Workloads, workloadName, c.Workload)
	return o, err
}

func algorithmName(a simulate.Algorithm) string { return a.Name }

func workloadName(w simulate.Workload) string { return w.Name }

// Run simulates, prints and writes.
func (c *simulateCmd) Run(std *stdio) error {
	o, err := c.options()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	cells, err := simulate.Run(ctx, o)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if err := c.print(std.out, o, cells); err != nil {
		return err
	}
	return c.write(o, cells)
}

func (c *simulateCmd) print(w io.Writer, o simulate.Options, cells []simulate.Cell) error {
	switch c.Format {
	case "json":
		return printJSON(w, simulate.Document(o, cells))
	case "markdown":
		for _, workload := range o.Workloads {
			fmt.Fprintf(w, "\n**%s**: %s\n\n", workload.Name, workload.Text)
			if err := simulate.WriteMarkdown(w, o, cells, workload.Name); err != nil {
				return err
			}
		}
		return nil
	default:
		return simulate.WriteTable(w, o, cells)
	}
}

// write writes the page and the pictures, where they are asked for.
func (c *simulateCmd) write(o simulate.Options, cells []simulate.Cell) error {
	var b bytes.Buffer
	if c.HTML != "" {
		if err := simulate.WriteHTML(&b, o, cells); err != nil {
			return err
		}
		if err := os.WriteFile(c.HTML, b.Bytes(), 0o644); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	if c.SVG == "" {
		return nil
	}
	if err := os.MkdirAll(c.SVG, 0o755); err != nil {
		return &codeError{exitUsage, err}
	}
	for _, workload := range o.Workloads {
		b.Reset()
		if err := simulate.WriteSVG(&b, o, cells, workload.Name); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.SVG, workload.Name+".svg"), b.Bytes(), 0o644); err != nil {
			return &codeError{exitUsage, err}
		}
	}
	return nil
}
