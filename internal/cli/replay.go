package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/store/memstore"
)

type replayCmd struct {
	Rules   string `env:"-" required:"" placeholder:"FILE_OR_DIR" help:"The candidate: rules that are asked about what was recorded."`
	Current string `env:"-" placeholder:"FILE_OR_DIR" help:"The rules of today, asked about the same. Default: what was recorded is what was answered."`

	recordedFlags `embed:""`

	DeniedStatus []int         `env:"-" default:"429" placeholder:"STATUS,..." help:"Statuses of an access log that say that a limit has denied. Default: ${default}."`
	WarmUp       time.Duration `env:"-" placeholder:"TIME" help:"Ask about so much from the beginning on without counting it, so that buckets are as full as they were."`

	MaxNewlyDenied string      `env:"-" placeholder:"N or N%" help:"The exit code is 1 when more requests are newly denied: a number, or a share of all such as 0.1%."`
	StoreMemory    config.Size `env:"-" default:"256MiB" placeholder:"SIZE" help:"Memory for the buckets of each set of rules. Default: ${default}."`
	Top            int         `env:"-" default:"20" help:"How many keys and tenants are named. Default: ${default}."`
	JSON           bool        `name:"json" env:"-" help:"Print the report as JSON."`
	HTML           string      `env:"-" placeholder:"FILE" help:"Write the report as a page to this file; it opens without a network."`
}

// Help implements kong.HelpProvider.
func (*replayCmd) Help() string {
	return `Examples:

  headgate replay --rules new/ --events events-*.jsonl.gz --max-newly-denied 0.1%
      Who would have been denied that was not; the exit code is 1 when it is more than 0.1 %.

  headgate replay --rules new/ --identity identity.yaml --access-log access.log
      The same by an access log of nginx or Apache. Status 429 counts as denied.

  headgate replay --rules new/ --current old/ --access-log access.csv --format csv --html report.html
      Two sets of rules, for a log that does not say what was answered.

  zcat access.log.*.gz | headgate replay --rules new/ --access-log -

All limits of a request are asked at once, by the code that decides real requests, at the times
that were recorded. docs/replay.md says what that cannot tell.

The exit code is 0, 1 when more is newly denied than may be, and 2 when the question could not be
answered: bad lines, events that lack what rules must know, no rule for any request.`
}

// Run replays, prints and judges.
func (c *replayCmd) Run(std *stdio) error {
	newly, bad, err := c.allowances()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	std = std.until(ctx)
	o, err := c.options(ctx, std)
	if err != nil {
		return &codeError{exitUsage, unprinted(err)}
	}
	report, err := replay.Run(ctx, o)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if err := c.answered(std, report, bad); err != nil {
		return &codeError{exitUsage, err}
	}
	if err := c.write(std.out, report); err != nil {
		return &codeError{exitUsage, err}
	}
	if newly.exceeded(report.NewlyDenied, report.Requests) && c.MaxNewlyDenied != "" {
		return &codeError{exitNo, fmt.Errorf("replay: %d of %d requests are newly denied, more than %s", report.NewlyDenied, report.Requests, c.MaxNewlyDenied)}
	}
	return nil
}

func (c *replayCmd) allowances() (newly, bad allowance, err error) {
	if c.MaxNewlyDenied != "" {
		if newly, err = parseAllowance("--max-newly-denied", c.MaxNewlyDenied); err != nil {
			return newly, bad, err
		}
	}
	bad, err = c.badLines()
	return newly, bad, err
}

// answered tells of lines that could not be read, and refuses a report that says nothing.
func (c *replayCmd) answered(std *stdio, r *replay.Report, bad allowance) error {
	if err := c.readWell(std, &r.Reading, bad); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	switch {
	case r.Requests == 0:
		return errors.New("replay: there is no request in what was recorded")
	case r.Matched == 0:
		return fmt.Errorf("replay: no rule of %s is for any of %d requests; hint: --domain, and the descriptors of --identity, as the rules have them", c.Rules, r.Requests)
	}
	return nil
}

func (c *replayCmd) write(w io.Writer, r *replay.Report) error {
	if c.HTML != "" {
		var b bytes.Buffer
		if err := r.WriteHTML(&b); err != nil {
			return err
		}
		if err := os.WriteFile(c.HTML, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return printReport(w, c.JSON, r.WriteJSON, r.WriteText)
}

// options returns what the flags say.
func (c *replayCmd) options(ctx context.Context, std *stdio) (o replay.Options, err error) {
	switch {
	case c.WarmUp < 0:
		return o, fmt.Errorf("--warm-up %v; hint: 1h", c.WarmUp)
	case c.StoreMemory < memstore.MinMaxBytes:
		return o, fmt.Errorf("--store-memory: %d bytes; hint: 1MiB or more", c.StoreMemory)
	}
	if o.Candidate, _, err = c.load(std, c.Rules); err != nil {
		return o, err
	}
	if c.Current != "" {
		if o.Current, _, err = c.load(std, c.Current); err != nil {
			return o, err
		}
	}
	o.WarmUp, o.Top, o.MaxBytes = c.WarmUp, c.Top, int64(c.StoreMemory)
	return o, c.source(ctx, std, &o, answers{denied: c.DeniedStatus, needed: c.Current == ""})
}
