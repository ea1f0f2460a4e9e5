package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"
	"golang.org/x/sync/errgroup"

	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
)

type topCmd struct {
	nodeAddresses `embed:""`
	Once          bool `env:"-" help:"Print one plain table and end; so it is without a terminal."`
	JSON          bool `name:"json" env:"-" help:"Print what there is to see as one JSON object and end."`
}

// Help implements kong.HelpProvider.
func (*topCmd) Help() string {
	return `Examples:

  headgate top --admin http://127.0.0.1:9090 --admin-token-file token.txt
      Show how this node is, its rules, the keys with the most requests, its stores and
      the other nodes, each second.

  headgate top --admin https://headgate-nodes:9090 --each
  headgate top --admin https://gate-1:9090 https://gate-2:9090
      Show several nodes as one: what they decide adds up.

  headgate top --once
  headgate top --json | jq .overview.rates

Keys: q quits, tab, left and right change the pane, up and down choose a row, enter explains
it, s sorts, / filters, p pauses. A token with the scope read sees hashes of keys, one with
write sees the keys.`
}

// snapshotTimeout bounds the wait for what is printed once.
const snapshotTimeout = 15 * time.Second

// Run shows the nodes.
func (c *topCmd) Run(std *stdio) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	list, err := c.all(ctx)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	nodes := watchedNodes(list)
	screen, ok := std.terminal()
	keyboard, typed := std.in.(*os.File)
	if c.Once || c.JSON || !ok || !typed || !term.IsTerminal(keyboard.Fd()) {
		return unanswered(c.once(ctx, nodes, std.out))
	}
	return unanswered(nodes.live(ctx, keyboard, screen))
}

// once prints what there is to see now.
func (c *topCmd) once(ctx context.Context, nodes watchedNodes, w io.Writer) error {
	list, err := nodes.snapshots(ctx)
	if err != nil {
		return err
	}
	s := merged(list)
	if c.JSON {
		return json.NewEncoder(w).Encode(s)
	}
	_, err = io.WriteString(w, plain(&s))
	return err
}

// watchedNodes are the nodes that are shown as one.
type watchedNodes []adminAddress

// maxAsked bounds the nodes that are asked at one time.
const maxAsked = 16

// snapshots asks all nodes for all that there is to see. Of several nodes one that does not answer
// shows nothing but a note; the error is that of a node where none answers.
func (w watchedNodes) snapshots(ctx context.Context) ([]snapshot, error) {
	list, wrong := make([]snapshot, len(w)), make([]error, len(w))
	var asking errgroup.Group
	asking.SetLimit(maxAsked)
	for i := range w {
		asking.Go(func() error {
			s, err := w[i].snapshot(ctx)
			if err != nil {
				list[i].Notes, wrong[i] = []string{w[i].label() + ": " + whatIsWrong(err)}, err
				return nil
			}
			list[i] = *s
			return nil
		})
	}
	_ = asking.Wait() // what is wrong with a node is noted
	if !slices.Contains(wrong, nil) {
		return nil, wrong[0]
	}
	return list, nil
}

// snapshot asks for all that there is to see of a node.
func (f *adminAddress) snapshot(ctx context.Context) (*snapshot, error) {
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
		response, raw, err := f.fetch(ctx, http.MethodGet, part.path, http.Header{}, nil)
		switch {
		case err != nil:
			return nil, err
		case response.StatusCode == http.StatusNotFound && adminDetail(raw):
			part.missing()
		case response.StatusCode != http.StatusOK:
			return nil, adminProblem(response.StatusCode, raw)
		case json.Unmarshal(raw, part.into) != nil:
			return nil, errNoOverview
		}
	}
	s.Switches = f.switches(ctx)
	return s, nil
}

// switches asks for the switches in force; nil where they cannot be told, as while the store or the
// database that keeps them is away.
func (f *adminAddress) switches(ctx context.Context) []switched {
	raw, err := f.tryAsk(ctx, http.MethodGet, "switches", nil)
	if err != nil {
		return nil
	}
	list, err := switchedBy(raw)
	if err != nil {
		return nil
	}
	return list
}

var errNoOverview = errors.New("the admin API does not say how the node is; hint: does --admin name it?")

// adminDetail reports whether an answer is a problem of the admin API.
func adminDetail(raw []byte) bool {
	var p problems.Body
	return json.Unmarshal(raw, &p) == nil && p.Detail != "" && p.Type != problems.NoPath
}

// live shows the nodes on a terminal until somebody ends it.
func (w watchedNodes) live(ctx context.Context, keyboard, terminal *os.File) error {
	first, err := w.snapshots(ctx) // what is wrong is told before the screen is taken
	if err != nil {
		return err
	}
	asks := explainer{w}
	screen := &topScreen{state: topState{colour: colours()}, explain: func(of subject, s *snapshot) []string { return asks.lines(ctx, of, s) }}
	screen.state, _ = screen.state.update(shownMsg{merged(first)})
	program := tea.NewProgram(screen, tea.WithContext(ctx), tea.WithInput(keyboard), tea.WithOutput(terminal))
	go func() {
		if err := w.watch(ctx, first, program.Send); err != nil {
			program.Send(failedMsg{err})
		}
	}()
	if _, err := program.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("draw on the terminal: %w; hint: --once prints a table", err)
	}
	return screen.err
}

// switchesEvery is how often nodes are asked what is switched.
const switchesEvery = 5 * time.Second

// watch sends what the nodes show, which have shown first before, until ctx ends or none of them
// is to be asked any more.
func (w watchedNodes) watch(ctx context.Context, first []snapshot, send func(tea.Msg)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watched, beside sync.WaitGroup
	sum := &watchedSum{nodes: first, send: send}
	ends := make([]error, len(w))
	for i := range w {
		watched.Go(func() { ends[i] = w[i].watch(ctx, i, sum) })
	}
	beside.Go(func() { w.watchSwitches(ctx, sum) })
	if len(w) > 1 {
		beside.Go(func() { sum.run(ctx) })
	}
	watched.Wait()
	stop()
	beside.Wait()
	return errors.Join(ends...)
}

// watch adds what a node shows to sum, as the one of that number.
func (f *adminAddress) watch(ctx context.Context, number int, sum *watchedSum) error {
	w := watching{from: f, path: "live", patient: sum.several(),
		event: func(e serverEvent) error {
			s, err := shownBy(e)
			if err == nil {
				sum.shows(number, &s)
			}
			return err
		},
		ended: func(err error, pause time.Duration) { sum.breaks(number, f.label(), againIn(err, pause)) },
	}
	err := w.run(ctx)
	if err != nil && sum.several() {
		sum.breaks(number, f.label(), whatIsWrong(err))
	}
	return err
}

// watchSwitches asks for the switches in force until ctx ends: the first node that tells them.
func (w watchedNodes) watchSwitches(ctx context.Context, sum *watchedSum) {
	for range sleep.Every(ctx, switchesEvery) {
		for i := range w {
			if list := w[i].switches(ctx); list != nil {
				sum.shows(0, &snapshot{Switches: list})
				break
			}
		}
	}
}

// watchedSum is what nodes show, each by its number. That of one node is sent as it comes, that of
// several once in a second.
type watchedSum struct {
	send func(tea.Msg)

	mu      sync.Mutex
	nodes   []snapshot
	changed bool
}

func (s *watchedSum) several() bool { return len(s.nodes) > 1 }

// shows takes what a node shows; the rest of it stays as it was.
func (s *watchedSum) shows(number int, n *snapshot) {
	if !s.several() {
		s.send(shownMsg{*n})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = true
	of := &s.nodes[number]
	of.Overview, of.Keys, of.Fleet = cmp.Or(n.Overview, of.Overview), cmp.Or(n.Keys, of.Keys), cmp.Or(n.Fleet, of.Fleet)
	if n.Switches != nil {
		of.Switches = n.Switches
		return
	}
	of.Notes = nil
}

// breaks takes that a node does not answer: what it has shown does not count any more.
func (s *watchedSum) breaks(number int, name, why string) {
	if !s.several() {
		s.send(brokenMsg{why})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = true
	s.nodes[number] = snapshot{Notes: []string{name + ": " + why}, Switches: s.nodes[number].Switches}
}

// run sends the sum until ctx ends.
func (s *watchedSum) run(ctx context.Context) {
	for range sleep.Every(ctx, time.Second) {
		if sum, changed := s.take(); changed {
			s.send(shownMsg{sum})
		}
	}
}

// take returns the sum, and whether it has changed.
func (s *watchedSum) take() (snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed {
		return snapshot{}, false
	}
	s.changed = false
	return merged(s.nodes), true
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
