package app

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/internal/timeline"
	"github.com/headgate/headgate/internal/view"
)

// timelineFile is the name of the file in the state directory that has what was answered in the last week.
const timelineFile = "timeline"

// watchTimeline remembers what this process answers, across restarts where there is a state directory.
func (w *watching) watchTimeline() {
	p := w.process
	if !p.does.Decide {
		return
	}
	w.timeline = timeline.New(time.Now())
	keep := func() {}
	if dir := p.settings.StateDir; dir != "" {
		path := filepath.Join(dir, timelineFile)
		if err := w.timeline.Recall(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.logger.Warn("what was answered before this start is not known", "error", err)
		}
		tell := w.tell("what was answered is not kept")
		keep = func() {
			if err := w.timeline.Keep(path); err != nil {
				tell(err)
			}
		}
	}
	p.tasks = append(p.tasks, func(ctx context.Context) {
		w.timeline.Run(ctx, func() (view.Requests, view.Latency) {
			var o view.Overview
			p.metrics.Overview(&o, 0)
			return o.Requests, o.Latency
		}, keep)
	})
}
