package memcachestore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
)

// Bounds and defaults of Options.
const (
	// DefaultPrefix begins the name of every key.
	DefaultPrefix = "hg:"
	// DefaultBudget is how long a Take may last.
	DefaultBudget = 20 * time.Millisecond
	// DefaultDialTimeout bounds one attempt to connect.
	DefaultDialTimeout = time.Second
	// DefaultMaxConns is the number of connections to each server. One serves
	// one call at a time.
	DefaultMaxConns = 32
	// DefaultMaxInFlight is the number of calls of Take under way at one time.
	DefaultMaxInFlight = 1000
	// MaxConns bounds Options.MaxConns; memcached itself takes 1024 by default,
	// of all its clients.
	MaxConns = 1024
	// MaxPrefix bounds the bytes of Options.Prefix: it is part of every key, and
	// memcached takes 250 bytes.
	MaxPrefix = store.MaxPrefix
	// MaxServers bounds Options.Servers: each bucket is weighed with each.
	MaxServers = 64

	defaultPort = "11211"
)

// Options says which memcached to use and how. Servers is required; the zero
// value of every other field is its documented default.
type Options struct {
	// Servers are HOST:PORT, or absolute paths of unix sockets, in any order.
	// All nodes must write them alike.
	Servers []string
	// Username and Password are those of memcached's ASCII authentication (its
	// option -Y); empty means that none is sent. They hold no spaces and no
	// control characters.
	Username, Password string
	// PasswordFile is a file that holds the password, and nothing else; it is read for
	// each new connection, so that a password can change. Empty means that Password
	// counts; not both.
	PasswordFile string
	// TLS turns TLS on and configures it; nil means none. An empty ServerName means
	// the host that is dialled.
	TLS *tls.Config
	// Prefix begins the name of every key; empty means DefaultPrefix. It is as
	// store.CheckPrefix has it. Two Headgates that shall not share counts take two
	// prefixes.
	Prefix string
	// Budget bounds a Take: it has ended by then, whatever memcached does, or before a shorter
	// deadline of the caller's context, by store.AnswerBy. 0 means DefaultBudget.
	Budget time.Duration
	// DialTimeout bounds one attempt to connect; 0 means DefaultDialTimeout, or
	// the Budget if that is longer. A take that waits for one does so within its
	// budget.
	DialTimeout time.Duration
	// MaxConns bounds the connections to each server; from 1 to the constant of
	// that name; 0 means DefaultMaxConns.
	MaxConns int
	// MaxInFlight bounds the calls of Take under way; one above it ends at once
	// with store.Overloaded. 0 means DefaultMaxInFlight.
	MaxInFlight int
	// Breaker configures the breaker that each server has. A zero Slow means
	// half of the Budget.
	Breaker breaker.Options
	// Via, when not nil, returns what makes connections to servers in the place of dial,
	// which it may call. TLS is put on what it makes.
	Via func(dial Dialer) Dialer
	// Delay, when not nil, says how much longer each exchange with a server shall take; it
	// is asked before each. An exchange that is over before that is not made.
	Delay func() time.Duration
	// Now is the clock that limits go by, which is that of this machine where it is nil.
	// Clocks of all nodes must agree.
	Now func() limit.Micros

	// files are read for TLS; see fresh.
	files  credentials.Files
	loaded *credentials.TLS // of files
}

// Dialer makes a connection, as net.Dialer.DialContext does.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// String returns the addresses without credentials.
func (o Options) String() string { return "memcached://" + strings.Join(o.Servers, ",") }

// GoString keeps the password out of %#v.
func (o Options) GoString() string { return "memcachestore.Options(" + o.String() + ")" }

// withDefaults returns o with its defaults filled in, or says what is wrong.
func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	o.DialTimeout = cmp.Or(o.DialTimeout, max(DefaultDialTimeout, o.Budget))
	o.MaxConns = cmp.Or(o.MaxConns, DefaultMaxConns)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.Breaker.Slow = cmp.Or(o.Breaker.Slow, o.Budget/2)
	if o.Now == nil {
		o.Now = func() limit.Micros { return limit.MicrosOf(time.Now()) }
	}
	switch {
	case store.CheckPrefix(o.Prefix) != nil:
		return o, fmt.Errorf("memcached store: %w", store.CheckPrefix(o.Prefix))
	case !isWord(o.Username) || !isWord(o.Password):
		return o, errors.New("memcached store: user or password holds a space or a control character; hint: memcached's own list of users cannot either")
	case o.Budget < 0 || o.DialTimeout < 0:
		return o, errors.New("memcached store: a time limit is negative; hint: 0 means the default")
	case o.MaxConns < 0 || o.MaxConns > MaxConns:
		return o, fmt.Errorf("memcached store: max connections %d; hint: from 1 to %d", o.MaxConns, MaxConns)
	case o.MaxInFlight < 0:
		return o, errors.New("memcached store: max in flight is negative; hint: 0 means the default")
	}
	if err := checkServers(o.Servers); err != nil {
		return o, err
	}
	return o, o.load()
}

func checkServers(servers []string) error {
	if len(servers) == 0 || len(servers) > MaxServers {
		return fmt.Errorf("memcached store: %d servers; hint: from 1 to %d, as HOST:PORT or the path of a unix socket", len(servers), MaxServers)
	}
	for i, s := range servers {
		if slices.Contains(servers[:i], s) {
			return fmt.Errorf("memcached store: server %s is named twice; hint: name each once", s)
		}
		if strings.HasPrefix(s, "/") {
			continue
		}
		host, port, err := net.SplitHostPort(s)
		if err != nil || host == "" || !isPort(port) || !isWord(s) {
			return fmt.Errorf("memcached store: server %q is no address; hint: HOST:PORT, [IPV6]:PORT, or the absolute path of a unix socket", s)
		}
	}
	return nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// isWord reports whether memcached takes text as one word.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
