package memcachestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

var (
	errClosed   = errors.New("the store is closed")
	errTooMany  = errors.New("too many calls are under way")
	errNoConn   = errors.New("no connection became free in time")
	errBreaker  = errors.New("the server has failed of late")
	errLostRace = errors.New("others changed the bucket each time before this call could")
)

// connectionsHint is what to do about a server that refuses connections.
var connectionsHint = "raise the connections that memcached takes (-c), or look for clients that keep many: a node of Headgate has up to " + strconv.Itoa(DefaultMaxConns) + " to each server"

// Supports returns nil for the limits that the store can decide: fixed_window
// and sliding_window that carry over what was used. It is for whoever reads rules, to
// refuse them at start.
func Supports(l *limit.Limit) error {
	switch l.Algorithm {
	case limit.FixedWindow, limit.SlidingWindow:
		if l.Carry == limit.CarryUsed {
			return nil
		}
		return fmt.Errorf("memcached cannot decide on_change %v; hint: it takes carry, Redis takes all", l.Carry)
	}
	return fmt.Errorf("memcached cannot decide %v; hint: it takes fixed_window and sliding_window, Redis takes all algorithms", l.Algorithm)
}

// Supports implements store.Supporter.
func (s *Store) Supports(l *limit.Limit) error { return Supports(l) }

// unsupported is the error of a take whose limit the store does not take.
func unsupported(o *Options, l *limit.Limit) *store.Error {
	return &store.Error{
		Op: "take", Store: o.String(), Reason: store.Misconfigured,
		Hint: "memcached takes fixed_window and sliding_window with on_change carry; Redis takes all",
		Err:  fmt.Errorf("memcached cannot decide %v with on_change %v", l.Algorithm, l.Carry),
	}
}

// fault makes the *store.Error of err on a server.
func fault(op, server string, err error) *store.Error {
	if known, ok := errors.AsType[*store.Error](err); ok {
		return known
	}
	reason, hint := classify(err)
	return &store.Error{Op: op, Store: "memcached://" + server, Reason: reason, Hint: hint, Err: err}
}

// classify returns the reason of err and a hint for an operator.
func classify(err error) (store.Reason, string) {
	var refused *clientError
	var failed *serverError
	var file *credentials.FileError
	access, secured := credentials.Explain(err)
	switch {
	case errors.Is(err, errBreaker):
		return store.BreakerOpen, "it is asked again after a moment"
	case errors.As(err, &file):
		return store.Misconfigured, access
	case secured:
		return store.Denied, access
	case isRefusal(err):
		return store.Unavailable, connectionsHint
	case errors.As(err, &refused):
		if strings.Contains(refused.line, "auth") {
			return store.Denied, "give the user and the password of its file of users: memcached://user:password@HOST:PORT, or memcached://user@HOST:PORT?password_file=PATH"
		}
		return store.Misconfigured, "the server refuses gets, add or cas: is it memcached, or a proxy that hides them?"
	case errors.As(err, &failed):
		if strings.Contains(failed.line, "out of memory") {
			return store.Full, "give memcached more memory (-m), or a server of Headgate's own"
		}
		return store.Unavailable, "see the log of memcached"
	case errors.Is(err, errNoCAS):
		return store.Misconfigured, "memcached was started with -C, which switches compare-and-swap off: start it without"
	case errors.Is(err, errForeign):
		return store.Misconfigured, "another program writes under this prefix: give Headgate its own"
	case errors.Is(err, errNotMemcached):
		return store.Misconfigured, "check host and port: the server does not speak memcached's text protocol"
	case errors.Is(err, errTooMany), errors.Is(err, errNoConn):
		return store.Overloaded, "memcached is slower than the demand"
	case errors.Is(err, errLostRace):
		return store.Timeout, "the bucket is hot: memcached decides each of its hits by itself; Redis does not have this bound"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return store.Timeout, ""
	case errors.Is(err, os.ErrPermission):
		return store.Denied, "the process may not open the socket"
	default:
		return store.Unavailable, unavailableHint(err)
	}
}

func unavailableHint(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, errClosed):
		return ""
	case errors.As(err, &dns):
		return "the host name is unknown"
	case errors.Is(err, os.ErrNotExist):
		return "there is no such socket: is memcached running?"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "check host and port, that both sides speak TLS (tls=true) or both do not, and whether the server wants a certificate of this client"
	}
	return "is memcached running there?"
}
