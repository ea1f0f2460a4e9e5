package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/headgate/headgate/internal/hideurl"
	"github.com/headgate/headgate/internal/regular"
)

const (
	// maxRedirects bounds how often a fetch of keys is sent elsewhere.
	maxRedirects = 3
	// maxKeyHeaders bounds the bytes of the headers that come with keys.
	maxKeyHeaders = 64 << 10
)

// errUnchanged says that a source still holds what it held last time.
var errUnchanged = errors.New("unchanged")

// keySource is where the bytes of a key set come from.
type keySource interface {
	// read returns the bytes, or errUnchanged. It is never called twice at once.
	read(ctx context.Context) ([]byte, error)
	// forget makes the next read return the bytes even if they did not change.
	forget()
}

// fileSource reads a regular file.
type fileSource struct{ path string }

func (s fileSource) forget() {}

func (s fileSource) read(context.Context) ([]byte, error) { return regular.Read(s.path, MaxKeySet) }

// webSource fetches an address, conditionally where the server gave a tag.
type webSource struct {
	address string
	client  *http.Client
	tag     string
}

func (s *webSource) forget() { s.tag = "" }

// newWebSource checks an address. The client's own redirect policy gives way to
// one that leaves neither HTTPS nor, for that matter, this machine.
func newWebSource(o KeySetOptions, bad *problems) *webSource {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" {
		bad.add("URL", "no address", "write an address such as https://issuer.example/.well-known/jwks.json")
		return nil
	}
	if u.User != nil {
		bad.add("URL", "holds a user or password", "give Client a transport that authenticates")
	}
	if !safeAddress(u, o.AllowLoopback) {
		bad.add("URL", "is not https", "keys that anyone on the way can exchange prove nothing; plain http is for loopback addresses with AllowLoopback")
	}
	var client http.Client
	if o.Client != nil {
		client = *o.Client
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxResponseHeaderBytes = maxKeyHeaders
		client.Transport = t
	}
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || !safeAddress(r.URL, o.AllowLoopback) {
			return errors.New("sent too far, or to an address that is not https")
		}
		return nil
	}
	return &webSource{address: o.URL, client: &client}
}

func safeAddress(u *url.URL, allowLoopback bool) bool {
	switch u.Scheme {
	case "https":
		return true
	case "http":
		host := u.Hostname()
		return allowLoopback && (host == "localhost" || net.ParseIP(host).IsLoopback())
	}
	return false
}

func (s *webSource) read(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address, http.NoBody)
	if err != nil {
		return nil, errors.New("no request can be made of the address")
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	if s.tag != "" {
		r.Header.Set("If-None-Match", s.tag)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, hideurl.In(err)
	}
	data, err := s.take(answer)
	return data, errors.Join(err, answer.Body.Close())
}

func (s *webSource) take(answer *http.Response) ([]byte, error) {
	switch {
	case answer.StatusCode == http.StatusNotModified && s.tag != "":
		return nil, errUnchanged
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, MaxKeySet+1)) // enough to tell
	if err != nil {
		return nil, err
	}
	s.tag = answer.Header.Get("ETag")
	if len(s.tag) > maxKeyID {
		s.tag = ""
	}
	return data, nil
}
