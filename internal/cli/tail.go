package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/headgate/headgate/internal/view"
)

type tailCmd struct {
	nodeAddresses `embed:""`
	Domain        string `env:"-" placeholder:"NAME" help:"Only decisions of this domain."`
	Rule          string `env:"-" placeholder:"ID" help:"Only decisions of this rule."`
	Outcome       string `env:"-" placeholder:"OUTCOME" help:"Only decisions with this outcome: over (whatever is not allowed), allowed, denied, shadow_denied, degraded_allowed, degraded_denied, unmatched or unknown_domain."`
	Key           string `env:"-" placeholder:"TEXT" help:"Only decisions whose key has this in it, or has this hash. A token with the scope read finds keys by their hash."`
	JSON          bool   `name:"json" env:"-" help:"Print each event as a line of JSON."`
}

// Help implements kong.HelpProvider.
func (*tailCmd) Help() string {
	return `Examples:

  headgate tail --admin http://127.0.0.1:9090 --admin-token-file token.txt
      Show what this node denies, and a sample of what it allows, as it happens.

  headgate tail --rule api.login --outcome over
  headgate tail --json --outcome denied | jq -r .key
  headgate tail --admin https://headgate-nodes:9090 --each
  headgate tail --admin https://gate-1:9090 https://gate-2:9090 https://gate-3:9090
      Show what all nodes decide, each line with the name of its node.

What comes faster than it is read is dropped, and counted on standard error. When the node
goes away it is asked again until it is back; what it decided meanwhile is not shown.`
}

// Run shows events until it is interrupted, or nobody reads them.
func (c *tailCmd) Run(std *stdio) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a reader that has gone is an error of Write, and no trouble
	defer signal.Reset(syscall.SIGPIPE)
	nodes, err := c.all(ctx)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	t := &tailing{out: std.out, err: std.err, several: len(nodes) > 1}
	t.show = t.line
	if file, ok := std.terminal(); ok && !c.JSON {
		t.out, t.colour = file, colours()
	}
	if c.JSON {
		t.show = t.json
	}
	err = t.follow(ctx, nodes, c.path())
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

// tailing prints the events of one node, or of several.
type tailing struct {
	out, err io.Writer
	colour   bool
	// several says that there are several nodes, so that lines name theirs.
	several bool
	show    func(data []byte) error

	mu      sync.Mutex // of what follows, and while something is written
	seen    lately
	dropped uint64
	broken  error // why nothing can be written any more
}

// follow prints events of all nodes until ctx ends, nothing can be written, or none of them
// is to be asked any more. One of several nodes that does not answer is asked again until it does.
func (t *tailing) follow(ctx context.Context, nodes []adminAddress, path string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var telling, watched sync.WaitGroup
	telling.Go(func() { t.tellOthers(ctx, nodes) })
	ends := make([]error, len(nodes))
	for i := range nodes {
		name := ""
		if t.several {
			name = nodes[i].label() + ": "
		}
		watched.Go(func() {
			w := watching{
				from: &nodes[i], path: path, patient: t.several, event: t.event,
				ended: func(err error, pause time.Duration) { t.say(name + againIn(err, pause)) },
			}
			if ends[i] = w.run(ctx); ends[i] == nil {
				return
			}
			switch {
			case t.unwritable() != nil:
				stop()
			case t.several: // the others go on
				t.say(name + whatIsWrong(ends[i]))
			}
		})
	}
	watched.Wait()
	stop()
	telling.Wait()
	if err := t.unwritable(); err != nil {
		return err
	}
	if slices.Contains(ends, nil) {
		return nil
	}
	return ends[0] // the others have been told
}

// tellOthers says that there are nodes beside those that are followed, as the first of
// them knows.
func (t *tailing) tellOthers(ctx context.Context, nodes []adminAddress) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	raw, err := nodes[0].tryAsk(ctx, http.MethodGet, "fleet", nil)
	var fleet view.Fleet
	if err != nil || json.Unmarshal(raw, &fleet) != nil || fleet.Live <= len(nodes) {
		return
	}
	t.say(fmt.Sprintf("%d nodes are live, and %d followed\nheadgate: hint: name the others too, or --each for all that a name stands for", fleet.Live, len(nodes)))
}

// say tells on standard error.
func (t *tailing) say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.err, "headgate: %s\n", text)
}

// unwritable returns why nothing can be written any more, nil while that can be.
func (t *tailing) unwritable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// event prints an event of a stream.
func (t *tailing) event(e serverEvent) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.name {
	case "decision":
		if t.several && !t.seen.note(e.id) { // two addresses lead to one node
			return nil
		}
		err := t.show(e.data)
		if err != nil && !errors.Is(err, errNoEvents) {
			t.broken = err
		}
		return err
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
	line := eventLine(&e, t.colour)
	if t.several {
		line = fmt.Sprintf("%-*s  %s", nodeWidth, oneLine(e.Node), line)
	}
	_, err := fmt.Fprintln(t.out, line)
	return err
}

// nodeWidth is how wide the name of a node is at least, so that most lines are in columns.
const nodeWidth = 12

// maxLately bounds the events by whose ids others are known to be the same, and maxEventID such
// an id, in bytes: those of Headgate have 36.
const maxLately, maxEventID = 4096, 64

// lately remembers the latest ids. The zero value knows none.
type lately struct {
	known map[string]bool
	ids   []string // a ring, once it is full
	next  int
}

// note remembers an id, and reports whether it is new; "" always is, and one that is too long to
// be remembered.
func (l *lately) note(id string) bool {
	if id == "" || len(id) > maxEventID {
		return true
	}
	if l.known[id] {
		return false
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[id] = true
	if len(l.ids) < maxLately {
		l.ids = append(l.ids, id)
		return true
	}
	delete(l.known, l.ids[l.next])
	l.ids[l.next] = id
	l.next = (l.next + 1) % maxLately
	return true
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
	for _, field := range []struct{ name, value string }{{"role", e.Role}, {"degraded", e.Degraded}, {"tier", e.Tier}, {"from", e.ClientIP}, {"trace", e.TraceID}} {
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
