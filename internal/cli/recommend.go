package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/advice"
	"github.com/headgate/headgate/internal/recommend"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/rules"
)

type recommendCmd struct {
	Rules    string `env:"-" placeholder:"FILE_OR_DIR" xor:"from" help:"The rules whose limits are looked at."`
	Document string `env:"-" placeholder:"NAME" xor:"from" help:"In place of --rules: those of a document of the database, which the admin API has."`

	recordedFlags `embed:""`

	Rule     []string `env:"-" sep:"none" placeholder:"ID" help:"Only this rule. May be repeated. Default: all."`
	HeadRoom string   `env:"-" default:"20%" placeholder:"N%" help:"How much more than was needed is recommended, up to 900%. Default: ${default}."`
	MayHit   string   `env:"-" default:"1%" placeholder:"N%" help:"Share of the keys of a limit that needed more than is counted as needed, up to 50%. Default: ${default}."`

	JSON  bool   `name:"json" env:"-" help:"Print the report as JSON."`
	Out   string `env:"-" placeholder:"FILE_OR_DIR" xor:"to" help:"Write the rules with the candidates there, where nothing is yet."`
	Write bool   `env:"-" xor:"to" help:"Write the candidates into the files of --rules."`
	Open  bool   `env:"-" xor:"to" help:"Put the candidates into the document of --document, so that every node tries them out."`

	adminAddress `embed:""`
	Timeout      time.Duration `default:"15s" env:"-" help:"Longest wait for an answer of the admin API."`
}

// Help implements kong.HelpProvider.
func (*recommendCmd) Help() string {
	return `Examples:

  headgate recommend --rules rules/ --events events-*.jsonl.gz
      What the keys of each limit needed, which quota would have been enough for 99 % of them
      with a fifth of head-room, and whom that quota denies something.

  headgate recommend --rules rules/ --events events-*.jsonl.gz --rule api.user --write
      The same of one rule, and the quota as a candidate in its file: it counts beside the
      limit in force, and denies nobody.

  headgate recommend --document checkout --kafka kafka://broker:9092/decisions --open
      The same for rules in the database, through the admin API.

What is read twice has to be there twice: standard input and pipes are kept in a file of the
directory for temporary ones meanwhile. docs/recommend.md says how is counted.

The exit code is 0, 1 when a candidate that was asked for could not be written, and 2 when the
question could not be answered: bad lines, events that lack what rules must know, no rule for
any request.`
}

// Run recommends, prints and writes.
func (c *recommendCmd) Run(std *stdio) error {
	wish, bad, err := c.wishes()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	std = std.until(ctx)
	text, err := c.text(ctx, std)
	if err != nil {
		return &codeError{exitUsage, unprinted(err)}
	}
	advised, err := c.advise(ctx, std, text.set, wish, bad)
	if err != nil {
		return &codeError{exitUsage, unprinted(err)}
	}
	if err := printReport(std.out, c.JSON, advised.WriteJSON, advised.WriteText); err != nil {
		return &codeError{exitUsage, err}
	}
	told := std.out
	if c.JSON {
		told = std.err // the object stays one
	}
	return c.put(ctx, told, text, advised.Wanted())
}

// wishes returns what a quota shall be like, and how many lines may be bad.
func (c *recommendCmd) wishes() (w recommend.Wish, bad allowance, err error) {
	// Thousandths of what was needed, and thousandths of a percent of the keys.
	if w.HeadRoom, err = parsePercent("--head-room", c.HeadRoom, 1); err != nil {
		return w, bad, err
	}
	if w.MayHit, err = parsePercent("--may-hit", c.MayHit, 3); err != nil {
		return w, bad, err
	}
	if err := w.Check(); err != nil {
		return w, bad, fmt.Errorf("--head-room %s, --may-hit %s: out of range; hint: up to 900%% and up to 50%%", c.HeadRoom, c.MayHit)
	}
	switch {
	case c.Rules == "" && c.Document == "":
		return w, bad, errors.New("no rules; hint: --rules FILE_OR_DIR, or --document NAME")
	case c.Open && c.Document == "":
		return w, bad, errors.New("--open puts candidates into a document of the database; hint: --document NAME, or --write for --rules")
	case c.Write && (c.Document != "" || c.Rules == "-"):
		return w, bad, errors.New("--write changes files of --rules; hint: --out FILE, or --open with --document")
	case c.Out != "":
		if _, err := os.Lstat(c.Out); err == nil {
			return w, bad, fmt.Errorf("--out: %s is there already; hint: delete it, or name another one", c.Out)
		}
	}
	bad, err = c.badLines()
	return w, bad, err
}

// parsePercent returns a percentage of so many decimals at most, in units of the last one.
func parsePercent(flag, text string, decimals int) (int64, error) {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	whole, part, _ := strings.Cut(strings.TrimSpace(number), ".")
	if len(part) > decimals {
		ok = false
	} else {
		part += strings.Repeat("0", decimals-len(part))
	}
	n, err := strconv.ParseUint(whole+part, 10, 31)
	if !ok || whole == "" || err != nil {
		return 0, fmt.Errorf("%s: %q; hint: a percentage of up to %d decimals, such as 2.5%%", flag, text, decimals)
	}
	return int64(n), nil
}

// advise goes over what was recorded.
func (c *recommendCmd) advise(ctx context.Context, std *stdio, set *rules.Set, wish recommend.Wish, bad allowance) (*advice.Result, error) {
	o := advice.Options{Source: replay.Options{Candidate: set}, Rules: c.Rule, Wish: wish}
	if err := c.source(ctx, std, &o.Source, answers{}); err != nil {
		return nil, err
	}
	done, err := c.readTwice(&o.Source)
	defer done()
	if err != nil {
		return nil, err
	}
	advised, err := advice.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := c.readWell(std, &advised.Reading, bad); err != nil {
		return nil, fmt.Errorf("recommend: %w", err)
	}
	switch err := advised.Enough(); {
	case errors.Is(err, advice.ErrNoRule):
		return nil, fmt.Errorf("recommend: no rule is for any of %d requests; hint: --domain, and the descriptors of --identity, as the rules have them", advised.Requests)
	case err != nil:
		return nil, fmt.Errorf("recommend: %w", err)
	}
	return advised, nil
}

// readTwice sees to it that inputs can be read again. done ends that.
func (c *recommendCmd) readTwice(o *replay.Options) (done func(), err error) {
	var files []*os.File
	done = func() {
		for _, f := range files {
			f.Close()
			os.Remove(f.Name())
		}
	}
	if c.Kafka != "" {
		return done, nil // partitions have ends
	}
	for i := range o.Inputs {
		input := &o.Inputs[i]
		if input.Again {
			continue
		}
		file, err := os.CreateTemp("", "headgate-recommend-*")
		if err != nil {
			return done, fmt.Errorf("keep %s: %w", input.Name, err)
		}
		files = append(files, file)
		if err := keep(file, input); err != nil {
			return done, fmt.Errorf("keep %s: %w", input.Name, err)
		}
		input.Open, input.Again = func() (io.ReadCloser, error) { return os.Open(file.Name()) }, true
	}
	return done, nil
}

// keep copies an input into a file.
func keep(file *os.File, input *replay.Input) error {
	from, err := input.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(file, from)
	return err
}
