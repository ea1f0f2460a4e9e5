package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/breaker"
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
	// dialTrips is how many round trips an attempt to connect takes at most, while the budget is
	// that of one: of TCP, two of TLS, the first question, AUTH and the greeting. So a store far
	// away has that many budgets to connect, up to mostDialTimeout.
	dialTrips       = 6
	mostDialTimeout = 5 * time.Second
	// DefaultMaxInFlight is the number of calls that wait for an answer at one
	// time, and the most that MaxInFlight can be: beyond it Redis is slower than the
	// demand, and whoever waits only waits longer.
	DefaultMaxInFlight = 1000
	// DefaultRemembered is the number of buckets whose latest states are kept in
	// memory, at 64 bytes each, to be brought back after a failover.
	DefaultRemembered = 1 << 16
	// MaxPrefix bounds the bytes of Options.Prefix: it is part of every key.
	MaxPrefix = store.MaxPrefix
	// MaxRemembered bounds Options.Remembered: 1 GiB.
	MaxRemembered = 1 << 24
	// MaxAddrs bounds the addresses of sentinels, and those of a cluster.
	MaxAddrs = 32
)

// Topology is the kind of a deployment.
type Topology uint8

const (
	OneServer Topology = iota
	BySentinels
	InCluster
)

// Sentinel names the sentinels that know which server is the primary.
type Sentinel struct {
	// Addrs are their addresses, HOST:PORT, from 1 to MaxAddrs.
	Addrs []string
	// Master is the name under which they watch the primary and its replicas.
	Master string
	// Username and Password are for the sentinels themselves, which have users
	// of their own; empty means none.
	Username, Password string
	// PasswordFile is as that of Options.
	PasswordFile string
	// TLS turns TLS to the sentinels on; nil means none. An empty ServerName
	// means the host that is asked.
	TLS *tls.Config

	files  credentials.Files
	loaded *credentials.TLS // of files
}

// Options says which Redis to use and how: a single one by Addr, the primary that
// sentinels name by Sentinel, or a cluster by Cluster; one of the three is
// required. The zero value of every other field is its documented default.
type Options struct {
	// Network is "tcp" or "unix"; empty means "tcp".
	Network string
	// Addr is HOST:PORT, or the path of a unix socket.
	Addr string
	// Sentinel finds the server by asking sentinels, and follows a failover.
	Sentinel *Sentinel
	// Cluster has addresses (HOST:PORT, up to MaxAddrs) of some nodes of a
	// cluster; the others are found. Username, Password and TLS are for all.
	Cluster []string
	// Username is the ACL user; empty means the default user.
	Username string
	// Password of the user; empty means that none is sent.
	Password string
	// PasswordFile is a file that holds the password of the user, and nothing else;
	// it is read for each new connection, so that a password can change. Empty means
	// that Password counts; not both.
	PasswordFile string
	// DB is the number of the database; a cluster has only 0.
	DB int
	// TLS turns TLS on and configures it; nil means none. An empty ServerName
	// means the host that is dialled.
	TLS *tls.Config
	// Prefix begins the name of every key; empty means DefaultPrefix. Two
	// Headgates that shall not share counts in one Redis take two prefixes. It has
	// up to MaxPrefix letters, digits and ":._-/": nothing that patterns of ACLs give
	// a meaning to, and no brace, because in a cluster the store adds hash tags.
	Prefix string
	// Budget bounds a Take: it has ended by then, whatever Redis does, or before a shorter
	// deadline of the caller's context, by store.AnswerBy. 0 means DefaultBudget.
	Budget time.Duration
	// DialTimeout bounds one attempt to connect; 0 means the longest of DefaultDialTimeout,
	// the Budget, and six times the Budget up to 5 s.
	DialTimeout time.Duration
	// MaxInFlight bounds the calls that wait for an answer, those that were
	// given up on but are still unanswered included; a call above it ends at
	// once with store.Overloaded. From 1 to DefaultMaxInFlight, which 0 means.
	// It counts for each server.
	MaxInFlight int
	// Breaker configures the breaker that each server has. A Slow of 0 means half
	// of the Budget, a negative one that no call is slow.
	Breaker breaker.Options
	// NoCoalescing sends each Take on its own, instead of together with others
	// that come while calls are under way.
	NoCoalescing bool
	// Remembered is the number of buckets of which the latest states are
	// remembered: a server that has lost its latest writes in a failover or a
	// restart is told of them, once, with the first call for the bucket. 0 means
	// DefaultRemembered, a negative number none; at most MaxRemembered. Buckets
	// of sub_windows, sliding_log and concurrency are never remembered; slots of
	// concurrency come back when their holders renew them.
	Remembered int
	// Replicas, when not nil, has replicas answer peeks of Store.Peeks; nil means that all
	// is asked of the primary. Nothing else ever asks a replica.
	Replicas *Replicas
	// Via, when not nil, returns what makes connections to servers in the place of dial,
	// which it may call. TLS is put on what it makes. Sentinels are dialled without it.
	Via func(dial Dialer) Dialer
	// Delay, when not nil, says how much longer each trip to a server shall take; it is
	// asked before each. A trip that is over before that is not made.
	Delay func() time.Duration

	// silence is how long a connection may be without any answer.
	silence time.Duration
	// firstWait is how long whoever opens a server waits for the first attempt to connect, and
	// bounds the handshake of TCP: DialTimeout where that was set, else DefaultDialTimeout, or the
	// Budget if that is longer.
	firstWait time.Duration
	// files are read for TLS; see Fresh.
	files  credentials.Files
	loaded *credentials.TLS // of files
	stale  error            // why TLS is not what files hold now
}

// Topology returns the kind of deployment that o is for.
func (o *Options) Topology() Topology {
	switch {
	case o.Sentinel != nil:
		return BySentinels
	case len(o.Cluster) > 0:
		return InCluster
	}
	return OneServer
}

// Dialer makes a connection, as net.Dialer.DialContext does.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// String returns the address without credentials.
func (o Options) String() string { return o.Address() }

// GoString keeps the password out of %#v.
func (o Options) GoString() string { return "redisstore.Options(" + o.Address() + ")" }

// Address returns the URL of the server without credentials.
func (o *Options) Address() string {
	scheme := "redis"
	if o.TLS != nil {
		scheme = "rediss"
	}
	switch o.Topology() {
	case BySentinels:
		return scheme + "+sentinel://" + strings.Join(o.Sentinel.Addrs, ",") + "/" + strconv.Itoa(o.DB) + "?master=" + url.QueryEscape(o.Sentinel.Master) + o.server()
	case InCluster:
		return scheme + "+cluster://" + strings.Join(o.Cluster, ",") + o.server()
	}
	if o.Network == "unix" {
		if o.DB == 0 {
			return "unix://" + o.Addr
		}
		return "unix://" + o.Addr + "?db=" + strconv.Itoa(o.DB)
	}
	return scheme + "://" + o.Addr + "/" + strconv.Itoa(o.DB)
}

// server names the server among those of a deployment, if it is known.
func (o *Options) server() string {
	if o.Addr == "" {
		return ""
	}
	return " (" + o.Addr + ")"
}

// At returns o for one server of the deployment.
func (o *Options) At(addr string) *Options {
	one := *o
	one.Addr = addr
	return &one
}

// Secrets are the passwords in o, the empty ones left out.
func (o *Options) Secrets() []string {
	all := []string{o.Password}
	if o.Sentinel != nil {
		all = append(all, o.Sentinel.Password)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// WithDefaults returns o with its defaults filled in, or says what is wrong.
func (o Options) WithDefaults() (Options, error) {
	o.Network = cmp.Or(o.Network, "tcp")
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	o.Breaker.Slow = cmp.Or(o.Breaker.Slow, o.Budget/2)
	o.silence = max(minSilence, o.Budget)
	o.firstWait = o.DialTimeout
	if o.DialTimeout == 0 {
		o.firstWait = max(DefaultDialTimeout, o.Budget)
		o.DialTimeout = max(o.firstWait, min(dialTrips*o.Budget, mostDialTimeout))
	}
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.Remembered = cmp.Or(o.Remembered, DefaultRemembered)
	if err := o.checkTopology(); err != nil {
		return o, err
	}
	if err := store.CheckPrefix(o.Prefix); err != nil {
		return o, fmt.Errorf("redis store: %w", err)
	}
	if err := o.checkReplicas(); err != nil {
		return o, err
	}
	switch {
	case o.Network != "tcp" && o.Network != "unix":
		return o, fmt.Errorf("redis store: unknown network %q; hint: tcp or unix", o.Network)
	case o.DB < 0:
		return o, fmt.Errorf("redis store: database %d is negative; hint: 0 is the first", o.DB)
	case o.Budget < 0 || o.DialTimeout < 0:
		return o, errors.New("redis store: a time limit is negative; hint: 0 means the default")
	case o.MaxInFlight < 0 || o.MaxInFlight > DefaultMaxInFlight:
		return o, fmt.Errorf("redis store: max in flight %d; hint: from 1 to %d", o.MaxInFlight, DefaultMaxInFlight)
	case o.Remembered > MaxRemembered:
		return o, fmt.Errorf("redis store: %d buckets to remember; hint: at most %d", o.Remembered, MaxRemembered)
	}
	return o, o.load()
}

// checkTopology says what is wrong with the addresses.
func (o *Options) checkTopology() error {
	named := 0
	for _, given := range [...]bool{o.Addr != "", o.Sentinel != nil, len(o.Cluster) > 0} {
		if given {
			named++
		}
	}
	if named > 1 {
		return errors.New("redis store: several kinds of address; hint: give one of Addr, Sentinel and Cluster")
	}
	switch o.Topology() {
	case BySentinels:
		if o.Sentinel.Master == "" {
			return errors.New("redis store: no name of a primary; hint: the sentinels list theirs under SENTINEL MASTERS")
		}
		return checkAddrs(o.Network, o.Sentinel.Addrs)
	case InCluster:
		if o.DB != 0 {
			return fmt.Errorf("redis store: database %d of a cluster; hint: a cluster has only database 0", o.DB)
		}
		return checkAddrs(o.Network, o.Cluster)
	}
	if o.Addr == "" {
		return errors.New("redis store: no address; hint: HOST:PORT, or the path of a unix socket")
	}
	return nil
}

// checkReplicas says what is wrong with the addresses of replicas.
func (o *Options) checkReplicas() error {
	switch {
	case o.Replicas == nil || len(o.Replicas.Addrs) == 0:
		return nil
	case o.Topology() != OneServer:
		return errors.New("redis store: addresses of replicas beside sentinels or a cluster; hint: leave them out, the replicas are found")
	}
	return checkAddrs("tcp", o.Replicas.Addrs)
}

// checkAddrs says what is wrong with the addresses of sentinels or nodes.
func checkAddrs(network string, addrs []string) error {
	if network == "unix" {
		return errors.New("redis store: sentinels and clusters are not reached by unix sockets; hint: give HOST:PORT")
	}
	if len(addrs) == 0 || len(addrs) > MaxAddrs {
		return fmt.Errorf("redis store: %d addresses; hint: from 1 to %d", len(addrs), MaxAddrs)
	}
	for _, addr := range addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("redis store: the address %q has no port; hint: HOST:PORT", addr)
		}
	}
	return nil
}
