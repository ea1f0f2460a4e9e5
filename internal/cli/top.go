package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/view"
)

type topCmd struct {
	adminAddress `embed:""`
	Once         bool `env:"-" help:"Print one plain table and end; so it is without a terminal."`
	JSON         bool `name:"json" env:"-" help:"Print what there is to see as one JSON object and end."`
}

// Help implements kong.HelpProvider.
func (*topCmd) Help() string {
	return `Examples:

  headgate top --admin http://127.0.0.1:9090 --admin-token-file token.txt
      Show how this node is, its rules, the keys with the most requests, its stores and
      the other nodes, each second.

  headgate top --once
  headgate top --json | jq .overview.rates

Keys: q quits, tab and the arrows change the pane, s sorts, / filters, p pauses. A token
with the scope read sees hashes of keys, one with write sees the keys.`
}

// snapshotTimeout bounds the wait for what is printed once.
const snapshotTimeout = 15 * time.Second

// Run shows the node.
func (c *topCmd) Run(std *stdio) error {
	screen, ok := std.terminal()
	keyboard, typed := std.in.(*os.File)
	if c.Once || c.JSON || !ok || !typed || !term.IsTerminal(keyboard.Fd()) {
		return unanswered(c.once(std.out))
	}
	return unanswered(c.live(keyboard, screen))
}

// once prints what there is to see now.
func (c *topCmd) once(w io.Writer) error {
	s, err := c.snapshot(context.Background())
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(w).Encode(s)
	}
	_, err = io.WriteString(w, plain(s))
	return err
}

// snapshot asks for all that there is to see.
func (c *topCmd) snapshot(ctx context.Context) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	s := &snapshot{Overview: &view.Overview{}, Keys: &view.BothTopKeys{}, Fleet: &view.Fleet{}}
	for _, part := range []struct {
		path    string
		into    any
		missing func()
	}{
		{"overview", s.Overview, func() { s.Overview = nil }},
		{"keys?by=total&fleet=true", &s.Keys.Total, func() { s.Keys = nil }},
		{"keys?by=denied&fleet=true", &s.Keys.Denied, func() { s.Keys = nil }},
		{"fleet", s.Fleet, func() { s.Fleet = nil }},
	} {
		response, done, err := c.open(ctx, http.MethodGet, part.path, nil)
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(io.LimitReader(response.Body, maxAdminAnswer))
		done()
		switch {
		case err != nil:
			return nil, fmt.Errorf("ask the admin API: %w", withoutURL(err))
		case response.StatusCode == http.StatusNotFound && adminDetail(raw):
			part.missing()
		case response.StatusCode != http.StatusOK:
			return nil, adminProblem(response.StatusCode, raw)
		case json.Unmarshal(raw, part.into) != nil:
			return nil, errNoOverview
		}
	}
	return s, nil
}

var errNoOverview = errors.New("the admin API does not say how the node is; hint: does --admin name it?")

// adminDetail reports whether an answer is a problem of the admin API.
func adminDetail(raw []byte) bool {
	var p problems.Body
	return json.Unmarshal(raw, &p) == nil && p.Detail != "" && p.Type != problems.NoPath
}

// live shows the node on a terminal until somebody ends it.
func (c *topCmd) live(keyboard, terminal *os.File) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	first, err := c.snapshot(ctx) // what is wrong is told before the screen is taken
	if err != nil {
		return err
	}
	screen := &topScreen{state: topState{colour: colours()}}
	screen.state, _ = screen.state.update(shownMsg{*first})
	program := tea.NewProgram(screen, tea.WithContext(ctx), tea.WithInput(keyboard), tea.WithOutput(terminal))
	go func() {
		if err := c.watch(ctx, program.Send); err != nil {
			program.Send(failedMsg{err})
		}
	}()
	if _, err := program.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("draw on the terminal: %w; hint: --once prints a table", err)
	}
	return screen.err
}

// watch sends what the node shows until ctx ends.
func (c *topCmd) watch(ctx context.Context, send func(tea.Msg)) error {
	w := watching{from: &c.adminAddress, path: "live",
		event: func(e serverEvent) error {
			s, err := shownBy(e)
			if err == nil {
				send(shownMsg{s})
			}
			return err
		},
		ended: func(err error, pause time.Duration) {
			send(brokenMsg{againIn(err, pause)})
		},
	}
	return w.run(ctx)
}

// shownBy reads an event of the stream of a node.
func shownBy(e serverEvent) (s snapshot, err error) {
	switch e.name {
	case "overview":
		err = json.Unmarshal(e.data, &s.Overview)
	case "keys":
		err = json.Unmarshal(e.data, &s.Keys)
	case "fleet":
		err = json.Unmarshal(e.data, &s.Fleet)
	}
	if err != nil {
		return s, errNoOverview
	}
	return s, nil
}
