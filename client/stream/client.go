package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/client/stream/streampb"
	"github.com/headgate/headgate/internal/sleep"
)

// Options configures a Client. The zero value is usable.
type Options struct {
	// MaxInFlight is how many checks may wait for their answers; more wait until there is
	// room, or their context ends. 0 means 4096.
	MaxInFlight int
	// MaxBatch is how many checks go into one message, as long as it has no more than 4 MiB; 0
	// means 256, and 1000 is the most that the server takes.
	MaxBatch int
	// Metadata is sent when a call is made, such as a token. It is not changed afterwards.
	Metadata metadata.MD
}

const (
	// maxBatch and maxMessage are how many checks and bytes the server takes in one message.
	maxBatch, maxMessage = 1000, 4 << 20
	// around is more than a message has around the request of a check: number, timeout, lengths.
	around = 64
)

// Client checks over one call of gRPC, which it makes with the first check and again whenever the
// server has ended it. Make one with New. It is safe for use by many goroutines.
type Client struct {
	conn    grpc.ClientConnInterface
	options Options
	ctx     context.Context
	end     context.CancelFunc
	room    chan struct{}
	// more has an element while there may be checks in queue.
	more sleep.Nudge

	mu     sync.Mutex
	number uint64
	// queue are the checks that are to be sent, and sent those that wait for an answer, by number.
	queue []*check
	sent  map[uint64]*check
	// running says that a goroutine has a call, or makes one, and vain how many calls in a row
	// have ended without an answer.
	running bool
	vain    int
}

var _ rlsv3.RateLimitServiceClient = (*Client)(nil)

// New returns a Client of the headgate that conn leads to. Close ends it; conn stays open.
func New(conn grpc.ClientConnInterface, o Options) *Client {
	o.MaxInFlight = cmp.Or(max(o.MaxInFlight, 0), 4096)
	o.MaxBatch = min(cmp.Or(max(o.MaxBatch, 0), 256), maxBatch)
	ctx, end := context.WithCancel(context.Background())
	if o.Metadata != nil {
		ctx = metadata.NewOutgoingContext(ctx, o.Metadata)
	}
	return &Client{
		conn: conn, options: o, ctx: ctx, end: end,
		room: make(chan struct{}, o.MaxInFlight), more: sleep.NewNudge(), sent: map[uint64]*check{},
	}
}

// ErrClosed is what checks are answered after Close.
var ErrClosed = status.Error(codes.Canceled, "check by stream: the client is closed")

// Close ends the call. Checks without an answer get ErrClosed, and nothing is known of them.
func (c *Client) Close() error {
	c.end()
	return nil
}

// ShouldRateLimit decides a request, as the method of Envoy's rate limit service does. The
// request may be changed once it has returned. Its errors are of package status: that of the
// check, that of the call, UNAVAILABLE among them, or that of ctx. RESOURCE_EXHAUSTED is that of a
// request of more than 4 MiB, which is not sent. Options of a call are refused, because no call is
// made for this request.
func (c *Client) ShouldRateLimit(ctx context.Context, request *rlsv3.RateLimitRequest, options ...grpc.CallOption) (*rlsv3.RateLimitResponse, error) {
	if len(options) > 0 {
		return nil, status.Error(codes.InvalidArgument, "check by stream: options of a call; hint: give them to the connection (grpc.WithDefaultCallOptions)")
	}
	encoded, err := proto.Marshal(request)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "check by stream: %v", err)
	}
	if most := maxMessage - around; len(encoded) > most {
		return nil, status.Errorf(codes.ResourceExhausted, "check by stream: a request of %d bytes; hint: at most %d", len(encoded), most)
	}
	select {
	case c.room <- struct{}{}:
		defer func() { <-c.room }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
	asked := &check{request: encoded, done: make(chan struct{})}
	asked.deadline, _ = ctx.Deadline()
	c.send(asked)
	select {
	case <-asked.done:
		return asked.answer()
	case <-ctx.Done():
		c.forget(asked)
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
}

// send has a check sent, by a goroutine that goes on while there is a call.
func (c *Client) send(asked *check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	asked.number = c.number
	c.queue = append(c.queue, asked)
	c.more.Give()
	if !c.running {
		c.running = true
		go c.run()
	}
}

// forget has nothing done for a check that nobody waits for, as far as it was not sent.
func (c *Client) forget(asked *check) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sent, asked.number)
	if i := slices.Index(c.queue, asked); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
}

// run makes calls while there are checks.
func (c *Client) run() {
	for {
		t := &talk{client: c}
		if err := t.run(); !c.goesOn(t.answered, err) {
			return
		}
	}
}

// maxVain is how many calls in a row may end without an answer before checks fail. A server that
// ends may not have read what it was sent last.
const maxVain = 3

// errNothing is the end of so many calls that had no answer in them.
var errNothing = status.Error(codes.Unavailable, "check by stream: the server ended the call without an answer")

// goesOn deals with the end of a call, in which answers came or not, and reports whether another
// one is to be made. What has no answer was not decided if the server ended the call by itself:
// it is sent again. After an error nothing is known of it.
func (c *Client) goesOn(answered bool, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		err = ErrClosed
	}
	left := slices.SortedFunc(maps.Values(c.sent), func(a, b *check) int { return cmp.Compare(a.number, b.number) })
	clear(c.sent)
	switch {
	case answered:
		c.vain = 0
	case err == nil && len(left) > 0:
		if c.vain++; c.vain >= maxVain {
			err = errNothing
		}
	}
	if err == nil {
		c.queue = append(left, c.queue...)
	} else {
		fail(left, err)
		c.vain = 0
		if !answered {
			fail(c.queue, err)
			c.queue = nil
		}
	}
	c.running = len(c.queue) > 0 && c.ctx.Err() == nil
	return c.running
}

func fail(checks []*check, err error) {
	for _, asked := range checks {
		asked.failure = err
		close(asked.done)
	}
}

// next returns the message that is sent next at now, with all that waits, as far as it goes into
// one; nil when nothing waits.
func (c *Client) next(now time.Time) frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := fitting(c.queue, c.options.MaxBatch)
	if n == 0 {
		return nil
	}
	batch := c.queue[:n]
	for _, asked := range batch {
		c.sent[asked.number] = asked
	}
	message := appendRequest(nil, batch, now)
	c.queue = slices.Delete(c.queue, 0, n)
	return message
}

// fitting returns how many of the first checks of queue go into one message.
func fitting(queue []*check, most int) int {
	queue = queue[:min(len(queue), most)]
	size := 0
	for n, asked := range queue {
		if size += len(asked.request) + around; size > maxMessage {
			return n
		}
	}
	return len(queue)
}

// handOut gives answers to those who have asked. One that nobody waits for is of a check whose
// asker has gone.
func (c *Client) handOut(answers []answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range answers {
		asked := c.sent[answers[i].number]
		if asked == nil {
			continue
		}
		delete(c.sent, asked.number)
		asked.response, asked.failure = answers[i].response, answers[i].failure
		close(asked.done)
	}
}

// talk is one call.
type talk struct {
	client *Client
	stream grpc.ClientStream
	// answered says that answers came. It is read when the call has ended.
	answered bool
}

var streamDesc = &streampb.CheckStream_ServiceDesc.Streams[0]

// run sends checks and hands out answers until the call ends. It returns nil when the server has
// ended it by itself, or nothing more is asked after that.
func (t *talk) run() error {
	ctx, cancel := context.WithCancel(t.client.ctx)
	defer cancel()
	stream, err := t.client.conn.NewStream(ctx, streamDesc, streampb.CheckStream_Check_FullMethodName, grpc.ForceCodecV2(frames{}))
	if err != nil {
		return fmt.Errorf("check by stream: %w", err)
	}
	t.stream = stream
	ended := make(chan error, 1)
	go func() { ended <- t.receive() }()
	for {
		if message := t.client.next(time.Now()); message != nil {
			if err := stream.SendMsg(message); err != nil {
				return <-ended // which has the reason
			}
			continue
		}
		select {
		case <-t.client.more:
			runtime.Gosched() // others that are about to ask go with this one
		case err := <-ended:
			return err
		}
	}
}

// receive hands out answers until the call ends.
func (t *talk) receive() error {
	for {
		var response frame
		if err := t.stream.RecvMsg(&response); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("check by stream: %w", err)
		}
		answers, err := decodeResponse(response)
		if err != nil {
			return err
		}
		t.answered = true
		t.client.handOut(answers)
	}
}
