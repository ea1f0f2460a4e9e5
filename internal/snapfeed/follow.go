package snapfeed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/accountfile"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// waitFor is how long an admin process shall wait for news, and pollTimeout how long
	// one question lasts at most; baseTimeout is for a file of accounts.
	waitFor     = 20 * time.Second
	pollTimeout = time.Minute
	baseTimeout = 30 * time.Minute
	// minPause is the time between two questions: changes that come thick are answered
	// together. retryMin and retryMax bound the pause after a failure, which doubles, less
	// a random part.
	minPause           = 250 * time.Millisecond
	retryMin, retryMax = 500 * time.Millisecond, 15 * time.Second
	// maxProblem bounds what is read of an answer that is none, in bytes.
	maxProblem = 4 << 10
	// maxKept bounds what is kept beside a file of accounts, in bytes; past it all is
	// fetched anew.
	maxKept = 64 << 20
)

// FollowerOptions configures a Follower. All but OnError are required.
type FollowerOptions struct {
	// Client sends questions to admin processes, whatever host they name.
	Client http.RoundTripper
	// Next has another admin process asked; nil: there is no other.
	Next func()
	// Token returns what requests are authorized by; "" is nothing.
	Token func() (string, error)
	// Path is that of the admin API that questions are for.
	Path string
	// Verifier returns whose answers are believed.
	Verifier func() *signing.Verifier
	// Dir is where the files are.
	Dir string
	// OnChange is told of every new snapshot, OnSettings of settings that have changed, as
	// sqltenant.WatcherOptions has it. From is true for what was kept, which is told first.
	OnChange   func(s *tenant.Snapshot, at sqltenant.Point, kept bool)
	OnSettings func(s sqltenant.Settings, kept bool)
	// OnError is told of every failure, and with nil when it works again. Errors of what is
	// no answer of who is believed wrap ErrRefused; ErrRestored says that the history is
	// another one.
	OnError func(error)
}

var (
	// ErrRefused is wrapped by what says that an answer was not believed.
	ErrRefused = errors.New("an answer of an admin process is refused")
	// ErrRestored says that the database was restored to an older state.
	ErrRestored = errors.New("the history of the database has changed: it was restored to an older state; all was fetched again")
)

// Follower keeps a snapshot as admin processes have it. Make one with NewFollower and run
// it.
type Follower struct {
	options FollowerOptions
	readAt  atomic.Int64 // Unix time in microseconds; 0: never
	refused atomic.Uint64

	// The rest is of who runs.
	file     *accountfile.File
	base     string // SHA-256 of file
	snapshot *tenant.Snapshot
	at       sqltenant.Point
	settings string // digest
	etag     string
	offered  string // SHA-256 of the file that was offered last
	kept     int64  // bytes of what is kept
	failing  bool
	// confirmed says that an admin process has answered since the start.
	confirmed bool
}

// NewFollower returns a Follower that knows nothing yet.
func NewFollower(o FollowerOptions) *Follower {
	if o.Next == nil {
		o.Next = func() {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	return &Follower{options: o}
}

// ReadAt returns when an admin process has last said what there is, zero for never.
func (f *Follower) ReadAt() time.Time {
	if us := f.readAt.Load(); us != 0 {
		return time.UnixMicro(us)
	}
	return time.Time{}
}

// Refused returns how many answers were refused because nobody who is believed has signed
// them, or because they were old or not whole.
func (f *Follower) Refused() uint64 { return f.refused.Load() }

// Run puts in force what was kept, and follows until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	if err := f.restore(); err != nil {
		f.options.OnError(fmt.Errorf("what was kept of the admin processes cannot be used: %w", err))
	}
	pause := retryMin
	for {
		err := f.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := minPause
		if err != nil {
			if errors.Is(err, ErrRefused) {
				f.refused.Add(1)
			}
			f.failing = true
			f.options.OnError(err)
			f.options.Next()
			wait, pause = pause/2+rand.N(pause/2), min(2*pause, retryMax)
		} else {
			if f.failing {
				f.options.OnError(nil)
			}
			f.failing, pause = false, retryMin
		}
		if sleep.For(ctx, wait) != nil {
			return
		}
	}
}

// reply is an answer as it came.
type reply struct {
	Nonce     string `json:"nonce"`
	ETag      string `json:"etag"`
	Signature string `json:"signature"`
	At        int64  `json:"at_us"` // when it came
	body      []byte
	unchanged bool // there is nothing new
}

// poll asks once, and puts what is news in force.
func (f *Follower) poll(ctx context.Context) error {
	q, at := f.question()
	r, err := f.ask(ctx, q)
	if err != nil {
		return err
	}
	if r.unchanged {
		f.readAt.Store(r.At)
		f.confirm()
		return nil
	}
	m, err := decode(r.body)
	if err == nil {
		err = f.fits(m, at)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := f.take(ctx, m, false); err != nil {
		return err
	}
	f.etag, f.confirmed = r.ETag, true
	f.readAt.Store(r.At)
	if err := f.keep(r, m.Full); err != nil {
		f.kept = maxKept + 1 // what is kept lacks something: all anew
		f.options.OnError(fmt.Errorf("what the admin processes say was not kept; a start without them goes by what was kept before: %w", err))
	}
	if m.Restored {
		f.options.OnError(ErrRestored)
	}
	return nil
}

// question returns what to ask, and the point since which changes are asked for: the zero one
// for all.
func (f *Follower) question() (q url.Values, at sqltenant.Point) {
	q = url.Values{}
	if f.confirmed && !f.failing { // else who asks should know at once where it stands
		q.Set("wait", strconv.Itoa(int(waitFor/time.Second)))
	}
	if f.wantsAll() {
		return q, at
	}
	q.Set("version", strconv.FormatInt(f.at.Version, 10))
	q.Set("digest", f.at.Digest)
	q.Set("settings", f.settings)
	return q, f.at
}

// ask sends a question and returns the answer, which is signed by who is believed.
func (f *Follower) ask(ctx context.Context, q url.Values) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	nonce := newNonce()
	q.Set("nonce", nonce)
	response, err := f.get(ctx, f.options.Path+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotModified {
		return nil, fmt.Errorf("ask an admin process: it answers %s%s%s", response.Status, detailOf(response.Body), statusHint(response.StatusCode))
	}
	body, err := readAll(response.Body, maxMessage)
	if err != nil {
		return nil, fmt.Errorf("ask an admin process: %w", err)
	}
	r := &reply{
		Nonce: nonce, ETag: response.Header.Get("ETag"), Signature: response.Header.Get(signatureHeader), At: time.Now().UnixMicro(),
		body: body, unchanged: response.StatusCode == http.StatusNotModified,
	}
	if err := verify(f.options.Verifier(), r.Nonce, r.ETag, r.body, r.Signature); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return r, nil
}

// confirm tells that what was kept is what there is.
func (f *Follower) confirm() {
	if f.snapshot != nil && !f.confirmed {
		f.confirmed = true
		f.options.OnChange(f.snapshot, f.at, false)
	}
}

// wantsAll reports whether all is to be fetched: nothing is known, or there is a newer file
// of accounts and so much beside the one in use that it is worth it.
func (f *Follower) wantsAll() bool {
	if f.snapshot == nil {
		return true
	}
	return f.offered != f.base && (f.snapshot.Changes() > accountfile.MostChanges(f.snapshot.Len()) || f.kept > maxKept)
}

// detailOf returns what the body of an answer that is none says, after a colon: the detail
// of a problem, or its first line; "" where it says nothing.
func detailOf(body io.Reader) string {
	data, err := io.ReadAll(io.LimitReader(body, maxProblem))
	if err != nil {
		return ""
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	text, _, _ := strings.Cut(string(data), "\n")
	if json.Unmarshal(data, &problem) == nil {
		text = problem.Detail
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %.200q", text)
}

func statusHint(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; hint: --admin-urls-token is the file of a token of --admin-tokens, with the scope read"
	case http.StatusNotFound:
		return "; hint: it publishes nothing without --snapshot-sign-key"
	}
	return ""
}

// fits refuses what is no answer to what was asked, and what is older than what is known.
func (f *Follower) fits(m *message, asked sqltenant.Point) error {
	switch {
	case !m.Full && (m.From != asked || f.snapshot == nil):
		return fmt.Errorf("it is of what has changed since version %d, not %d", m.From.Version, asked.Version)
	case m.To.Version < f.at.Version && !m.Restored && f.snapshot != nil:
		return fmt.Errorf("it is of version %d, and version %d is known; hint: an admin process that has been behind for long", m.To.Version, f.at.Version)
	case m.Full && m.Changed == nil:
		return errors.New("it has no settings")
	}
	return nil
}

// take puts a message in force.
func (f *Follower) take(ctx context.Context, m *message, kept bool) error {
	snapshot := f.snapshot
	if m.Full {
		file, err := f.baseOf(ctx, m.Base, kept)
		if err != nil {
			return err
		}
		snapshot = tenant.NewSnapshotOver(new(tenant.Tiers), file)
		if f.base != m.Base.SHA256 {
			f.forget(m.Base.SHA256)
		}
		f.file, f.base = file, m.Base.SHA256
	}
	f.snapshot, f.at, f.settings = snapshot.With(m.Accounts...), m.To, m.Settings
	if m.Base != nil {
		f.offered = m.Base.SHA256
	}
	if m.Changed != nil { // switches are in there
		f.options.OnSettings(*m.Changed, kept)
	}
	f.options.OnChange(f.snapshot, f.at, kept)
	return nil
}

// get asks for a path.
func (f *Follower) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+path, nil)
	if err != nil {
		return nil, err
	}
	token, err := f.options.Token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if f.etag != "" && !f.wantsAll() {
		r.Header.Set("If-None-Match", f.etag)
	}
	r.Header.Set("Accept-Encoding", "identity")
	response, err := f.options.Client.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("ask an admin process: %w", err)
	}
	return response, nil
}

func readAll(body io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("an answer of more than %d bytes", most)
	}
	return data, err
}

// basePath is that of a file of accounts.
func (f *Follower) basePath(sum string) string {
	return filepath.Join(f.options.Dir, "followed-"+sum+".accounts")
}

// baseOf returns a file of accounts: the one in use, one that is here, or one that is
// fetched.
func (f *Follower) baseOf(ctx context.Context, b *Base, kept bool) (*accountfile.File, error) {
	if f.file != nil && f.base == b.SHA256 {
		return f.file, nil
	}
	path := f.basePath(b.SHA256)
	if sum, size, err := sumOf(path); err != nil || sum != b.SHA256 || size != b.Size {
		if kept {
			return nil, fmt.Errorf("%s is not whole, or not there", path)
		}
		if err := f.fetch(ctx, b, path); err != nil {
			return nil, err
		}
	}
	return accountfile.Open(path)
}

// fetch fetches a file of accounts, and refuses one that is another.
func (f *Follower) fetch(ctx context.Context, b *Base, path string) error {
	ctx, cancel := context.WithTimeout(ctx, baseTimeout)
	defer cancel()
	response, err := f.get(ctx, f.options.Path+"/accounts/"+b.SHA256)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch accounts of an admin process: it answers %s", response.Status)
	}
	err = rulesource.Replace(path, func(out *os.File) error {
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(response.Body, b.Size+1))
		if err == nil && (n != b.Size || hex.EncodeToString(sum.Sum(nil)) != b.SHA256) {
			return fmt.Errorf("%w: %d bytes of accounts that are not those that were signed", ErrRefused, n)
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrRefused) {
		err = fmt.Errorf("fetch accounts of an admin process: %w", err)
	}
	return err
}
