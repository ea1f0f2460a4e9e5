package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
)

// Why a call or a connection failed; Classify says what that means to a caller. The
// errors of calls are *store.Error and wrap these.
var (
	// ErrClosed and ErrRetired end connections: of a store that is closed, and of a
	// server that has no hash slot any more.
	ErrClosed  = errors.New("the store is closed")
	ErrRetired = errors.New("the server has left the cluster")
	// ErrFirstDial is what calls get before the first attempt to connect has ended.
	ErrFirstDial = errors.New("not connected yet")
	// ErrApart is for a call whose keys lie on two servers; one by one they can be
	// asked for.
	ErrApart = errors.New("the slot is being moved")
	// ErrIsSentinel is for a sentinel that was given as a Redis.
	ErrIsSentinel = errors.New("the server is a sentinel")
	// ErrTooMany is for calls beyond Options.MaxInFlight.
	ErrTooMany = errors.New("too many calls wait for an answer")
	// ErrLate, ErrBadReply and ErrWindow are about the answer of a script.
	ErrLate     = errors.New("the script ran after its deadline, and charged nothing")
	ErrBadReply = errors.New("the answer belongs to another call or has another form")
	ErrWindow   = errors.New("the clock of Redis left the calendar window twice in one call")
	// ErrNarrow is for a build of Redis for 32 bits.
	ErrNarrow = errors.New("the numbers of its scripts are too short for instants")
	// ErrNoServer is for buckets whose hash slot nobody has, ErrNoSlots for a server
	// that knows of no slots.
	ErrNoServer = errors.New("no server of the cluster has this slot")
	ErrNoSlots  = fmt.Errorf("%w, nor any other", ErrNoServer)

	errMoved      = errors.New("the sentinels name another primary")
	errBreaker    = errors.New("calls failed of late")
	errIsCluster  = errors.New("the server is a node of a cluster")
	errNoGreeting = errors.New("no connection and greeting")
	errLost       = errors.New("the connection was lost")
	errReplica    = errors.New("the server is a replica")
)

// answer is what a server's error reply means.
type answer struct {
	// text is the code, which is the first word of the reply; or, when it has
	// several words, a part of one whose code says nothing.
	text   string
	reason store.Reason
	hint   string
}

const hintUser = "the ACL user needs +select +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire and ~<prefix>*" +
	", for the roster, switches and tools +pttl +hget +hset +zadd +zcard +zrem +zremrangebyscore +zrevrange +zscore, in a cluster +cluster|slots +asking, for the home of regions +info"

const hintHidden = "the server lacks a command that the scripts use: take its rename-command back, and bound what users may do by ACL"

const hintNotRunning = "is Redis running there?"

// hintPrimary ends the hints for replicas that a user has given the address of; see
// Options.ReplicaHint.
const hintPrimary = "give the address of the primary"

const hintCluster = "give the address as redis+cluster://HOST:PORT"

// answers lists the error replies of Redis and its relatives. The first match
// counts.
var answers = []answer{
	{"NOAUTH", store.Denied, "give a password: redis://user:password@HOST:PORT/DB, or ?password_file=PATH"},
	{"WRONGPASS", store.Denied, "wrong user or password, or the user is off"},
	{"NOPERM", store.Denied, hintUser},
	{"executing the script can't run", store.Denied, hintUser},
	{"DENIED", store.Denied, "Redis runs in protected mode: set a password or bind an address"},
	{"ERR invalid password", store.Denied, "wrong password"},
	{"without any password configured", store.Denied, "Redis has no password for this user: give none, or set one there"},
	{"but no password is set", store.Denied, "Redis has no password: give none, or set one there"},
	{"OOM", store.Full, "raise maxmemory, or look for what else fills this Redis; give Headgate its own"},
	{"READONLY", store.ReadOnly, "this is a replica: " + hintPrimary},
	{"LOADING", store.Loading, "Redis is reading its data after a start; it answers when it is done"},
	{"MASTERDOWN", store.Unavailable, "a replica has lost its primary: " + hintPrimary},
	{"The cluster is down", store.Unavailable, "a shard is away, or most of them are: see CLUSTER INFO; with cluster-require-full-coverage no the other shards go on when one is away"},
	{"CLUSTERDOWN", store.Unavailable, "the cluster does not serve this slot: see CLUSTER INFO"},
	{"TRYAGAIN", store.Unavailable, "the slot is being moved"},
	{"NOREPLICAS", store.Unavailable, "fewer replicas than min-replicas-to-write are connected"},
	{"BUSY", store.Unavailable, "another client's script blocks Redis: see SCRIPT KILL"},
	{"max number of clients", store.Unavailable, "raise maxclients, or look for clients that leak connections"},
	{"writing to the AOF file", store.Misconfigured, "Redis cannot write its append-only file and refuses writes: free the disk; CONFIG SET appendonly no goes on without the file"},
	{"MISCONF", store.Misconfigured, "Redis cannot save to its disk and refuses writes: free the disk, or turn stop-writes-on-bgsave-error off"},
	{"MOVED", store.Misconfigured, hintCluster},
	{"ASK", store.Misconfigured, hintCluster},
	{"CROSSSLOT", store.Misconfigured, hintCluster},
	{"cluster support disabled", store.Misconfigured, "this Redis is no cluster: give the address as redis://HOST:PORT/DB"},
	{"unknown command", store.Misconfigured, "the server has no EVALSHA, or rename-command or a proxy hides it: Redis 5 or newer is needed"},
	{"command called from script", store.Misconfigured, hintHidden},
	{"command called from Lua script", store.Misconfigured, hintHidden}, // before Redis 7
	{"DB index is out of range", store.Misconfigured, "this server has fewer databases: use a smaller number"},
	{"WRONGTYPE", store.Misconfigured, "another program writes under this prefix: give Headgate its own"},
}

// answerOf returns the entry of answers for the text of an error reply.
func answerOf(text string) (answer, bool) {
	code, _, _ := strings.Cut(text, " ")
	endedScript := strings.HasPrefix(text, inScript)
	for _, a := range answers {
		if code == a.text || (strings.Contains(a.text, " ") && strings.Contains(text, a.text)) {
			return a, true
		}
		// Before Redis 7 an error inside a script had its code in the middle.
		if endedScript && strings.Contains(text, "-"+a.text+" ") {
			return a, true
		}
	}
	return answer{}, false
}

// inScript begins an error reply of a script that Redis ended.
const inScript = "ERR Error running script"

// ScriptError returns the error reply that a script was given by redis.pcall and did not end
// with. Before Redis 7 its text begins with the place in the script.
func ScriptError(text string) error {
	if strings.HasPrefix(text, "@") {
		text = inScript + ": " + text
	}
	return &resp.Error{Text: text}
}

// ReplyText returns the text of an error reply.
func ReplyText(err error) (string, bool) {
	reply, ok := errors.AsType[*resp.Error](err)
	if !ok {
		return "", false
	}
	return reply.Text, true
}

// Classify returns the reason of err and a hint for an operator.
func Classify(err error) (store.Reason, string) {
	if text, ok := ReplyText(err); ok {
		if a, ok := answerOf(text); ok {
			return a.reason, a.hint
		}
		return store.Internal, "an answer that the store does not know"
	}
	if reason, hint := classifyAccess(err); reason != store.NoReason {
		return reason, hint
	}
	switch {
	case isGarbage(err):
		return store.Misconfigured, "the server does not speak the Redis protocol: check host and port, and rediss:// for TLS"
	case errors.Is(err, ErrTooMany):
		return store.Overloaded, "Redis is slower than the demand: see its CPU and slow log"
	case errors.Is(err, ErrLate), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return store.Timeout, ""
	case errors.Is(err, errReplica):
		return store.ReadOnly, hintPrimary
	case errors.Is(err, ErrIsSentinel):
		return store.Misconfigured, "give the address as redis+sentinel://HOST:PORT/DB?master=NAME"
	case errors.Is(err, errIsCluster):
		return store.Misconfigured, hintCluster
	case errors.Is(err, errNoMaster):
		return store.Misconfigured, "SENTINEL MASTERS lists the names; upper and lower case count"
	case errors.Is(err, errNotSentinel):
		return store.Misconfigured, "give the address of a sentinel, or that of the Redis as redis://HOST:PORT/DB"
	case errors.Is(err, ErrNoServer):
		return store.Unavailable, "see CLUSTER INFO and CLUSTER SLOTS"
	case errors.Is(err, ErrNarrow):
		return store.Misconfigured, "a build of Redis for 64 bits is needed"
	case errors.Is(err, ErrBadReply), errors.Is(err, ErrWindow):
		return store.Internal, ""
	case errors.Is(err, os.ErrPermission):
		return store.Denied, "the process may not open the socket"
	default:
		return store.Unavailable, unavailableHint(err)
	}
}

func unavailableHint(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "the host name is unknown"
	case errors.Is(err, os.ErrNotExist):
		return "there is no such socket: is Redis running?"
	case errors.Is(err, ErrClosed), errors.Is(err, errLost), errors.Is(err, ErrFirstDial), errors.Is(err, errMoved),
		errors.Is(err, ErrRetired), errors.Is(err, ErrApart):
		return ""
	case errors.Is(err, errNoGreeting):
		return "is its process frozen? If not, check host, port and firewalls, that both sides speak TLS or both do not, and whether the server wants a certificate of this client"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "check host and port, that both sides speak TLS or both do not, and whether the server wants a certificate of this client; with TLS, a Redis whose maxclients are reached hangs up without a word"
	default:
		return hintNotRunning
	}
}

// classifyAccess returns NoReason for errors that have nothing to do with TLS or with
// files of credentials.
func classifyAccess(err error) (store.Reason, string) {
	hint, ok := credentials.Explain(err)
	var file *credentials.FileError
	switch {
	case !ok:
		return store.NoReason, ""
	case errors.As(err, &file):
		return store.Misconfigured, hint
	}
	return store.Denied, hint
}

// isGarbage reports whether the server does not speak as Redis does.
func isGarbage(err error) bool {
	return errors.Is(err, ErrNotRedis) || errors.Is(err, resp.ErrProtocol)
}

// codeOf returns the code of an error reply, "" of another error.
func codeOf(err error) string {
	text, _ := ReplyText(err)
	code, _, _ := strings.Cut(text, " ")
	return code
}

// NeverRan reports whether an error reply proves that the script had no effect
// and that the same server may soon answer otherwise.
func NeverRan(err error) bool {
	switch codeOf(err) {
	case "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS":
		return true
	}
	return false
}

// AsUnavailable is for what is done in the background: that it took too long is
// no timeout of a caller.
func AsUnavailable(fault *store.Error) *store.Error {
	if fault.Reason != store.Timeout {
		return fault
	}
	other := *fault
	other.Reason = store.Unavailable
	return &other
}

// AboutTheCall reports whether an error reply says something about the call, and
// nothing about how well the server is.
func AboutTheCall(err error) bool {
	switch codeOf(err) {
	case "NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "WRONGTYPE":
		return true
	}
	return false
}

// IsTryAgain reports whether the keys of the call lie on two servers, because
// their slot is being moved.
func IsTryAgain(err error) bool { return codeOf(err) == "TRYAGAIN" }

// IsWrongType reports whether what has the name of a key is of another program: no value that
// Headgate writes.
func IsWrongType(err error) bool { return codeOf(err) == "WRONGTYPE" }

// IsNoScript reports whether the server does not hold the script.
func IsNoScript(err error) bool { return codeOf(err) == "NOSCRIPT" }

// Fault makes the *store.Error of err, which never contains the password: some
// servers quote the arguments of a command that they refuse.
func (o *Options) Fault(op string, err error) *store.Error {
	if known, ok := errors.AsType[*store.Error](err); ok {
		return known
	}
	reason, hint := o.Classify(err)
	text := err.Error()
	for _, secret := range o.Secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	if text != err.Error() {
		err = errors.New(text)
	}
	return &store.Error{Op: op, Store: o.Address(), Reason: reason, Hint: hint, Err: err}
}

// Classify is the function Classify, with the hint that is right for the deployment.
func (o *Options) Classify(err error) (store.Reason, string) {
	reason, hint := Classify(err)
	if told := o.ReplicaHint(); told != "" && strings.HasSuffix(hint, hintPrimary) {
		hint = told
	}
	return reason, hint
}

// ReplicaHint returns the hint for a server that is a replica, where others tell the addresses of
// servers; "" where the user has given the address, and has to give another one.
func (o *Options) ReplicaHint() string {
	switch o.Topology() {
	case BySentinels:
		return "the sentinels name a replica: a failover is under way, or they are wrong if it stays: compare SENTINEL MASTER on each with ROLE of the servers"
	case InCluster:
		return "a node has become a replica: a failover is under way; if it stays, compare CLUSTER NODES of the nodes"
	}
	return ""
}
