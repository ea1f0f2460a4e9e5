package memcachestore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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
	MaxPrefix = 64
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
	// Prefix begins the name of every key; empty means DefaultPrefix. It has no
	// spaces and no control characters. Two Headgates that shall not share
	// counts take two prefixes.
	Prefix string
	// Budget bounds a Take: it has ended by then, whatever memcached does. A
	// shorter deadline of the caller's context counts instead. 0 means
	// DefaultBudget.
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
}

// String returns the addresses without credentials.
func (o Options) String() string { return "memcached://" + strings.Join(o.Servers, ",") }

// GoString keeps the password out of %#v.
func (o Options) GoString() string { return "memcachestore.Options(" + o.String() + ")" }

// withDefaults returns o with its defaults filled in, or says what is wrong.
func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = max(DefaultDialTimeout, o.Budget)
	}
	if o.MaxConns == 0 {
		o.MaxConns = DefaultMaxConns
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.Breaker.Slow == 0 {
		o.Breaker.Slow = o.Budget / 2
	}
	switch {
	case len(o.Prefix) > MaxPrefix:
		return o, fmt.Errorf("memcached store: the prefix has %d bytes; hint: at most %d, it is part of every key", len(o.Prefix), MaxPrefix)
	case !isWord(o.Prefix):
		return o, errors.New("memcached store: the prefix holds a space or a control character; hint: memcached takes neither in a key")
	case !isWord(o.Username) || !isWord(o.Password):
		return o, errors.New("memcached store: user or password holds a space or a control character; hint: memcached's own list of users cannot either")
	case o.Budget < 0 || o.DialTimeout < 0:
		return o, errors.New("memcached store: a time limit is negative; hint: 0 means the default")
	case o.MaxConns < 0 || o.MaxConns > MaxConns:
		return o, fmt.Errorf("memcached store: max connections %d; hint: from 1 to %d", o.MaxConns, MaxConns)
	case o.MaxInFlight < 0:
		return o, errors.New("memcached store: max in flight is negative; hint: 0 means the default")
	}
	return o, checkServers(o.Servers)
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

// ParseURL reads the addresses of one or several servers:
//
//	memcached://[user:password@]HOST[:PORT][,HOST[:PORT]...][?prefix=PREFIX]
//	memcached:///path/to/socket
//
// The port defaults to 11211. User and password are percent-encoded where they
// hold "@", ":", "/", "?" or "%". No error contains the password.
func ParseURL(raw string) (Options, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !strings.EqualFold(scheme, "memcached") {
		return Options{}, urlError("its scheme is unknown", "memcached://HOST:PORT")
	}
	rest, query, _ := strings.Cut(rest, "?")
	var o Options
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := o.parseUser(rest[:at]); err != nil {
			return Options{}, err
		}
		rest = rest[at+1:]
	}
	if err := o.parseQuery(query); err != nil {
		return Options{}, err
	}
	if strings.HasPrefix(rest, "/") && rest != "/" {
		o.Servers = []string{rest}
		return o, nil
	}
	for server := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		if server == "" || strings.ContainsAny(server, "/#") {
			return Options{}, urlError("it names no host", "memcached://HOST:PORT or memcached://HOST1:PORT,HOST2:PORT")
		}
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(strings.Trim(server, "[]"), defaultPort)
		}
		o.Servers = append(o.Servers, server)
	}
	if err := checkServers(o.Servers); err != nil {
		return Options{}, err
	}
	return o, nil
}

func urlError(what, hint string) error {
	return fmt.Errorf("memcached address: %s; hint: %s", what, hint)
}

func (o *Options) parseUser(text string) error {
	name, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	o.Username, err1 = url.PathUnescape(name)
	o.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		// The errors of package url quote their input.
		return urlError("its user or password is not percent-encoded", "@ is %40, / is %2F, % is %25")
	}
	return nil
}

func (o *Options) parseQuery(text string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return urlError("its query is malformed", "memcached://HOST:PORT?prefix=hg:")
	}
	for name, values := range query {
		if name != "prefix" || len(values) != 1 {
			return urlError("its query has an unknown or repeated name", "memcached://HOST:PORT?prefix=hg:")
		}
		o.Prefix = values[0]
	}
	return nil
}
