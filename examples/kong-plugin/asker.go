package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Bounds of an answer of Headgate, in bytes.
const (
	maxBody   = 64 << 10
	maxHeader = 64 << 10
)

// idleFor is how long a connection to Headgate is kept for the next question.
const idleFor = time.Minute

// statusField has the status that is meant. By it a denial of Headgate is known from an
// error on the way.
const statusField = "X-RateLimit-Status"

// asker asks Headgate.
type asker struct {
	config  *Config
	timeout time.Duration
	client  http.Client
	// told is the second, in Unix time, in which a failure was logged last.
	told atomic.Int64
}

func newAsker(c *Config) *asker {
	timeout := time.Duration(c.TimeoutMS) * time.Millisecond
	return &asker{config: c, timeout: timeout, client: http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
			TLSHandshakeTimeout:    timeout,
			MaxConnsPerHost:        c.Connections,
			MaxIdleConnsPerHost:    c.Connections,
			IdleConnTimeout:        idleFor,
			MaxResponseHeaderBytes: maxHeader,
			DisableCompression:     true,
		},
	}}
}

// answer is what Headgate says of a request.
type answer struct {
	// status is 200 for a request that may pass, else that of the denial.
	status int
	header http.Header
	body   []byte
}

// ask asks about r. Its errors say that Headgate has not answered, or not as it answers,
// and hold nothing of r.
func (a *asker) ask(ctx context.Context, r *client) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.config.URL, nil)
	if err != nil {
		return nil, errors.New("the url cannot be asked")
	}
	req.Header = r.header
	if a.config.Token != "" {
		req.Header.Set(tokenField, a.config.Token)
	}
	if a.config.CheckIDHeader != "" {
		req.Header.Set(a.config.CheckIDHeader, rand.Text())
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, trouble(err)
	}
	defer resp.Body.Close()
	return read(resp)
}

// read tells an answer of Headgate from any other. Its header decides: a denial stays one,
// whatever comes of its body.
func read(resp *http.Response) (*answer, error) {
	if resp.StatusCode == http.StatusOK {
		return &answer{status: http.StatusOK, header: tellable(resp.Header)}, nil
	}
	meant, err := strconv.Atoi(resp.Header.Get(statusField))
	if err != nil || meant < 400 || meant > 599 {
		return nil, fmt.Errorf("status %d, and no %s: it did not decide; hint: --auth-peers, the path in url", resp.StatusCode, statusField)
	}
	got := &answer{status: meant, header: tellable(resp.Header)}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) <= maxBody { // what is too long or has no end is left out
		got.body = body
	}
	return got, nil
}

// tellable is what can be told to Kong of the header of an answer: its protocol takes UTF-8, and
// of a header with one value that is not, nothing. The token is for nobody else.
func tellable(header http.Header) http.Header {
	maps.DeleteFunc(header, func(name string, values []string) bool {
		return name == tokenField || !all(values, func(s string) bool { return isValue(s) && utf8.ValidString(s) })
	})
	return header
}

// mayTell reports whether a failure is to be logged: one in each second.
func (a *asker) mayTell(now time.Time) bool {
	second, last := now.Unix(), a.told.Load()
	return second != last && a.told.CompareAndSwap(last, second)
}
