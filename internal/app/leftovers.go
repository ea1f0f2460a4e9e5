package app

import (
	"log/slog"

	"github.com/headgate/headgate/internal/rulesource"
)

// sweepLeftovers removes from the state directory what a process that was killed had not
// finished there. Nothing of this process may have been written there yet.
func sweepLeftovers(dir string, logger *slog.Logger) {
	if dir == "" {
		return
	}
	switch removed, err := rulesource.Sweep(dir); {
	case err != nil:
		logger.Warn("what a killed process left in the state directory was not removed; hint: --state-dir names a directory that can be written", "dir", dir, "error", err)
	case removed > 0:
		logger.Info("removed what a killed process had not finished in the state directory", "dir", dir, "files", removed)
	}
}
