package snapfeed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/accountfile"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/regular"
	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// maxLogged bounds the changes of accounts that are kept for those who ask.
	maxLogged = 400_000
	// maxWait bounds how long a question waits for news.
	maxWait = 30 * time.Second
	// holdsTimeout bounds a question to the database.
	holdsTimeout = 5 * time.Second
	// signatureHeader is the header field of the signature.
	signatureHeader = "Headgate-Signature"
)

// Publisher answers those who follow. Make one with NewPublisher; its methods are safe for
// concurrent use.
type Publisher struct {
	signer *signing.Signer
	// holds reports whether a point is a part of the history of the database.
	holds func(context.Context, sqltenant.Point) (bool, error)

	mu       sync.Mutex
	file     *accountfile.File // nil: none yet
	base     Base
	log      []sqltenant.Page // each begins where the one before ends
	logged   int              // accounts in it
	start    sqltenant.Point  // of the log
	known    bool             // start and end are
	end      sqltenant.Point
	settings *sqltenant.Settings
	digest   string        // of settings
	changed  chan struct{} // closed by the next change
}

// NewPublisher returns a Publisher that knows nothing yet. holds asks the database; its
// error says that it is not known.
func NewPublisher(signer *signing.Signer, holds func(context.Context, sqltenant.Point) (bool, error)) *Publisher {
	return &Publisher{signer: signer, holds: holds, changed: make(chan struct{})}
}

// wakeLocked answers those who wait.
func (p *Publisher) wakeLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// SetBase says that f has all accounts, up to its Point at least. It reads the file.
func (p *Publisher) SetBase(f *accountfile.File) error {
	sum, size, err := sumOf(f.Path())
	if err != nil {
		return fmt.Errorf("publish accounts: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file, p.base = f, Base{SHA256: sum, Size: size, Point: f.Point}
	if !p.known {
		p.start, p.end, p.known = f.Point, f.Point, true
	}
	p.trimLocked()
	p.wakeLocked()
	return nil
}

// sumOf returns the SHA-256 of a file and its size.
func sumOf(path string) (sum string, size int64, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// Page notes changes.
func (p *Publisher) Page(page sqltenant.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if page.Anew { // the file is of another history, though its version may come again
		p.file = nil
	}
	switch {
	case page.Anew || !p.known || page.From.Version > p.end.Version || page.From.Version == p.end.Version && page.From != p.end:
		p.log, p.logged, p.start, p.end, p.known = nil, 0, page.From, page.From, true
	case page.To.Version <= p.end.Version:
		return // it was noted before
	}
	if page.To != page.From {
		page.From = p.end
		p.log, p.logged, p.end = append(p.log, page), p.logged+len(page.Accounts), page.To
	}
	p.trimLocked()
	p.wakeLocked()
}

// trimLocked forgets the oldest changes where there are too many: those that the base has
// first of all.
func (p *Publisher) trimLocked() {
	for len(p.log) > 0 && p.logged > maxLogged {
		p.logged -= len(p.log[0].Accounts)
		p.start, p.log = p.log[0].To, p.log[1:]
	}
}

// SetSettings notes what the database says beside accounts.
func (p *Publisher) SetSettings(s sqltenant.Settings) error {
	digest, err := digestOf(&s)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.digest != digest {
		p.settings, p.digest = &s, digest
		p.wakeLocked()
	}
	return nil
}

func digestOf(s *sqltenant.Settings) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// question is what who follows asks.
type question struct {
	at       sqltenant.Point // the zero one: nothing is known
	settings string          // digest of those that are known
	etag     string          // of the last answer, if that is all that is known
	nonce    string
	wait     time.Duration
}

// parseQuestion reads it.
func parseQuestion(r *http.Request) (q question, err error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, errors.New("the query cannot be read")
	}
	if text := values.Get("version"); text != "" {
		if q.at.Version, err = strconv.ParseInt(text, 10, 64); err != nil || q.at.Version < 0 {
			return q, errors.New("version: not a whole number from 0")
		}
	}
	if text := values.Get("wait"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 0 || seconds > int(maxWait/time.Second) {
			return q, fmt.Errorf("wait: not a number of seconds from 0 to %d", int(maxWait/time.Second))
		}
		q.wait = time.Duration(seconds) * time.Second
	}
	q.at.Digest, q.settings, q.nonce, q.etag = values.Get("digest"), values.Get("settings"), values.Get("nonce"), r.Header.Get("If-None-Match")
	if len(q.nonce) > maxNonce || len(q.at.Digest) > maxHead || len(q.settings) > maxHead {
		return q, errors.New("digest, settings, nonce: too long")
	}
	return q, nil
}

// errNotYet says that it is not known yet what the database says.
var errNotYet = errors.New("what the database of tenants says is not known here yet, or not whole")

// answer returns what is news to who asks, once there is something; nil when the wait is
// over before.
func (p *Publisher) answer(ctx context.Context, q *question) (*message, string, error) {
	timer := time.NewTimer(q.wait)
	defer timer.Stop()
	for {
		changed := p.nextChange() // before news: a change meanwhile is looked at again
		m, etag, err := p.news(ctx, q)
		if err != nil || m != nil && etag != q.etag {
			return m, etag, err
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, etag, nil
		case <-ctx.Done():
			return nil, etag, nil
		}
	}
}

// nextChange returns what the next change closes.
func (p *Publisher) nextChange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// news returns what is news now, nil for nothing.
func (p *Publisher) news(ctx context.Context, q *question) (*message, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known || p.settings == nil {
		return nil, "", errNotYet
	}
	holds := p.hasLocked(q.at)
	if !holds && q.at.Version > 0 {
		var err error
		if holds, err = p.askLocked(ctx, q.at); err != nil {
			return nil, "", fmt.Errorf("%w: %w", errNotYet, err)
		}
	}
	etag := fmt.Sprintf(`"%d-%.16s-%.16s"`, p.end.Version, p.end.Digest, p.digest)
	m := &message{head: head{Settings: p.digest, To: p.end}}
	if p.file != nil {
		base := p.base
		m.Base = &base
	}
	switch {
	case holds && q.at.Version > p.end.Version: // this process is late
		return nil, etag, nil
	case holds && q.at.Version >= p.start.Version && q.at.Version > 0:
		m.From = q.at
	default:
		if p.file == nil || p.base.Point.Version < p.start.Version || p.base.Point.Version > p.end.Version {
			return nil, "", errNotYet
		}
		m.From, m.Full, m.Restored = p.base.Point, true, q.at.Version > 0 && !holds
	}
	m.Format = format
	m.Accounts = p.sinceLocked(m.From)
	if m.Full || q.settings != p.digest {
		m.Changed = p.settings
	}
	if !m.Full && m.From == m.To && m.Changed == nil {
		return nil, etag, nil
	}
	return m, etag, nil
}

// hasLocked reports whether a point is known to be a part of the history.
func (p *Publisher) hasLocked(at sqltenant.Point) bool {
	return at == p.start || at == p.end ||
		slices.ContainsFunc(p.log, func(page sqltenant.Page) bool { return page.To == at })
}

// askLocked asks the database whether a point is a part of the history. Meanwhile it unlocks
// mu, so that what was read before may have changed.
func (p *Publisher) askLocked(ctx context.Context, at sqltenant.Point) (bool, error) {
	p.mu.Unlock()
	defer p.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, holdsTimeout)
	defer cancel()
	return p.holds(ctx, at)
}

// sinceLocked returns the accounts that have changed after a point, each once.
func (p *Publisher) sinceLocked(from sqltenant.Point) []tenant.Account {
	var list []tenant.Account
	at := map[tenant.Subject]int{}
	for i := range p.log {
		if p.log[i].To.Version <= from.Version {
			continue
		}
		for _, a := range p.log[i].Accounts {
			if j, twice := at[a.Subject]; twice {
				list[j] = a
				continue
			}
			at[a.Subject] = len(list)
			list = append(list, a)
		}
	}
	return list
}

// ServeNews answers a question of who follows.
func (p *Publisher) ServeNews(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuestion(r)
	if err != nil {
		problems.Answer(w, http.StatusBadRequest, err.Error())
		return
	}
	m, etag, err := p.answer(r.Context(), &q)
	var body []byte
	status := http.StatusOK
	switch {
	case err != nil:
		w.Header().Set("Retry-After", "1")
		problems.Answer(w, http.StatusServiceUnavailable, errNotYet.Error())
		return
	case m == nil:
		status = http.StatusNotModified
	default:
		if body, err = m.encode(); err != nil {
			problems.Answer(w, http.StatusInternalServerError, "what there is cannot be written")
			return
		}
	}
	w.Header().Set("ETag", etag)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set(signatureHeader, p.signer.Sign(signed(q.nonce, etag, body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody is there to hear of an error
}

// ServeBase answers with the file of accounts whose SHA-256 is sum.
func (p *Publisher) ServeBase(w http.ResponseWriter, r *http.Request, sum string) {
	p.mu.Lock()
	file, base := p.file, p.base
	p.mu.Unlock()
	if file == nil || base.SHA256 != sum {
		problems.Answer(w, http.StatusNotFound, "there is no such file any more; hint: ask for the snapshot again")
		return
	}
	w.Header().Set("ETag", `"`+sum+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(file, 0, base.Size))
}
