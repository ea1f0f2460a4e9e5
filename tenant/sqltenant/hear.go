package sqltenant

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/internal/sleep"
)

// hear rings the bell for each notice of PostgreSQL, and after each reconnect, when
// some may have been missed. It does nothing with SQLite, whose one process rings
// by itself, and of a replica: a standby cannot be listened to.
func (d *DB) hear(ctx context.Context) {
	if !d.postgres() || d.replica != nil {
		return
	}
	for pause := retryMin; ctx.Err() == nil; pause = min(2*pause, retryMax) {
		if heard := d.hearOnce(ctx); heard {
			pause = retryMin
		}
		_ = sleep.For(ctx, pause)
	}
}

// hearOnce listens on a connection of its own until that breaks, and reports
// whether it ever worked.
func (d *DB) hearOnce(ctx context.Context) (worked bool) {
	config := d.listen.Copy()
	if err := d.freshen(ctx, config); err != nil {
		return false // every read says the same
	}
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = connection.Close(closing)
	}()
	if _, err := connection.Exec(ctx, "LISTEN "+channel); err != nil {
		return false
	}
	d.rowNotices.Add(1) // one may have been missed
	for {
		d.local.ring()
		// A notice within the poll, or a sign that the connection is alive.
		waiting, cancel := context.WithTimeout(ctx, pollEvery)
		notice, err := connection.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil && notice.Payload == ruleRowsNotice:
			d.rowNotices.Add(1)
		case ctx.Err() != nil:
			return true
		case errors.Is(err, context.DeadlineExceeded):
			ping, cancel := context.WithTimeout(ctx, connectTimeout)
			err = connection.Ping(ping)
			cancel()
		}
		if err != nil {
			return true
		}
	}
}

// bell wakes everyone who waits for a change. The zero value is not ready; see
// newBell.
type bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed by the next ring
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

// next returns a channel that is closed by the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}
