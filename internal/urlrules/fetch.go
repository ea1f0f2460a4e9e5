package urlrules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/headgate/headgate/internal/hideurl"
	"github.com/headgate/headgate/rules/rulefile"
)

// maxRedirects bounds how often an address sends to another one.
const maxRedirects = 5

// Source is one address. Make those of S3 with S3.Source.
type Source struct {
	// Name stands for it in messages, and is the name of the document; it holds no secret.
	Name string
	// URL is what is asked, of the scheme https.
	URL string
	// Authorize adds what a request is authorized by; nil adds nothing. It is called anew for
	// each request.
	Authorize func(*http.Request) error
	// Stays says that a redirect is an error: what Authorize adds is good for the one address.
	Stays bool
}

// Error says which address was not had. Its text is stable as long as the trouble is.
type Error struct {
	Name string
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("read rules: %s: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fetch returns the document of s, which is have where that is what s has still.
func (c *Client) fetch(ctx context.Context, by http.RoundTripper, s *Source, have document) (document, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return document{}, errors.New("not an address") // what it is may be secret
	}
	request.Header.Set("User-Agent", "headgate")
	request.Header.Set("Accept", "application/yaml, text/yaml, text/plain;q=0.9, */*;q=0.5")
	if have.etag != "" {
		request.Header.Set("If-None-Match", have.etag)
	}
	if s.Authorize != nil {
		if err := s.Authorize(request); err != nil {
			return document{}, err
		}
	}
	client := &http.Client{Transport: by, CheckRedirect: s.follow}
	response, err := client.Do(request)
	if err != nil {
		return document{}, c.stable(ctx, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotModified && have.etag != "":
		return have, nil
	case response.StatusCode != http.StatusOK:
		return document{}, fmt.Errorf("the answer is %d %s%s", response.StatusCode, http.StatusText(response.StatusCode), hintOf(response.StatusCode))
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, rulefile.MaxFileSize+1))
	if err != nil {
		return document{}, c.stable(ctx, err)
	}
	if len(data) > rulefile.MaxFileSize {
		return document{}, fmt.Errorf("more than %d MiB; hint: is this a rule file?", rulefile.MaxFileSize>>20)
	}
	return document{data: data, etag: response.Header.Get("ETag")}, nil
}

// follow is told of each redirect before it is followed.
func (s *Source) follow(next *http.Request, before []*http.Request) error {
	switch {
	case s.Stays:
		return errors.New("it sends elsewhere; hint: is it the region of the bucket?")
	case next.URL.Scheme != "https":
		return errors.New("it sends to an address without TLS, where anybody on the way can write rules")
	case len(before) > maxRedirects:
		return fmt.Errorf("it sends on more than %d times", maxRedirects)
	}
	next.Header.Del("Referer") // which has the query, and that may be a secret
	if serverOf(next.URL) != serverOf(before[0].URL) {
		// Another port may be another's, and so may a name below this one.
		next.Header.Del("Authorization")
	}
	return nil
}

// serverOf returns the host and port of an address of HTTPS.
func serverOf(u *url.URL) string { return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")) }

// stable returns why there is no answer, without what changes from try to try (ports of this
// side) and without the address.
func (c *Client) stable(ctx context.Context, err error) error {
	err = hideurl.In(err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no whole answer within %v", c.o.Timeout)
	}
	// How an end is seen depends on what was on the way just then.
	for _, end := range []error{io.ErrUnexpectedEOF, io.EOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return errors.New("the answer ends before its end")
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

func hintOf(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; hint: the token, the keys of S3 and their right to read it, or the client certificate"
	case http.StatusNotFound:
		return "; hint: is the path right?"
	case http.StatusNotModified:
		return ", and nothing was had before"
	}
	return ""
}
