package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/store"
)

// watchPause: while a session lasts, the sentinels are asked every watchPause to
// twice that whether its server still is the primary. A sentinel would tell it
// by a message too, but a message can be missed.
const watchPause = 700 * time.Millisecond

var (
	errNoMaster    = errors.New("the sentinels know no primary of this name")
	errNotSentinel = errors.New("the server is no sentinel")
	errNoAnswer    = errors.New("no sentinel answers")
)

// finder asks sentinels where the primary is. It is used by one goroutine.
type finder struct {
	options *Options
	peers   []peer
	// epoch is that of the report that the present session came from, dialled the
	// address that was dialled last, empty before the first.
	epoch   int64
	dialled string
}

// peer is one sentinel and the connection to it.
type peer struct {
	options *Options
	session *Session
	// dialling brings the connection that is being made, nil while none is, and stop ends that.
	// It goes on when who has asked waits no longer: a sentinel far away would never be heard
	// beside a near one.
	dialling <-chan dialled
	stop     context.CancelFunc
}

// Report is what sentinels say.
type Report struct {
	Addr  string
	Epoch int64 // of the failover that made it the primary; 0 where the user may not ask for it
	Votes int   // how many sentinels say so, of those that Newest has heard
}

// newFinder returns a finder for the sentinels of o.
func newFinder(o *Options) *finder {
	f := &finder{options: o}
	for _, addr := range o.Sentinel.Addrs {
		f.peers = append(f.peers, peer{options: o.SentinelAt(addr)})
	}
	return f
}

// close ends the connections to the sentinels.
func (f *finder) close() {
	for i := range f.peers {
		f.peers[i].close()
	}
}

// dial finds the primary and connects to it.
func (f *finder) dial(ctx context.Context) (*Session, error) {
	found, err := f.find(ctx)
	if err != nil {
		return nil, err
	}
	f.dialled = found.Addr
	o := f.options.At(found.Addr)
	se, err := dial(ctx, o)
	if err != nil {
		return nil, o.Fault("dial", err)
	}
	f.epoch = found.Epoch
	return se, nil
}

// elsewhere reports whether the sentinels name another address than that which was
// dialled last.
func (f *finder) elsewhere(ctx context.Context) bool {
	found, err := f.find(ctx)
	return err == nil && f.dialled != "" && found.Addr != f.dialled
}

// watch ends the session when another server has become the primary: one that
// was made so later, or that most sentinels name. Sentinels that do not answer
// change nothing.
func (f *finder) watch(ctx context.Context, se *Session) {
	for {
		if sleep.For(ctx, watchPause+rand.N(watchPause)) != nil {
			return
		}
		found, err := f.find(ctx)
		if err != nil || found.Addr == se.Options.Addr {
			continue
		}
		if found.Epoch >= f.epoch || found.Votes > len(f.peers)/2 {
			se.End(errMoved)
			return
		}
	}
}

// find asks all sentinels and returns the newest answer: one that was cut off
// from the others knows an old one.
func (f *finder) find(ctx context.Context) (Report, error) {
	reports, errs := Gather(ctx, f.options.DialTimeout, len(f.peers), func(ctx context.Context, i int) (Report, error) {
		return f.peers[i].ask(ctx, f.options)
	})
	if len(reports) == 0 {
		return Report{}, f.silence(errs)
	}
	return Newest(reports), nil
}

// Newest returns the report of the latest epoch, of several that which most sentinels
// give, with how many do. Where as many give another one, all nodes must choose alike, and each
// node every time: the lesser address is as good as any.
func Newest(reports []Report) Report {
	best := Report{Epoch: -1}
	for _, r := range reports {
		for _, other := range reports {
			if other.Addr == r.Addr {
				r.Votes++
			}
		}
		if r.newer(&best) {
			best = r
		}
	}
	return best
}

// newer reports whether r counts and not other.
func (r *Report) newer(other *Report) bool {
	return cmp.Or(
		cmp.Compare(r.Epoch, other.Epoch),
		cmp.Compare(r.Votes, other.Votes),
		cmp.Compare(other.Addr, r.Addr),
	) > 0
}

// silence says why no sentinel names a primary: with the first thing that one of
// them has answered, if any has.
func (f *finder) silence(errs []error) error {
	if len(errs) == 0 {
		return f.options.Fault("dial", errNoAnswer)
	}
	best := errs[0]
	for _, err := range errs {
		if store.ReasonOf(best) == store.Unavailable {
			best = err
		}
	}
	return best
}

// ask asks one sentinel for the primary of o.
func (p *peer) ask(ctx context.Context, o *Options) (Report, error) {
	r, err := p.tryAsk(ctx, o.Sentinel.Master)
	if err == nil {
		return r, nil
	}
	if !errors.Is(err, errNoMaster) && !givenUp(err) {
		p.hangUp()
	}
	return Report{}, p.fault(o, err)
}

// fault says what went wrong with the sentinel. It names the store and calls the sentinel one,
// because by its address alone it would be taken for the Redis that counts.
func (p *peer) fault(o *Options, err error) *store.Error {
	fault := *AsUnavailable(p.options.Fault("dial", err))
	if errors.Is(err, errNoMaster) {
		fault.Err = fmt.Errorf("%w: %q", errNoMaster, o.Sentinel.Master)
	}
	fault.Store = o.Address()
	fault.Err = fmt.Errorf("sentinel %s: %w", p.options.Addr, fault.Err)
	fault.Hint = SentinelHint(err, fault.Hint)
	return &fault
}

// SentinelHint returns the hint for an error of a sentinel, where another one is right than for
// a Redis.
func SentinelHint(err error, hint string) string {
	switch code := codeOf(err); {
	case code == "NOPERM":
		return "the user of the sentinels needs +sentinel"
	case code == "NOAUTH", code == "WRONGPASS":
		return "sentinels have a user and a password of their own: sentinel_user, sentinel_password or sentinel_password_file"
	case hint == hintNotRunning:
		return "is a sentinel running there? Without one nobody says which server is the primary"
	}
	return hint
}

func (p *peer) tryAsk(ctx context.Context, master string) (Report, error) {
	if err := p.connect(ctx); err != nil {
		return Report{}, err
	}
	answers := p.session.Pipe.AskAll(ctx,
		resp.Words("SENTINEL", "GET-MASTER-ADDR-BY-NAME", master),
		resp.Words("SENTINEL", "MASTER", master))
	addr, err := answers[0].Texts()
	switch {
	case errors.Is(err, resp.ErrNil), err == nil && len(addr) == 0:
		return Report{}, errNoMaster
	case err != nil && IsReply(err) && strings.Contains(err.Error(), "unknown command"):
		return Report{}, errNotSentinel
	case err != nil:
		return Report{}, err
	case len(addr) != 2:
		return Report{}, ErrBadReply
	}
	facts, _ := answers[1].Pairs() // a user that may not ask for it gets along without
	return Report{Addr: net.JoinHostPort(addr[0], addr[1]), Epoch: ConfigEpoch(facts)}, nil
}

// ConfigEpoch returns the epoch among what SENTINEL MASTER has answered, 0 where it is not.
func ConfigEpoch(facts map[string]string) int64 {
	epoch, _ := strconv.ParseInt(facts["config-epoch"], 10, 64)
	return epoch
}

// dialled is how an attempt to connect has ended.
type dialled struct {
	session *Session
	err     error
}

// connect makes sure that there is a connection, or says why there is none. One that is still
// being made when ctx ends is for who asks next.
func (p *peer) connect(ctx context.Context) error {
	if p.session != nil && !p.session.isOver() {
		return nil
	}
	p.hangUp()
	if p.dialling == nil {
		p.dial()
	}
	select {
	case made := <-p.dialling:
		p.stop()
		p.dialling, p.session = nil, made.session
		return made.err
	case <-ctx.Done():
		return fmt.Errorf("%w after %v", errNoGreeting, p.options.DialTimeout)
	}
}

// dial begins to connect.
func (p *peer) dial() {
	ctx, cancel := context.WithTimeout(context.Background(), p.options.DialTimeout)
	ended := make(chan dialled, 1)
	p.dialling, p.stop = ended, cancel
	go func() {
		se, err := Connect(ctx, p.options)
		ended <- dialled{se, err}
	}()
}

// close ends the connection, also one that is being made.
func (p *peer) close() {
	p.hangUp()
	if p.dialling == nil {
		return
	}
	p.stop()
	if made := <-p.dialling; made.session != nil {
		made.session.Close()
	}
	p.dialling = nil
}

// hangUp ends the connection, if there is one.
func (p *peer) hangUp() {
	if p.session != nil {
		p.session.Close()
		p.session = nil
	}
}
