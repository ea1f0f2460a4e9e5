package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/tenant"
)

// recordedFlags are those of commands that go over what was recorded.
type recordedFlags struct {
	Events    []string `env:"-" sep:"none" placeholder:"FILE" help:"Audit events: files of --audit-files, also with gzip, '-' for standard input. May be repeated."`
	Kafka     string   `env:"-" placeholder:"URL" help:"Audit events of a topic, from --since on to where it ends now: the URL of --audit-kafka. It needs the right to read."`
	AccessLog []string `env:"-" sep:"none" placeholder:"FILE" help:"Access logs, also with gzip, '-' for standard input. May be repeated."`
	Files     []string `arg:"" optional:"" name:"file" help:"More files of the same kind."`

	Format     string        `env:"-" enum:"combined,common,nginx,envoy,csv" default:"combined" help:"Of access logs: combined (the default; common and nginx are the same), envoy for Envoy's default, csv with a header."`
	Domain     string        `env:"-" help:"The domain of requests of access logs. Default: the only one that the rules have."`
	OutOfOrder time.Duration `env:"-" default:"10s" help:"By how much lines of a file may be out of order. Default: ${default}."`
	Since      time.Time     `env:"-" placeholder:"TIME" help:"Leave out what was before, such as 2026-11-22T12:00:00Z."`
	Until      time.Time     `env:"-" placeholder:"TIME" help:"Leave out what was then or later."`

	AuditHashKey string `env:"-" placeholder:"FILE" help:"The key by which values in events are hashed (--audit-hash-key of the server), so that rules find those that they name."`
	Tiers        string `env:"-" placeholder:"FILE" help:"Tiers, for rules of tenants."`
	Accounts     string `env:"-" placeholder:"FILE" help:"Accounts as 'quota export' writes them, for rules of tenants."`
	ruleFlags    `embed:""`

	MaxBadLines string `env:"-" placeholder:"N or N%" default:"1%" help:"The exit code is 2 when more lines cannot be read. Default: ${default}."`
	Partial     bool   `env:"-" help:"Go on where events do not hold all that rules must know: samples, hashes that rules cannot be compared with, events of old versions."`
}

// allowance is a number of things, or a share of all.
type allowance struct {
	most    float64
	percent bool
}

func parseAllowance(flag, text string) (a allowance, err error) {
	number, percent := strings.CutSuffix(text, "%")
	a.percent = percent
	a.most, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	// A part of a thing is a share without its sign, which would allow nothing.
	if err != nil || !(a.most >= 0) || percent && a.most > 100 || !percent && a.most != math.Trunc(a.most) {
		return a, fmt.Errorf("%s: %q; hint: a whole number such as 10, or a share such as 0.1%%", flag, text)
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

// badLines returns how many lines may be bad.
func (f *recordedFlags) badLines() (allowance, error) {
	return parseAllowance("--max-bad-lines", f.MaxBadLines)
}

// readWell tells of lines that could not be read. It is an error when they are too many.
func (f *recordedFlags) readWell(std *stdio, r *replay.Reading, bad allowance) error {
	for _, t := range r.Troubles {
		printError(std.err, fmt.Errorf("%s:%d: %s", t.Input, t.Line, t.Error))
	}
	if more := r.Bad - int64(len(r.Troubles)); more > 0 {
		fmt.Fprintf(std.err, "headgate: and %d more lines that cannot be read\n", more)
	}
	if bad.exceeded(r.Bad, r.Lines) {
		return fmt.Errorf("%d of %d lines cannot be read, more than --max-bad-lines %s", r.Bad, r.Lines, f.MaxBadLines)
	}
	return nil
}

// answers say what is known of those of recorded requests.
type answers struct {
	// denied are the statuses of access logs that say that a limit has denied.
	denied []int
	// needed says that a source must tell answers.
	needed bool
}

// source fills in what is read, for the rules of o.
func (f *recordedFlags) source(ctx context.Context, std *stdio, o *replay.Options, a answers) (err error) {
	o.Window, o.Partial, o.Since, o.Until = f.OutOfOrder, f.Partial, f.Since, f.Until
	if f.OutOfOrder < 0 || f.OutOfOrder > replay.MaxWindow {
		return fmt.Errorf("--out-of-order %v; hint: from 0 to %v", f.OutOfOrder, replay.MaxWindow)
	}
	var accounts []tenant.Account
	if o.Tenants, accounts, err = tenantFiles(f.Tiers, f.Accounts, time.Unix(0, 0).UTC()); err != nil {
		return err
	}
	kinds := 0
	for _, given := range []bool{len(f.Events) > 0, len(f.AccessLog) > 0, f.Kafka != ""} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return errors.New("nothing to replay; hint: --events FILE, --kafka URL or --access-log FILE")
	case kinds > 1:
		return errors.New("--events, --kafka and --access-log: what several hold would count twice; hint: one of them")
	case len(f.AccessLog) > 0:
		o.Inputs, err = f.accessLogs(ctx, std, o, a)
	default:
		o.Inputs, err = f.events(ctx, std, o, accounts)
	}
	return err
}

// events returns files of events, or the partitions of a topic.
func (f *recordedFlags) events(ctx context.Context, std *stdio, o *replay.Options, accounts []tenant.Account) ([]replay.Input, error) {
	if f.AuditHashKey != "" {
		h, err := keyname.ReadHasher(f.AuditHashKey)
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
	if f.Kafka == "" {
		return f.inputs(ctx, std, f.Events, decoder)
	}
	if len(f.Files) > 0 {
		return nil, fmt.Errorf("%s: --kafka has no files; hint: --events", f.Files[0])
	}
	partitions, err := audit.Partitions(ctx, f.Kafka, f.Since)
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
func (f *recordedFlags) accessLogs(ctx context.Context, std *stdio, o *replay.Options, a answers) ([]replay.Input, error) {
	known := apikeys.Accounts{Snapshot: func() *tenant.Snapshot { return o.Tenants }}
	source, err := identityfile.Load(identityfile.Options{
		Path: f.Identity,
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
	domain, err := onlyDomain(o.Candidate, f.Domain)
	if err != nil && f.Format != replay.CSV { // its rows may name theirs
		return nil, err
	}
	access := &replay.Access{Domain: domain, Extractor: source.Extractor, Denied: a.denied, NeedsAnswers: a.needed}
	told := make(map[string]bool)
	access.OnUnread = func(columns []string) {
		if list := strings.Join(columns, ", "); !told[list] {
			told[list] = true
			fmt.Fprintf(std.err, "headgate: columns that are not read: %s\n", list)
		}
	}
	format := f.Format
	if format == "common" || format == "nginx" {
		format = replay.Combined
	}
	return f.inputs(ctx, std, f.AccessLog, func() (replay.Decoder, error) { return access.Decoder(format) })
}

// maxFiles bounds the inputs: each is looked into before the first line counts.
const maxFiles = 100_000

// inputs returns files. Those that can be read once, and so may have nothing to read for ever, end with ctx.
func (f *recordedFlags) inputs(ctx context.Context, std *stdio, first []string, decoder func() (replay.Decoder, error)) ([]replay.Input, error) {
	paths := slices.Concat(first, f.Files)
	if len(paths) > maxFiles {
		return nil, fmt.Errorf("%d files; hint: at most %d", len(paths), maxFiles)
	}
	var list []replay.Input
	for _, path := range paths {
		if path == "-" {
			list = append(list, replay.Input{Name: "<stdin>", Open: func() (io.ReadCloser, error) { return io.NopCloser(std.in), nil }, Decoder: decoder})
			continue
		}
		input := replay.Input{Name: path, Open: func() (io.ReadCloser, error) { return openRecorded(path) }, Again: isRegular(path), Decoder: decoder}
		if open := input.Open; !input.Again {
			input.Open = func() (io.ReadCloser, error) { return untilEnd(ctx, open), nil }
		}
		list = append(list, input)
	}
	return list, nil
}

// openRecorded opens a file. Of a pattern that the shell has left as it is, because no file
// fits it, the error says so: the first hour of a server is in a file that ends otherwise.
func openRecorded(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?[") {
		return nil, fmt.Errorf("%w; hint: no file fits this pattern. The file of events that a server still writes ends with .jsonl.open, and can be named too", err)
	}
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, errors.New("is a directory; hint: name the files in it, such as events-*.jsonl.gz")
	}
	return file, nil
}

// isRegular reports whether a file can be read more than once, as pipes cannot.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}
