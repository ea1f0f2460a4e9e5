// Package rehearsal runs drills: it keeps the order of a drill where all nodes of a store
// find it, has a node take part in it, and gathers what the nodes report.
//
// A node hears of an order by the store that all share. Before it puts the fault there it
// opens a way of its own to that store, which no fault is of: by it the node goes on
// hearing whether the drill was ended, and reports. Where that way breaks as well the drill
// ends when its time is over, by the node's own clock.
package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/store"
)

// Line is a way to what nodes share: a register for the order, and a board for reports that
// is for nothing else.
type Line interface {
	store.Register
	store.Board
}

const (
	// register is the name of what the store keeps of the order.
	register = "drill"
	// reportTTL is how long what a node reports can be read.
	reportTTL = 24 * time.Hour
	// maxTries bounds how often a change is tried again because somebody else was first.
	maxTries = 20
)

// read returns the order that l keeps, whether it lasts or not, nil where there is none, and
// the version of the register.
func read(ctx context.Context, l Line) (*drill.Order, int64, error) {
	version, text, err := l.ReadRegister(ctx, register, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("read the order of a drill: %w", err)
	}
	if version == 0 {
		return nil, 0, nil
	}
	o, err := drill.ParseOrder(text)
	if err != nil {
		return nil, version, fmt.Errorf("read the order of a drill in the store: %w", err)
	}
	return o, version, nil
}

// begin orders o, unless another drill lasts at now. An order that cannot be read is one of
// another version of Headgate: it is replaced once nobody can go by it any more.
func begin(ctx context.Context, l Line, o *drill.Order, now time.Time) error {
	if err := o.Valid(); err != nil {
		return err
	}
	for range maxTries {
		last, version, err := read(ctx, l)
		if err != nil && version == 0 {
			return err
		}
		if last.UnderWay(now) {
			return fmt.Errorf("%w: %s, by %s, until %s", drill.ErrUnderWay, last.Fault, last.Actor, last.Until().UTC().Format(time.RFC3339))
		}
		done, err := replace(ctx, l, version, o, now)
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("%w: others order drills all the time", drill.ErrUnderWay)
}

// end notes in l that the drill of that id has ended, unless that is noted already. It
// reports whether it was this call.
func end(ctx context.Context, l Line, id string, e drill.Ending) (ended bool, err error) {
	for range maxTries {
		o, version, err := read(ctx, l)
		if err != nil || o == nil || o.ID != id || o.Ended != nil {
			return false, err
		}
		o.Ended = &e
		done, err := replace(ctx, l, version, o, e.At)
		if err != nil || done {
			return done, err
		}
	}
	return false, errors.New("end a drill: others change its order all the time")
}

// putBack writes o, which the store has lost, as one that has ended like that, so that those who
// wait for it and those who look at it later find what became of it. Where another node was
// first, or another drill has begun, nothing is written.
func putBack(ctx context.Context, l Line, o drill.Order, e drill.Ending) error {
	o.Ended = &e
	_, err := replace(ctx, l, 0, &o, e.At)
	return err
}

// replace writes o. It reports false where somebody else was first.
func replace(ctx context.Context, l Line, from int64, o *drill.Order, now time.Time) (bool, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	done, err := l.ReplaceRegister(ctx, register, from, max(now.UnixMicro(), from+1), text)
	if err != nil {
		return false, fmt.Errorf("write the order of a drill: %w", err)
	}
	return done, nil
}

// reports returns those that l has; what cannot be read is left out and told of.
func reports(ctx context.Context, l Line) ([]drill.Report, error) {
	notices, err := l.Notices(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what nodes report of a drill: %w", err)
	}
	list, bad := make([]drill.Report, 0, len(notices)), []error(nil)
	for _, text := range notices {
		r, err := drill.ParseReport(text)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		list = append(list, *r)
	}
	return list, errors.Join(bad...)
}
