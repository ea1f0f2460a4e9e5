package app

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/linelimit"
)

// floods tells of connections that were cut off because their frames ask for nothing.
type floods struct {
	logger *slog.Logger
	count  atomic.Uint64
	lines  linelimit.Limiter
	// own is how many the own transport of gRPC has cut off; nil without it.
	own func() uint64
}

// total is how many connections were cut off, wherever.
func (f *floods) total() uint64 {
	if f.own == nil {
		return f.count.Load()
	}
	return f.count.Load() + f.own()
}

// told returns what is told of each connection that was cut off at the front of that name.
func (f *floods) told(front string) func(remote net.Addr) {
	return func(remote net.Addr) {
		f.count.Add(1)
		if untold, ok := f.lines.MayTell(outageLines, time.Now()); ok {
			f.logger.Warn("a connection of HTTP/2 was cut off: its frames cost work and asked for nothing", "front", front, "remote", remote.String(), "others_since", untold)
		}
	}
}
