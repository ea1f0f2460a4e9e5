package app

import (
	"log/slog"
	"time"

	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/limit"
)

// How many lines one cause gets in the log, so that nothing fills it.
var (
	// oneLine is for what clients can bring about, and for what is tried again all the time.
	oneLine = linelimit.PerMinute(1, 1)
	// fewLines is for trouble of many kinds with those whom this process tells something.
	fewLines = linelimit.PerMinute(1, 5)
	// outageLines is for servers that come and go all the time.
	outageLines = linelimit.PerMinute(4, 4)
)

// sometimes returns what has log tell of errors with a message, as often as lines lets it.
func sometimes(log func(message string, attributes ...any), lines *limit.Limit, message string) func(error) {
	var told linelimit.Limiter
	return func(err error) {
		if others, ok := told.MayTell(lines, time.Now()); ok {
			log(message, "error", err, "others_since", others)
		}
	}
}

// failing returns what logs that something fails, or works again (nil).
func failing(logger *slog.Logger, fails, again string) func(error) {
	return func(err error) {
		if err == nil {
			logger.Info(again)
			return
		}
		logger.Error(fails, "error", err)
	}
}
