package xdsrules

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/rules/rulefile"
)

const (
	// firstWait and longestWait bound the time between two streams, which is short again after
	// one that was answered and has lasted for longer than it was waited for. They also bound for
	// how long a refusal that is not the first is held back: control planes answer one at once
	// with the same again.
	firstWait, longestWait = time.Second, 30 * time.Second
	// defaultPingTime and defaultPingTimeout find a control plane that has gone without a
	// word: within their sum.
	defaultPingTime, defaultPingTimeout = 30 * time.Second, 10 * time.Second
	// rarestPing bounds how rarely a control plane is pinged that has asked for fewer pings:
	// no server is known to ask for fewer than one in five minutes.
	rarestPing = 10 * time.Minute
	// maxDetail bounds what the control plane is told of an error.
	maxDetail = 4 << 10
)

// Outcome says what became of an answer of the control plane.
type Outcome string

// The outcomes of an answer.
const (
	Accepted  Outcome = "accepted"
	Unchanged Outcome = "unchanged" // the same rules as before
	Refused   Outcome = "refused"
)

// Options configures a Client.
type Options struct {
	// Server is the control plane as gRPC names it, such as "envoy-gateway:18001".
	Server string
	// NodeID is the name by which the control plane knows what is for this process, and
	// Metadata what else it is told of it.
	NodeID   string
	Metadata map[string]string
	// TLS returns how the next connection is secured; nil means without.
	TLS func() (*tls.Config, error)
	// Headers returns what is sent with the next stream, by names in lower case; nil sends
	// nothing.
	Headers func() (map[string]string, error)
	// PingTime is for how long nothing may come before the control plane is pinged, and
	// PingTimeout how long the answer to that may take. The default values are
	// defaultPingTime, of which the library takes no less than 10 s, and defaultPingTimeout.
	PingTime, PingTimeout time.Duration
	// MaxMessage bounds an answer, in bytes.
	MaxMessage int
	// Put puts rule documents in force, all or none, and reports whether they are others
	// than before; required. Calls do not overlap.
	Put func([]rulefile.File) (changed bool, err error)
	// Connected and Answered are told of streams and answers; required. They do not wait.
	Connected func(bool)
	Answered  func(Outcome)
	Logger    *slog.Logger
}

// Client gets rules from a control plane. Make one with New.
type Client struct {
	o Options
	// told is the problem with the stream that the log knows of.
	told     string
	refusals refusals
	// ping is Options.PingTime, or longer where the control plane has asked for that.
	ping time.Duration
}

// New returns a Client that does nothing before Run.
func New(o Options) *Client {
	o.PingTime = cmp.Or(max(o.PingTime, 0), defaultPingTime)
	o.PingTimeout = cmp.Or(max(o.PingTimeout, 0), defaultPingTimeout)
	return &Client{o: o, ping: o.PingTime}
}

// Run keeps a stream until ctx ends.
func (c *Client) Run(ctx context.Context) {
	wait := firstWait
	for ctx.Err() == nil {
		began := time.Now()
		answered, err := c.stream(ctx)
		c.o.Connected(false)
		if ctx.Err() != nil {
			return
		}
		if answered && time.Since(began) > wait {
			wait = firstWait
		}
		c.ping = calmer(c.ping, err)
		c.tell(err)
		_ = sleep.For(ctx, time.Duration((0.5+rand.Float64()/2)*float64(wait))) // ctx is looked at above
		wait = min(2*wait, longestWait)
	}
}

// calmer returns how often to ping after a stream that err has ended. A server that is pinged more
// often than it wants to be ends all streams, with words that the protocol of gRPC prescribes; what
// it wants it does not say.
func calmer(ping time.Duration, err error) time.Duration {
	if err != nil && strings.Contains(err.Error(), "too_many_pings") {
		return min(2*ping, rarestPing)
	}
	return ping
}

// tell logs why there is no stream, each reason once.
func (c *Client) tell(err error) {
	if err == nil || err.Error() == c.told {
		return
	}
	c.told = err.Error()
	c.o.Logger.Warn("the control plane of the rules is away; the rules in force stay", "server", c.o.Server, "error", err)
}

// dial opens a connection, by the files of TLS as they are now.
func (c *Client) dial() (*grpc.ClientConn, error) {
	secured := insecure.NewCredentials()
	if c.o.TLS != nil {
		config, err := c.o.TLS()
		if err != nil {
			return nil, err
		}
		secured = credentials.NewTLS(config)
	}
	return grpc.NewClient(c.o.Server, grpc.WithTransportCredentials(secured),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.o.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: c.ping, Timeout: c.o.PingTimeout}))
}

// stream asks on one stream until it ends, and reports whether anything was answered.
func (c *Client) stream(ctx context.Context) (answered bool, err error) {
	conn, err := c.dial()
	if err != nil {
		return false, fmt.Errorf("dial: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if ctx, err = c.withHeaders(ctx); err != nil {
		return false, err
	}
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	return c.talk(stream)
}

// withHeaders returns ctx with what the stream is to be sent.
func (c *Client) withHeaders(ctx context.Context) (context.Context, error) {
	if c.o.Headers == nil {
		return ctx, nil
	}
	headers, err := c.o.Headers()
	if err != nil {
		return ctx, fmt.Errorf("headers: %w", err)
	}
	return metadata.NewOutgoingContext(ctx, metadata.New(headers)), nil
}

func (c *Client) node() *core.Node {
	n := &core.Node{Id: c.o.NodeID, UserAgentName: "headgate"}
	if len(c.o.Metadata) > 0 {
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for name, text := range c.o.Metadata {
			n.Metadata.Fields[name] = structpb.NewStringValue(text)
		}
	}
	return n
}

// take puts what a response holds in force. Of an error it says for how long telling it is held
// back.
func (c *Client) take(response *discovery.DiscoveryResponse) (held time.Duration, err error) {
	files, err := documentsOf(response.GetResources())
	changed := false
	if err == nil {
		changed, err = c.o.Put(files)
	}
	switch {
	case err != nil:
		c.o.Answered(Refused)
		held, fresh := c.refusals.next(err)
		if fresh {
			c.o.Logger.Error("rules of the control plane are refused; the rules in force stay", "server", c.o.Server, "version", response.GetVersionInfo(), "error", err)
		}
		return held, err
	case changed:
		c.o.Answered(Accepted)
		if len(files) == 0 {
			c.o.Logger.Warn("the control plane has no rules: nothing is limited", "server", c.o.Server, "version", response.GetVersionInfo())
		}
	default:
		c.o.Answered(Unchanged)
	}
	c.refusals = refusals{}
	return 0, nil
}

// detailOf is what the control plane is told of an error.
func detailOf(err error) *rpcstatus.Status {
	text := strings.ToValidUTF8(err.Error(), "?")
	return &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")}
}
