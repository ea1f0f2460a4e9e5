package app

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/headgate/headgate/internal/identityfile"
)

// who loads what tells who asks. Before anything is served the keys of tokens are
// read once, so that the first tokens are good; then they are kept fresh.
func (p *process) who(o identityfile.Options) (*identityfile.Source, error) {
	told := &keyReporter{logger: p.logger}
	o.OnRefresh, o.Knows = told.report, p.knows
	source, err := identityfile.Load(o)
	if err != nil {
		return nil, err
	}
	p.before = append(p.before, func(ctx context.Context) {
		// Without keys it is served all the same: most requests need none.
		if err := source.Refresh(ctx); err != nil && ctx.Err() == nil {
			told.report(err)
		}
	})
	p.tasks = append(p.tasks, source.Run)
	return source, nil
}

// keyReporter tells the log when the keys of tokens cannot be read, and when they can
// again. The key set waits longer from failure to failure, so the lines are few.
type keyReporter struct {
	logger *slog.Logger
	failed atomic.Bool
}

func (r *keyReporter) report(err error) {
	switch {
	case err != nil:
		r.failed.Store(true)
		r.logger.Warn("the keys of tokens were not read; those from before count until max_age, without any no token is good; hint: jwks_url or jwks_file of --identity", "error", err)
	case r.failed.Swap(false):
		r.logger.Info("the keys of tokens are read again")
	}
}
