package urlrules

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/rules/rulefile"
)

const (
	// defaultTimeout bounds one answer, from the connection to the last byte. A document has
	// a few thousand lines; an answer that comes drop by drop is none.
	defaultTimeout = 10 * time.Second
	// minPause is the time between two rounds at least, however often somebody asks.
	minPause = 100 * time.Millisecond
	// longestWait bounds the time between two rounds that fail; where Poll is longer, that does.
	longestWait = time.Minute
	// maxTotal bounds all documents together, in bytes, as files are bounded.
	maxTotal = 64 << 20
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
)

// Outcome says what became of a round of questions.
type Outcome string

// The outcomes of a round.
const (
	Accepted  Outcome = "accepted"
	Unchanged Outcome = "unchanged" // the same documents as before
	Refused   Outcome = "refused"   // documents that cannot be in force
	Failed    Outcome = "failed"    // one of the documents could not be had
)

// Options configures a Client.
type Options struct {
	// Sources are what is asked, at least one, each on its own. Documents are in their order.
	Sources []Source
	// TLS returns how the connections of the next round are secured; nil means as the system
	// has it.
	TLS func() (*tls.Config, error)
	// Poll is the time between two rounds at most; required.
	Poll time.Duration
	// Timeout bounds one answer. The default value is defaultTimeout.
	Timeout time.Duration
	// Put puts documents in force, all or none, and reports whether they are others than
	// before; required. Unread is told why they could not be had; required. Calls do not overlap.
	Put    func([]rulefile.File) (changed bool, err error)
	Unread func(error)
	// Reached and Answered are told of every round; required. They do not wait.
	Reached  func(bool)
	Answered func(Outcome)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Client gets documents. Make one with New.
type Client struct {
	o     Options
	have  []document // of each source
	hurry sleep.Nudge
}

// document is what a source has answered with.
type document struct {
	data []byte
	etag string // "" where the answer had none
}

// New returns a Client that asks nobody before Read or Run.
func New(o Options) *Client {
	o.Timeout = cmp.Or(max(o.Timeout, 0), defaultTimeout)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{o: o, have: make([]document, len(o.Sources)), hurry: sleep.NewNudge()}
}

// Ask has the next round begin soon. It returns at once.
func (c *Client) Ask() { c.hurry.Give() }

// Read asks every source once, and returns their documents. It may be called before Run, and
// not beside it.
func (c *Client) Read(ctx context.Context) ([]rulefile.File, error) {
	files, err := c.read(ctx)
	c.o.Reached(err == nil)
	if err != nil {
		c.o.Answered(Failed)
	}
	return files, err
}

// Run asks until ctx ends.
func (c *Client) Run(ctx context.Context) {
	failures := 0
	for c.pause(ctx, waitAfter(failures, c.o.Poll)) {
		if c.round(ctx) {
			failures = 0
		} else {
			failures++
		}
	}
}

// waitAfter is the longest wait after that many rounds in a row that failed: poll, and twice as
// long after each.
func waitAfter(failures int, poll time.Duration) time.Duration {
	return min(poll<<min(failures, 16), max(longestWait, poll))
}

// pause waits for three quarters of longest, and a random part of the last one, so that
// processes that were started together do not ask together for long; or until somebody asks. It
// reports whether ctx goes on.
func (c *Client) pause(ctx context.Context, longest time.Duration) bool {
	if sleep.For(ctx, minPause) != nil {
		return false
	}
	longest -= minPause
	timer := time.NewTimer(longest - time.Duration(rand.Float64()/4*float64(longest)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.hurry:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// round asks once and puts what there is in force. It reports whether all was had.
func (c *Client) round(ctx context.Context) bool {
	files, err := c.Read(ctx)
	if ctx.Err() != nil {
		return true // the process ends, and nobody is to blame
	}
	if err != nil {
		c.o.Unread(err)
		return false
	}
	switch changed, err := c.o.Put(files); {
	case err != nil:
		c.o.Answered(Refused)
	case changed:
		c.o.Answered(Accepted)
	default:
		c.o.Answered(Unchanged)
	}
	return true
}

func (c *Client) read(ctx context.Context) ([]rulefile.File, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeader,
	}
	if c.o.TLS != nil {
		secured, err := c.o.TLS()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = secured
	}
	// Connections do not outlast a round: the next one goes by the names and certificates of
	// then, and meets no connection whose other end has gone.
	defer transport.CloseIdleConnections()
	next, problems := make([]document, len(c.have)), make([]error, len(c.have))
	var asking sync.WaitGroup
	for i := range c.o.Sources {
		asking.Go(func() { next[i], problems[i] = c.fetch(ctx, transport, &c.o.Sources[i], c.have[i]) })
	}
	asking.Wait()
	files, size := make([]rulefile.File, len(next)), 0
	for i, d := range next {
		name := c.o.Sources[i].Name
		if size += len(d.data); problems[i] == nil && size > maxTotal {
			problems[i] = fmt.Errorf("more than %d MiB with those before it", maxTotal>>20)
		}
		if problems[i] != nil {
			return nil, &Error{Name: name, Err: problems[i]}
		}
		files[i] = rulefile.File{Name: name, Data: d.data}
	}
	c.have = next
	return files, nil
}

// Name returns what messages call an address: without its query, which may hold a secret.
func Name(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }
