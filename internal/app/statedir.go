package app

import (
	"log/slog"
	"os"

	"github.com/headgate/headgate/internal/filelock"
	"github.com/headgate/headgate/internal/rulesource"
)

// holdState marks a state directory as that of this process until release is called, and removes what a process
// that was killed had not finished there: nothing of this process may have been written there yet. Of a directory
// that another process has it says so and removes nothing, because that one may be writing it now. Where it cannot
// be told, as on a disk of some networks, it is taken to be of this process alone.
func holdState(dir string, logger *slog.Logger) (release func()) {
	release = func() {}
	if dir == "" {
		return release
	}
	if err := os.MkdirAll(dir, 0o750); err == nil { // else who writes there says so
		held, err := holdDir(dir)
		switch {
		case err != nil:
			logger.Debug("it cannot be told whether another process uses the state directory", "dir", dir, "error", err)
		case held == nil:
			logger.Warn("another process uses this state directory: of what both keep there the last to write is kept, and the history of one is lost; hint: a --state-dir for each process", "dir", dir)
			return release
		default:
			release = func() { held.Close() }
		}
	}
	sweepLeftovers(dir, logger)
	return release
}

// holdDir locks a directory until what it returns is closed, or the process ends; nil where another one has
// locked it.
func holdDir(path string) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	locked, err := filelock.Lock(dir)
	if !locked {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// sweepLeftovers removes from the state directory what a process that was killed had not
// finished there.
func sweepLeftovers(dir string, logger *slog.Logger) {
	switch removed, err := rulesource.Sweep(dir); {
	case err != nil:
		logger.Warn("what a killed process left in the state directory was not removed; hint: --state-dir names a directory that can be written", "dir", dir, "error", err)
	case removed > 0:
		logger.Info("removed what a killed process had not finished in the state directory", "dir", dir, "files", removed)
	}
}
