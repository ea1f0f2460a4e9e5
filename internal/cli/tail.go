package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/headgate/headgate/internal/view"
)

type tailCmd struct {
	adminAddress `embed:""`
	Domain       string `env:"-" placeholder:"NAME" help:"Only decisions of this domain."`
	Rule         string `env:"-" placeholder:"ID" help:"Only decisions of this rule."`
	Outcome      string `env:"-" placeholder:"OUTCOME" help:"Only decisions with this outcome: over (whatever is not allowed), allowed, denied, shadow_denied, degraded_allowed, degraded_denied, unmatched or unknown_domain."`
	Key          string `env:"-" placeholder:"TEXT" help:"Only decisions whose key has this in it, or has this hash. A token with the scope read finds keys by their hash."`
	JSON         bool   `name:"json" env:"-" help:"Print each event as a line of JSON."`
}

// Help implements kong.HelpProvider.
func (*tailCmd) Help() string {
	return `Examples:

  headgate tail --admin http://127.0.0.1:9090 --admin-token-file token.txt
      Show what this node denies, and a sample of what it allows, as it happens.

  headgate tail --rule api.login --outcome over
  headgate tail --json --outcome denied | jq -r .key

What comes faster than it is read is dropped, and counted on standard error. When the node
goes away it is asked again until it is back; what it decided meanwhile is not shown.`
}

// Run shows events until it is interrupted, or nobody reads them.
func (c *tailCmd) Run(std *stdio) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a reader that has gone is an error of Write, and no trouble
	defer signal.Reset(syscall.SIGPIPE)
	t := tailing{out: std.out, err: std.err}
	t.show = t.line
	if file, ok := std.terminal(); ok && !c.JSON {
		t.out, t.colour = file, colours()
	}
	if c.JSON {
		t.show = t.json
	}
	w := watching{from: &c.adminAddress, path: c.path(), event: t.event, ended: t.ended}
	err := w.run(ctx)
	if t.dropped > 0 {
		fmt.Fprintf(std.err, "headgate: %d events were dropped in all\n", t.dropped)
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return unanswered(err)
}

// path is what is asked for.
func (c *tailCmd) path() string {
	query := url.Values{}
	for name, value := range map[string]string{"domain": c.Domain, "rule": c.Rule, "outcome": c.Outcome, "key": c.Key} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return "events/live?" + query.Encode()
}

// tailing prints a stream of events.
type tailing struct {
	out, err io.Writer
	colour   bool
	show     func(data []byte) error
	dropped  uint64
}

// event prints an event of the stream.
func (t *tailing) event(e serverEvent) error {
	switch e.name {
	case "decision":
		return t.show(e.data)
	case "dropped":
		var d struct {
			Dropped uint64 `json:"dropped"`
		}
		if err := json.Unmarshal(e.data, &d); err != nil {
			return errNoEvents
		}
		t.dropped += d.Dropped
		fmt.Fprintf(t.err, "headgate: %d events were dropped because they came faster than they were read\n", d.Dropped)
	}
	return nil
}

var errNoEvents = errors.New("the admin API does not say what was decided; hint: does --admin name it?")

// ended says that the stream has ended.
func (t *tailing) ended(err error, pause time.Duration) {
	fmt.Fprintf(t.err, "headgate: %s\n", againIn(err, pause))
}

// json prints an event as it came.
func (t *tailing) json(data []byte) error {
	_, err := t.out.Write(append(data, '\n'))
	return err
}

// line prints an event for people.
func (t *tailing) line(data []byte) error {
	var e view.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return errNoEvents
	}
	_, err := fmt.Fprintln(t.out, eventLine(&e, t.colour))
	return err
}

// eventLine is an event on one line.
func eventLine(e *view.Event, colour bool) string {
	paint := painter(colour)
	parts := []string{
		paint(dim, time.UnixMilli(e.TS).UTC().Format("15:04:05.000Z")),
		paint(outcomeColour(e.Outcome), fmt.Sprintf("%-16s", oneLine(e.Outcome))),
		ruleText(e), oneLine(e.Key),
	}
	if e.Limit > 0 || e.Used > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d", e.Used, e.Limit))
	}
	if e.Hits != 1 {
		parts = append(parts, fmt.Sprintf("hits %d", e.Hits))
	}
	if e.RetryAfterMS > 0 {
		parts = append(parts, "retry after "+(time.Duration(e.RetryAfterMS)*time.Millisecond).String())
	}
	for _, field := range []struct{ name, value string }{{"degraded", e.Degraded}, {"tier", e.Tier}, {"from", e.ClientIP}, {"trace", e.TraceID}} {
		if field.value != "" {
			parts = append(parts, field.name+" "+oneLine(field.value))
		}
	}
	return strings.Join(parts, "  ")
}

// ruleText names the rule of an event, or its domain where there is none.
func ruleText(e *view.Event) string {
	switch {
	case e.Rule == "":
		return oneLine(e.Domain)
	case e.LimitName != "":
		return oneLine(e.Rule + "/" + e.LimitName)
	}
	return oneLine(e.Rule)
}

// raw returns what w writes to.
func raw(w io.Writer) io.Writer {
	if p, ok := w.(printable); ok {
		return p.w
	}
	return w
}

// terminal returns the terminal that standard output is, if it is one. What is written
// there is obeyed: texts of others go through oneLine before.
func (s *stdio) terminal() (*os.File, bool) {
	file, ok := raw(s.out).(*os.File)
	return file, ok && term.IsTerminal(file.Fd())
}

// colours reports whether a terminal should be shown colours.
func colours() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Colours of text on terminals, as SGR has them.
const (
	dim, bold, reverse         = "2", "1", "7"
	red, green, yellow, violet = "31", "32", "33", "35"
)

// painter returns what colours text, or leaves it as it is.
func painter(colour bool) func(sgr, text string) string {
	return func(sgr, text string) string {
		if !colour || sgr == "" || text == "" {
			return text
		}
		return "\x1b[" + sgr + "m" + text + "\x1b[0m"
	}
}

// outcomeColour is that of an outcome.
func outcomeColour(outcome string) string {
	switch {
	case strings.HasPrefix(outcome, "degraded"):
		return yellow
	case outcome == "denied":
		return red
	case outcome == "allowed":
		return green
	case outcome == "shadow_denied":
		return violet
	}
	return ""
}
