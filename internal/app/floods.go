package app

import (
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/h2guard"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/limit"
)

// floodLines bounds the lines about connections that were cut off.
var floodLines = limit.Must(limit.Spec{Algorithm: limit.TokenBucket, Quota: 4, Period: time.Minute})

// floods ends connections that send frames which ask for nothing, and tells of them.
type floods struct {
	logger *slog.Logger
	count  atomic.Uint64
	lines  linelimit.Limiter
}

// guard returns l with guarded connections, for the front of that name.
func (f *floods) guard(front string, l net.Listener) net.Listener {
	return h2guard.Listen(l, func(remote net.Addr) {
		f.count.Add(1)
		if untold, ok := f.lines.MayTell(floodLines, limit.MicrosOf(time.Now())); ok {
			f.logger.Warn("a connection of HTTP/2 was cut off: its frames cost work and asked for nothing", "front", front, "remote", remote.String(), "others", untold)
		}
	})
}
