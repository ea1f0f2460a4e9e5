package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/sleep"
)

type drillCmd struct {
	StoreDown    drillStoreDownCmd `cmd:"" name:"store-down" help:"Have connections to a store, or to all of them, be refused."`
	StoreSlow    drillStoreSlowCmd `cmd:"" name:"store-slow" help:"Have each exchange with a store, or with all of them, take longer."`
	ShardDown    drillShardDownCmd `cmd:"" name:"shard-down" help:"Have connections to one server of a store be refused."`
	DatabaseDown drillDatabaseCmd  `cmd:"" name:"database-down" help:"Have connections to the database of tenants be refused (PostgreSQL)."`
	BrokerDown   drillBrokerCmd    `cmd:"" name:"broker-down" help:"Have connections to the brokers that events go to be refused."`
	RegionCut    drillRegionCutCmd `cmd:"" name:"region-cut" help:"Have connections to homes of leased rules, and to the stores of other regions, be refused."`
	ClockSkew    drillClockCmd     `cmd:"" name:"clock-skew" help:"Have the wall clock by which nodes decide be ahead or behind."`
	Stop         drillStopCmd      `cmd:"" help:"End the drill that lasts."`
	Show         drillShowCmd      `cmd:"" help:"Show the drill that lasts, or the last one, with what the nodes have seen."`
}

// drillAbout is what the help of every fault says.
const drillAbout = `

Every node that decides puts the fault at its own door to what it leans on, and takes it away when
the time is over, by its own clock. Nothing else is touched. It ends before that when a share of
the requests of a node are errors: such as are turned away because the store could not decide
(failure mode closed), or because a region that is cut off has used its reserve, or end by a bug.
The command waits for the end, and prints what the nodes have seen; an interrupt ends the drill.
There is one drill at a time.

The exit code is 0; 1 when the drill ended because of errors, when the store has lost its order, and
when no node took part, such as for a store that is misspelt: then it is ended after ten seconds;
and 2 when it was not begun.`

// drillFlags are those of every fault.
type drillFlags struct {
	adminAddress `embed:""`
	For          time.Duration `env:"-" default:"5m" help:"How long it lasts, from 1s to 1h. Default ${default}."`
	AbortAbove   string        `env:"-" default:"1%" placeholder:"SHARE" help:"End it when more of a node's requests than this are errors, within 10 s and of 20 at least; 100% is never. Default ${default}."`
	Reason       string        `env:"-" placeholder:"TEXT" help:"Why, for the people who see it."`
	Detach       bool          `env:"-" help:"Do not wait for the end."`
	JSON         bool          `name:"json" env:"-" help:"Print the report as JSON."`
}

type storeFlag struct {
	Store string `name:"of-store" env:"-" placeholder:"NAME" help:"Only this store: store, per_second, or one of --stores. Default: all."`
}

type drillStoreDownCmd struct {
	drillFlags `embed:""`
	storeFlag  `embed:""`
}

// Help implements kong.HelpProvider.
func (*drillStoreDownCmd) Help() string {
	return `Examples:

  headgate drill store-down --admin https://admin:9090 --admin-token-file token --for 2m --reason 'rehearsal of May'
  headgate drill store-down --of-store orders --abort-above 5%` + drillAbout
}

// Run has the nodes rehearse it.
func (c *drillStoreDownCmd) Run(std *stdio) error {
	return c.rehearse(std, adminapi.DrillBody{Fault: drill.StoreDown, Store: c.Store})
}

type drillStoreSlowCmd struct {
	drillFlags `embed:""`
	storeFlag  `embed:""`
	Delay      time.Duration `env:"-" default:"50ms" help:"How much longer, up to 10s. Default ${default}."`
}

// Help implements kong.HelpProvider.
func (*drillStoreSlowCmd) Help() string {
	return `Example:

  headgate drill store-slow --delay 15ms --for 1m

Each exchange waits for that long before it is sent, side by side with others. One that is given
up meanwhile is not sent: a real store that is slow may do it later.` + drillAbout
}

// Run has the nodes rehearse it.
func (c *drillStoreSlowCmd) Run(std *stdio) error {
	if c.Delay < time.Millisecond || c.Delay > drill.MaxDelay {
		return &codeError{exitUsage, fmt.Errorf("--delay %v; hint: from 1ms to %v", c.Delay, drill.MaxDelay)}
	}
	return c.rehearse(std, adminapi.DrillBody{Fault: drill.StoreSlow, Store: c.Store, DelayMS: new(c.Delay.Milliseconds())})
}

type drillShardDownCmd struct {
	drillFlags `embed:""`
	storeFlag  `embed:""`
	Shard      string `arg:"" placeholder:"HOST:PORT" help:"The server, as 'headgate top' shows it."`
}

// Help implements kong.HelpProvider.
func (*drillShardDownCmd) Help() string {
	return `Example:

  headgate drill shard-down 10.0.0.7:6379 --for 1m

A replica that would take over is another server, which is not cut; nothing has it take over,
because the shard itself is well.` + drillAbout
}

// Run has the nodes rehearse it.
func (c *drillShardDownCmd) Run(std *stdio) error {
	return c.rehearse(std, adminapi.DrillBody{Fault: drill.ShardDown, Store: c.Store, Shard: c.Shard})
}

type drillDatabaseCmd struct {
	drillFlags `embed:""`
}

// Help implements kong.HelpProvider.
func (*drillDatabaseCmd) Help() string {
	return `Example:

  headgate drill database-down --for 10m

Decisions go on by what was read last. Nodes that follow snapshots of an admin process have no
connection to the database, and take no part; nor do those with SQLite.` + drillAbout
}

// Run has the nodes rehearse it.
func (c *drillDatabaseCmd) Run(std *stdio) error {
	return c.rehearse(std, adminapi.DrillBody{Fault: drill.DatabaseDown})
}

type drillBrokerCmd struct {
	drillFlags `embed:""`
}

// Help implements kong.HelpProvider.
func (*drillBrokerCmd) Help() string {
	return `Example:

  headgate drill broker-down --for 20s

Events wait, and are lost after the timeout of --audit-kafka (30 s): a longer drill loses some, and
counts them.` + drillAbout
}

// Run has the nodes rehearse it.
func (c *drillBrokerCmd) Run(std *stdio) error {
	return c.rehearse(std, adminapi.DrillBody{Fault: drill.BrokerDown})
}

type drillRegionCutCmd struct {
	drillFlags `embed:""`
	storeFlag  `embed:""`
}

// Help implements kong.HelpProvider.
func (*drillRegionCutCmd) Help() string {
	return `Example:

  headgate drill region-cut --for 5m

Every node of the fleet that shares its --store with the admin process is cut from the homes:
so it is one region that is cut, with its own store, and the others go on.` + drillAbout
}

// Run has the nodes rehearse it.
func (c *drillRegionCutCmd) Run(std *stdio) error {
	return c.rehearse(std, adminapi.DrillBody{Fault: drill.RegionCut, Store: c.Store})
}

type drillClockCmd struct {
	drillFlags `embed:""`
	By         time.Duration `env:"-" default:"30s" help:"How far ahead, such as 2m; -2m is behind. Default ${default}."`
	Node       string        `name:"of-node" env:"-" placeholder:"NAME" help:"Only this node, as 'headgate top' names it. Default: all."`
}

// Help implements kong.HelpProvider.
func (*drillClockCmd) Help() string {
	return `Examples:

  headgate drill clock-skew --by 2m --of-node gate-2 --for 1m
  headgate drill clock-skew --by=-24h

Limits go by the clock of Redis, or by one that never steps, and hold. What goes by the wall clock
of a node begins and ends early or late: rules and overrides with dates, ends of switches, tokens of
clients, windows in memcached and fixed windows that regions share, and the times of day that
clients are told. Leases are dropped and asked for anew. Events, logins and changes keep the true
time.` + drillAbout
}

// Run has the nodes rehearse it.
func (c *drillClockCmd) Run(std *stdio) error {
	if by := c.By.Abs(); by < time.Millisecond || by > drill.MaxSkew {
		return &codeError{exitUsage, fmt.Errorf("--by %v; hint: from 1ms to %v, negative for behind", c.By, drill.MaxSkew)}
	}
	return c.rehearse(std, adminapi.DrillBody{Fault: drill.ClockSkew, SkewMS: new(c.By.Milliseconds()), Node: c.Node})
}

// parseShare reads a share, such as 1% or 0.01. Who means 1% may write 1: it is not taken for
// everything, because a drill that is never aborted has to be asked for by 100%.
func parseShare(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(digits, 64)
	if percent {
		n /= 100
	}
	if err != nil || !(n >= 0 && n <= 1) || !percent && n == 1 {
		return 0, fmt.Errorf("--abort-above %.40q is no share; hint: such as 1%%, from 0%% to 100%%", text)
	}
	return n, nil
}

// rehearse begins a drill, waits for its end and prints what was seen.
func (c *drillFlags) rehearse(std *stdio, asked adminapi.DrillBody) error {
	abortAbove, err := parseShare(c.AbortAbove)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	if c.For < drill.MinLasts || c.For > drill.MaxLasts {
		return &codeError{exitUsage, fmt.Errorf("--for %v; hint: from %v to %v", c.For, drill.MinLasts, drill.MaxLasts)}
	}
	asked.LastsMS, asked.AbortAbove, asked.Reason = new(c.For.Milliseconds()), &abortAbove, c.Reason
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	w, err := c.askDrill(ctx, http.MethodPost, asked)
	if err != nil {
		return unanswered(asUsage(err))
	}
	if c.Detach {
		return printDrill(std, w, c.JSON)
	}
	fmt.Fprintf(std.err, "the drill has begun: %s until %s; an interrupt ends it\n", asked.Fault, w.Order.Until().Format(time.RFC3339))
	if w, err = c.await(ctx, std, w.Order.ID); err != nil {
		return unanswered(err)
	}
	if err := printDrill(std, w, c.JSON); err != nil {
		return err
	}
	return unfinished(&w)
}

// unfinished is the error of a drill that did not go through; nil where its time was over, or an
// operator has ended it.
func unfinished(w *drill.Whole) error {
	switch e := w.Order.Ended; {
	case e != nil && e.Why == drill.Lost:
		return &codeError{exitNo, errors.New("the store has lost the order of the drill, so each node has ended it; hint: was the store emptied?")}
	case w.Nobody():
		return &codeError{exitNo, errors.New("no node took part in the drill; hint: the report has a reason for each, such as a name that is misspelt")}
	case e != nil && e.Why == drill.Aborted:
		return &codeError{exitNo, fmt.Errorf("the drill was ended by %s: %s", e.By, e.Detail)}
	}
	return nil
}

// asUsage makes an error one of a drill that was not begun.
func asUsage(err error) error {
	if coded, ok := errors.AsType[*codeError](err); ok {
		return &codeError{exitUsage, coded.err}
	}
	return err
}

const (
	// askDrillEvery is how often it is looked at whether a drill is over.
	askDrillEvery = time.Second
	// drillAnswer bounds the wait for an answer, of which askDrillTries may be missing in a row.
	drillAnswer   = 15 * time.Second
	askDrillTries = 5
)

// await waits until the drill is over on all nodes that take part. Where ctx ends, or nobody
// takes part, it has the drill end.
func (c *drillFlags) await(ctx context.Context, std *stdio, id string) (drill.Whole, error) {
	now := time.Now()
	wait := drillWait{id: id, began: now, known: now}
	for missing := 0; ; {
		if sleep.For(ctx, askDrillEvery) != nil && ctx.Err() != nil {
			fmt.Fprintln(std.err, "ending the drill")
			ctx = context.Background() // another interrupt ends the command
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			c.stop(ctx, std)
		}
		w, err := c.askDrill(ctx, http.MethodGet, nil)
		if missing++; err != nil && missing < askDrillTries {
			continue
		}
		if err != nil {
			return w, err
		}
		missing = 0
		switch wait.next(&w, time.Now()) {
		case drillDone:
			return w, nil
		case drillGone:
			return w, &codeError{exitNo, errors.New("the drill is gone from the store, and no node has put it back: a node that hears so ends it within two seconds, one that does not when its time is over; hint: was the store emptied?")}
		case drillOfNobody:
			fmt.Fprintln(std.err, "no node takes part: ending the drill")
			c.stop(ctx, std)
		}
	}
}

// stop has the drill end.
func (c *drillFlags) stop(ctx context.Context, std *stdio) {
	if _, err := c.askDrill(ctx, http.MethodDelete, nil); err != nil {
		fmt.Fprintln(std.err, "it is not ended:", err)
	}
}

// askDrill asks the admin API about the drill. Of no answer the drill is empty.
func (f *adminAddress) askDrill(ctx context.Context, method string, body any) (w drill.Whole, err error) {
	bounded, cancel := context.WithTimeout(ctx, drillAnswer)
	defer cancel()
	raw, err := f.tryAsk(bounded, method, "drill", body)
	if err != nil || len(raw) == 0 {
		return w, err
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return w, errors.New("the admin API does not say how the drill is; hint: does --admin name it?")
	}
	return w, nil
}

type drillStopCmd struct {
	adminAddress `embed:""`
}

// Help implements kong.HelpProvider.
func (*drillStopCmd) Help() string {
	return `Example:

  headgate drill stop

Every node takes the fault away within two seconds. The exit code is 1 when no drill is under way.`
}

// Run ends the drill that lasts.
func (c *drillStopCmd) Run(std *stdio) error {
	if _, err := c.askDrill(context.Background(), http.MethodDelete, nil); err != nil {
		return unanswered(err)
	}
	_, err := fmt.Fprintln(std.out, "the drill is ended; headgate drill show has what was seen")
	return err
}

type drillShowCmd struct {
	adminAddress `embed:""`
	JSON         bool `name:"json" env:"-" help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*drillShowCmd) Help() string {
	return `Example:

  headgate drill show

What nodes have seen is kept for a day, or until the next drill. The exit code is 1 when the store
knows of none: a drill that it has lost is known where a node took part in it.`
}

// Run shows a drill.
func (c *drillShowCmd) Run(std *stdio) error {
	w, err := c.askDrill(context.Background(), http.MethodGet, nil)
	if err != nil {
		return unanswered(err)
	}
	if w.Order == nil && !c.JSON {
		return &codeError{exitNo, errors.New("the store knows of no drill")}
	}
	return printDrill(std, w, c.JSON)
}
