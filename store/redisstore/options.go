package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds and defaults of Options.
const (
	// DefaultPrefix begins the name of every key.
	DefaultPrefix = "hg:"
	// DefaultBudget is how long a Take may last.
	DefaultBudget = 20 * time.Millisecond
	// DefaultDialTimeout bounds one attempt to connect, the TLS and AUTH
	// exchanges included.
	DefaultDialTimeout = time.Second
	// DefaultMaxInFlight is the number of calls that wait for an answer at one
	// time. It is below the 1024 places of the client's ring, in which a call
	// that finds no place would wait without heed of its deadline.
	DefaultMaxInFlight = 1000
	// MaxPrefix bounds the bytes of Options.Prefix: it is part of every key.
	MaxPrefix = 64

	defaultPort = "6379"
	// maxDB is the largest database number that ParseURL takes.
	maxDB = 1<<31 - 1
)

// Options says which Redis to use and how. Addr is required; the zero value of
// every other field is its documented default.
type Options struct {
	// Network is "tcp" or "unix"; empty means "tcp".
	Network string
	// Addr is HOST:PORT, or the path of a unix socket.
	Addr string
	// Username is the ACL user; empty means the default user.
	Username string
	// Password of the user; empty means that none is sent.
	Password string
	// DB is the number of the database.
	DB int
	// TLS turns TLS on and configures it; nil means none.
	TLS *tls.Config
	// Prefix begins the name of every key; empty means DefaultPrefix. Two
	// Headgates that shall not share counts in one Redis take two prefixes. A
	// hash tag in it ("{hg}:") puts all keys into one slot of a cluster.
	Prefix string
	// Budget bounds a Take: it has ended by then, whatever Redis does. A
	// shorter deadline of the caller's context counts instead. 0 means
	// DefaultBudget.
	Budget time.Duration
	// DialTimeout bounds one attempt to connect; 0 means DefaultDialTimeout.
	DialTimeout time.Duration
	// MaxInFlight bounds the calls that wait for an answer, those that were
	// given up on but are still unanswered included; a call above it ends at
	// once with store.Overloaded. From 1 to DefaultMaxInFlight, which 0 means.
	MaxInFlight int
}

// String returns the address without credentials.
func (o Options) String() string { return o.address() }

// GoString keeps the password out of %#v.
func (o Options) GoString() string { return "redisstore.Options(" + o.address() + ")" }

// address returns the URL of the server without credentials.
func (o Options) address() string {
	if o.Network == "unix" {
		if o.DB == 0 {
			return "unix://" + o.Addr
		}
		return "unix://" + o.Addr + "?db=" + strconv.Itoa(o.DB)
	}
	scheme := "redis://"
	if o.TLS != nil {
		scheme = "rediss://"
	}
	return scheme + o.Addr + "/" + strconv.Itoa(o.DB)
}

// withDefaults returns o with its defaults filled in, or says what is wrong.
func (o Options) withDefaults() (Options, error) {
	if o.Network == "" {
		o.Network = "tcp"
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	switch {
	case o.Network != "tcp" && o.Network != "unix":
		return o, fmt.Errorf("redis store: unknown network %q; hint: tcp or unix", o.Network)
	case o.Addr == "":
		return o, errors.New("redis store: no address; hint: HOST:PORT, or the path of a unix socket")
	case o.DB < 0:
		return o, fmt.Errorf("redis store: database %d is negative; hint: 0 is the first", o.DB)
	case len(o.Prefix) > MaxPrefix:
		return o, fmt.Errorf("redis store: the prefix has %d bytes; hint: at most %d, it is part of every key", len(o.Prefix), MaxPrefix)
	case o.Budget < 0 || o.DialTimeout < 0:
		return o, errors.New("redis store: a time limit is negative; hint: 0 means the default")
	case o.MaxInFlight < 0 || o.MaxInFlight > DefaultMaxInFlight:
		return o, fmt.Errorf("redis store: max in flight %d; hint: from 1 to %d", o.MaxInFlight, DefaultMaxInFlight)
	}
	return o, nil
}

// ParseURL reads the address of a Redis:
//
//	redis://[user:password@]HOST[:PORT][/DB]
//	rediss://...                              the same over TLS
//	unix://[user:password@]/path[?db=DB]
//
// ":password@" alone is the default user. The port defaults to 6379 and the
// database to 0. User and password are percent-encoded where they hold "@",
// ":" or "/". No error contains the password.
func ParseURL(raw string) (Options, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of package url quotes its input, the password included.
		return Options{}, urlError("it is not a URL", "percent-encode special characters of the password: @ is %40, / is %2F, % is %25")
	}
	var o Options
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if u.Opaque != "" || u.Fragment != "" {
		return Options{}, urlError("it does not have the form of an address", "redis://HOST:PORT/DB; percent-encode # as %23 in the password")
	}
	switch u.Scheme {
	case "redis", "rediss":
		err = o.parseTCP(u)
	case "unix":
		err = o.parseUnix(u)
	default:
		err = urlError("its scheme is unknown", "redis://, rediss:// or unix://")
	}
	if err != nil {
		return Options{}, err
	}
	return o, nil
}

func urlError(what, hint string) error {
	return fmt.Errorf("redis address: %s; hint: %s", what, hint)
}

func (o *Options) parseTCP(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return urlError("it names no host", "redis://HOST:PORT/DB")
	}
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return urlError("its port is not a number from 1 to 65535", "redis://HOST:PORT/DB")
	}
	if u.RawQuery != "" {
		return urlError("it has a query", "options are not given in the address; the database is its path: redis://HOST:PORT/DB")
	}
	o.Network, o.Addr = "tcp", net.JoinHostPort(host, port)
	if u.Scheme == "rediss" {
		o.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	return o.parseDB(strings.TrimPrefix(u.Path, "/"))
}

func (o *Options) parseUnix(u *url.URL) error {
	if u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.Path == "/" {
		return urlError("it names no socket", "unix:///path/to/redis.sock, with three slashes")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return urlError("its query is malformed", "unix:///path?db=N")
	}
	for name := range query {
		if name != "db" {
			return urlError("its query has an unknown name", "unix:///path?db=N")
		}
	}
	o.Network, o.Addr = "unix", u.Path
	return o.parseDB(query.Get("db"))
}

func (o *Options) parseDB(text string) error {
	if text == "" {
		return nil
	}
	db, err := strconv.ParseUint(text, 10, 64)
	if err != nil || db > maxDB {
		return urlError("its database is not a number", "redis://HOST:PORT/0, unix:///path?db=0")
	}
	o.DB = int(db)
	return nil
}
