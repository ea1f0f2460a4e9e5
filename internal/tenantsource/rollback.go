package tenantsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/switchboard"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
	"github.com/headgate/headgate/trial"
)

const (
	// maxRollBacks bounds the roll-backs that wait to be told to the database. A node
	// rolls a candidate back once.
	maxRollBacks = 1000
	// rollBackTimeout bounds one try to tell the database, retryMin and retryMax the
	// pause after one that failed, which doubles.
	rollBackTimeout    = 10 * time.Second
	retryMin, retryMax = time.Second, time.Minute
	// rollBackActor is who has switched, in the log of changes.
	rollBackActor = "headgate"
)

// RollBacks tell all nodes that one of them has taken candidate limits back.
type RollBacks struct {
	logger *slog.Logger
	queue  chan trial.Report
	// Database returns the database, nil while it has not been opened; nil itself
	// where there is none. Switches are kept there, unless Switches says where.
	Database func() *sqltenant.DB
	Switches Switches
}

// Switches is where switches are kept. Its errors are as sqltenant.DB has them.
type Switches interface {
	Document(ctx context.Context, kind sqltenant.Kind, name string) (sqltenant.Document, error)
	PutDocument(ctx context.Context, c sqltenant.DocumentChange) (sqltenant.Document, error)
}

// kept returns where switches are kept, nil where that is not open.
func (b *RollBacks) kept() Switches {
	if b.Switches != nil {
		return b.Switches
	}
	if db := b.Database(); db != nil {
		return db
	}
	return nil
}

// NewRollBacks returns RollBacks that are told to logger.
func NewRollBacks(logger *slog.Logger) *RollBacks {
	return &RollBacks{logger: logger, queue: make(chan trial.Report, maxRollBacks)}
}

// Tell notes a roll-back of this node. A decision waits for it, so that it waits for
// nothing.
func (b *RollBacks) Tell(r trial.Report) {
	select {
	case b.queue <- r:
	default:
		b.logger.Error("candidate limits are not enforced on this node any more, and others are not told; hint: headgate switch set candidate:RULE shadow", "rule", r.Rule)
	}
}

// Run tells the log, and where switches are kept, until ctx ends.
func (b *RollBacks) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-b.queue:
			b.logger.Error("candidate limits are not enforced any more: they denied too much", "rule", r.Rule, "limits", r.Limits, "candidate", r.Candidate,
				"requests", r.Decided, "added_denials", r.Added, "added_percent", fmt.Sprintf("%.3f", r.AddedPercent), "over", r.Over)
			if b.Database != nil || b.Switches != nil {
				b.switchOff(ctx, &r)
			}
		}
	}
}

// switchOff writes the switch that takes the candidate of a rule back everywhere, and
// tries until that has worked or ctx ends.
func (b *RollBacks) switchOff(ctx context.Context, r *trial.Report) {
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		err := b.write(ctx, r)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, sqltenant.ErrConflict), err == nil:
			return // another node was first, or an operator knows better
		}
		b.logger.Error("other nodes are not told yet that candidate limits were taken back", "rule", r.Rule, "error", err)
		if sleep.For(ctx, pause) != nil {
			return
		}
	}
}

var errNotOpen = errors.New("the database of tenants has not been opened yet")

// write puts the switch into the database, unless one is in force there.
func (b *RollBacks) write(ctx context.Context, r *trial.Report) error {
	db := b.kept()
	if db == nil {
		return errNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, rollBackTimeout)
	defer cancel()
	one := switches.Switch{
		Target: switches.Target{Candidate: r.Rule}, State: switches.Shadow,
		Reason: fmt.Sprintf("rolled back: %d of %d requests would not have been denied by %s", r.Added, r.Decided, r.Limits),
	}
	one.Reason = strings.ToValidUTF8(one.Reason[:min(len(one.Reason), switches.MaxReason)], "")
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	before, err := db.Document(ctx, sqltenant.SwitchDocument, one.Target.String())
	if err != nil {
		return err
	}
	now := time.Now()
	if there, err := switchboard.Read(&before); before.Version != 0 && err == nil && !switchboard.Over(&there, now) {
		return nil
	}
	_, err = db.PutDocument(ctx, sqltenant.DocumentChange{
		Kind: sqltenant.SwitchDocument, Name: one.Target.String(), Text: string(text),
		Actor: rollBackActor, Version: before.Version, At: now,
	})
	return err
}
