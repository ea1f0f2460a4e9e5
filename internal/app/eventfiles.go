package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/config"
)

const (
	// eventsDir is the directory in the state directory that events are kept in where
	// nothing else is said.
	eventsDir = "events"
	// eventsKept bounds that directory well below the disk that a node has for its state:
	// 1 GiB in the samples for Kubernetes.
	eventsKept = "max_size=16MiB&keep_size=256MiB"
)

// openEventSinks opens the places that events go to: those of the settings, or else files
// in the state directory, if there is one and this process decides.
func (w *watching) openEventSinks() (sinks []audit.Sink, err error) {
	p, s := w.process, w.process.settings
	o := audit.SinkOptions{Node: w.node.Name, Buffer: s.AuditBuffer, Via: p.ways.broker.Via}
	for _, to := range []struct {
		setting string
		url     config.StoreURL
		open    func(string, audit.SinkOptions) (audit.Sink, error)
	}{{"audit-files", s.AuditFiles, audit.OpenFiles}, {"audit-kafka", s.AuditKafka, audit.OpenKafka}} {
		if to.url == (config.StoreURL{}) || to.url.None() {
			continue
		}
		sink, err := to.open(to.url.Reveal(), o)
		if err != nil {
			closeSinks(sinks)
			return nil, fmt.Errorf("--%s: %w", to.setting, err)
		}
		sinks = append(sinks, sink)
	}
	if s.AuditFiles != (config.StoreURL{}) || len(sinks) > 0 || s.StateDir == "" || !p.does.Decide {
		return sinks, nil
	}
	sink, err := openKeptEvents(s.StateDir, o)
	switch {
	case err == nil:
		sinks = append(sinks, sink)
	case !errors.Is(err, errors.ErrUnsupported): // there are systems without locks of files
		p.logger.Warn("events of decisions are kept in memory alone; hint: --state-dir names a directory that can be written, --audit-files none says that none shall be", "error", err)
	}
	return sinks, nil
}

// openKeptEvents opens the files in a state directory.
func openKeptEvents(dir string, o audit.SinkOptions) (audit.Sink, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	place := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, eventsDir)), RawQuery: eventsKept}
	return audit.OpenFiles(place.String(), o)
}

// closeSinks ends sinks that have got nothing.
func closeSinks(sinks []audit.Sink) {
	for _, s := range sinks {
		_ = s.Close(context.Background()) // there is nothing to lose
	}
}
