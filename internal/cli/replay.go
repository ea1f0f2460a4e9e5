package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/tenant"
)

type replayCmd struct {
	Rules   string `env:"-" required:"" placeholder:"FILE_OR_DIR" help:"The candidate: rules that are asked about what was recorded."`
	Current string `env:"-" placeholder:"FILE_OR_DIR" help:"The rules of today, asked about the same. Default: what was recorded is what was answered."`

	Events    []string `env:"-" sep:"none" placeholder:"FILE" help:"Audit events: files of --audit-files, also with gzip, '-' for standard input. May be repeated."`
	Kafka     string   `env:"-" placeholder:"URL" help:"Audit events of a topic, from --since on to where it ends now: the URL of --audit-kafka. It needs the right to read."`
	AccessLog []string `env:"-" sep:"none" placeholder:"FILE" help:"Access logs, also with gzip, '-' for standard input. May be repeated."`
	Files     []string `arg:"" optional:"" name:"file" help:"More files of the same kind."`

	Format       string        `env:"-" enum:"combined,common,nginx,envoy,csv" default:"combined" help:"Of access logs: combined (the default; common and nginx are the same), envoy for Envoy's default, csv with a header."`
	Domain       string        `env:"-" help:"The domain of requests of access logs. Default: the only one that the candidate has."`
	DeniedStatus []int         `env:"-" default:"429" placeholder:"STATUS,..." help:"Statuses of an access log that say that a limit has denied. Default: ${default}."`
	OutOfOrder   time.Duration `env:"-" default:"10s" help:"By how much lines of a file may be out of order. Default: ${default}."`
	Since        time.Time     `env:"-" placeholder:"TIME" help:"Leave out what was before, such as 2026-11-22T12:00:00Z."`
	WarmUp       time.Duration `env:"-" placeholder:"TIME" help:"Ask about so much from the beginning on without counting it, so that buckets are as full as they were."`
	Until        time.Time     `env:"-" placeholder:"TIME" help:"Leave out what was then or later."`

	AuditHashKey string `env:"-" placeholder:"FILE" help:"The key by which values in events are hashed (--audit-hash-key of the server), so that rules find those that they name."`
	Tiers        string `env:"-" placeholder:"FILE" help:"Tiers, for rules of tenants."`
	Accounts     string `env:"-" placeholder:"FILE" help:"Accounts as 'quota export' writes them, for rules of tenants."`
	ruleFlags    `embed:""`

	MaxNewlyDenied string      `env:"-" placeholder:"N or N%" help:"The exit code is 1 when more requests are newly denied: a number, or a share of all such as 0.1%."`
	MaxBadLines    string      `env:"-" placeholder:"N or N%" default:"1%" help:"The exit code is 2 when more lines cannot be read. Default: ${default}."`
	Partial        bool        `env:"-" help:"Go on where events do not hold all that rules must know: samples, hashes that rules cannot be compared with, events of old versions."`
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

// allowance is a number of things, or a share of all.
type allowance struct {
	most    float64
	percent bool
}

func parseAllowance(flag, text string) (a allowance, err error) {
	number, percent := strings.CutSuffix(text, "%")
	a.percent = percent
	if a.most, err = strconv.ParseFloat(strings.TrimSpace(number), 64); err != nil || !(a.most >= 0) || percent && a.most > 100 {
		return a, fmt.Errorf("%s: %q; hint: a number such as 10, or a share such as 0.1%%", flag, text)
	}
	return a, nil
}

// exceeded reports whether n of all is more than is allowed.
func (a allowance) exceeded(n, all int64) bool {
	if a.percent {
		return float64(n)*100 > a.most*float64(all)
	}
	return float64(n) > a.most
}

// Run replays, prints and judges.
func (c *replayCmd) Run(std *stdio) error {
	newly, bad, err := c.allowances()
	if err != nil {
		return &codeError{exitUsage, err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
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
	bad, err = parseAllowance("--max-bad-lines", c.MaxBadLines)
	return newly, bad, err
}

// answered tells of lines that could not be read, and refuses a report that says nothing.
func (c *replayCmd) answered(std *stdio, r *replay.Report, bad allowance) error {
	for _, t := range r.Reading.Troubles {
		printError(std.err, fmt.Errorf("%s:%d: %s", t.Input, t.Line, t.Error))
	}
	if more := r.Reading.Bad - int64(len(r.Reading.Troubles)); more > 0 {
		fmt.Fprintf(std.err, "headgate: and %d more lines that cannot be read\n", more)
	}
	switch {
	case bad.exceeded(r.Reading.Bad, r.Reading.Lines):
		return fmt.Errorf("replay: %d of %d lines cannot be read, more than --max-bad-lines %s", r.Reading.Bad, r.Reading.Lines, c.MaxBadLines)
	case r.Requests == 0:
		return errors.New("replay: there is no request in what was recorded")
	case r.Matched == 0:
		return fmt.Errorf("replay: no rule of %s is for any of %d requests; hint: --domain, and the descriptors of --identity, as the rules have them", c.Rules, r.Requests)
	}
	return nil
}

func (c *replayCmd) write(w io.Writer, r *replay.Report) error {
	var b bytes.Buffer
	if c.HTML != "" {
		if err := r.WriteHTML(&b); err != nil {
			return err
		}
		if err := os.WriteFile(c.HTML, b.Bytes(), 0o644); err != nil {
			return err
		}
		b.Reset()
	}
	printed := r.WriteText
	if c.JSON {
		printed = r.WriteJSON
	}
	if err := printed(&b); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// options returns what the flags say.
func (c *replayCmd) options(ctx context.Context, std *stdio) (o replay.Options, err error) {
	o = replay.Options{Window: c.OutOfOrder, Partial: c.Partial, Top: c.Top, MaxBytes: int64(c.StoreMemory), Since: c.Since, Until: c.Until, WarmUp: c.WarmUp}
	switch {
	case c.OutOfOrder < 0 || c.OutOfOrder > replay.MaxWindow:
		return o, fmt.Errorf("--out-of-order %v; hint: from 0 to %v", c.OutOfOrder, replay.MaxWindow)
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
	accounts, err := c.tenants(&o)
	if err != nil {
		return o, err
	}
	kinds := 0
	for _, given := range []bool{len(c.Events) > 0, len(c.AccessLog) > 0, c.Kafka != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return o, errors.New("nothing to replay; hint: --events FILE, --kafka URL or --access-log FILE")
	case kinds > 1:
		return o, errors.New("--events, --kafka and --access-log: what several hold would count twice; hint: one of them")
	case len(c.AccessLog) > 0:
		o.Inputs, err = c.accessLogs(std, &o)
	default:
		o.Inputs, err = c.events(ctx, std, &o, accounts)
	}
	return o, err
}

// tenants reads what tenants may use, and returns their accounts.
func (c *replayCmd) tenants(o *replay.Options) (accounts []tenant.Account, err error) {
	o.Tenants, accounts, err = tenantFiles(c.Tiers, c.Accounts, time.Unix(0, 0).UTC())
	return accounts, err
}

// events returns files of events, or the partitions of a topic.
func (c *replayCmd) events(ctx context.Context, std *stdio, o *replay.Options, accounts []tenant.Account) ([]replay.Input, error) {
	if c.AuditHashKey != "" {
		h, err := keyname.ReadHasher(c.AuditHashKey)
		if err != nil {
			return nil, fmt.Errorf("--audit-hash-key: %w", err)
		}
		var subjects []descriptor.Entry
		for i := range accounts {
			subjects = append(subjects, accounts[i].Subject)
		}
		o.Values = replay.Unhide(h, subjects, o.Candidate, o.Current)
	}
	decoder := func() (replay.Decoder, error) { return replay.Events(o.Values), nil }
	if c.Kafka == "" {
		return c.inputs(std, c.Events, decoder)
	}
	if len(c.Files) > 0 {
		return nil, fmt.Errorf("%s: --kafka has no files; hint: --events", c.Files[0])
	}
	partitions, err := audit.Partitions(ctx, c.Kafka, c.Since)
	if err != nil {
		return nil, fmt.Errorf("--kafka: %w", err)
	}
	var list []replay.Input
	for i := range partitions {
		list = append(list, replay.Input{Name: partitions[i].Name(), Open: func() (io.ReadCloser, error) { return partitions[i].Open(ctx) }, Decoder: decoder})
	}
	return list, nil
}

// accessLogs returns files of access logs.
func (c *replayCmd) accessLogs(std *stdio, o *replay.Options) ([]replay.Input, error) {
	known := apikeys.Accounts{Snapshot: func() *tenant.Snapshot { return o.Tenants }}
	source, err := identityfile.Load(identityfile.Options{
		Path: c.Identity,
		Knows: func(from identityfile.KnownKeys) (is, unsure func(string) bool, err error) {
			switch {
			case from.File != "":
				list, err := apikeys.LoadList(from.File)
				if err != nil {
					return nil, nil, err
				}
				return list.Known, nil, nil
			case from.Accounts && o.Tenants != nil:
				return known.Known, nil, nil
			}
			return func(string) bool { return true }, nil, nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	domain, err := onlyDomain(o.Candidate, c.Domain)
	if err != nil && c.Format != replay.CSV { // its rows may name theirs
		return nil, err
	}
	access := &replay.Access{Domain: domain, Extractor: source.Extractor, Denied: c.DeniedStatus, NeedsAnswers: c.Current == ""}
	told := make(map[string]bool)
	access.OnUnread = func(columns []string) {
		if list := strings.Join(columns, ", "); !told[list] {
			told[list] = true
			fmt.Fprintf(std.err, "headgate: columns that are not read: %s\n", list)
		}
	}
	format := c.Format
	if format == "common" || format == "nginx" {
		format = replay.Combined
	}
	return c.inputs(std, c.AccessLog, func() (replay.Decoder, error) { return access.Decoder(format) })
}

// maxFiles bounds the inputs: each is looked into before the first line counts.
const maxFiles = 100_000

// inputs returns files.
func (c *replayCmd) inputs(std *stdio, first []string, decoder func() (replay.Decoder, error)) ([]replay.Input, error) {
	paths := slices.Concat(first, c.Files)
	if len(paths) > maxFiles {
		return nil, fmt.Errorf("%d files; hint: at most %d", len(paths), maxFiles)
	}
	var list []replay.Input
	for _, path := range paths {
		if path == "-" {
			list = append(list, replay.Input{Name: "<stdin>", Open: func() (io.ReadCloser, error) { return io.NopCloser(std.in), nil }, Decoder: decoder})
			continue
		}
		list = append(list, replay.Input{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }, Again: isRegular(path), Decoder: decoder})
	}
	return list, nil
}

// isRegular reports whether a file can be read more than once, as pipes cannot.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}
