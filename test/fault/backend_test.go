package fault

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// backend is what proxies forward to. A request is in flight until letGo, or until whoever has sent it is gone.
type backend struct {
	url string

	mu      sync.Mutex
	flights map[string]*flight // by path
	release chan struct{}      // closed to end those in flight
}

// flight are the requests to one path.
type flight struct {
	now int
	// reached[n] is when n+1 were in flight for the first time.
	reached []time.Time
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{release: make(chan struct{}), flights: map[string]*flight{}}
	server := httptest.NewServer(b)
	t.Cleanup(func() {
		b.letGo()
		server.Close()
	})
	b.url = server.URL
	return b
}

// ServeHTTP implements http.Handler.
func (b *backend) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	f, release := b.begin(r.URL.Path)
	select {
	case <-release:
	case <-r.Context().Done():
	}
	b.mu.Lock()
	f.now--
	b.mu.Unlock()
}

// begin counts a request, and returns what ends it.
func (b *backend) begin(path string) (*flight, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.flights[path]
	if f == nil {
		f = &flight{}
		b.flights[path] = f
	}
	if f.now++; f.now > len(f.reached) {
		f.reached = append(f.reached, time.Now())
	}
	return f, b.release
}

// letGo ends all requests that are in flight.
func (b *backend) letGo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.release)
	b.release = make(chan struct{})
}

// flying returns how many requests to a path are in flight, and when there were n for the first time for each n that
// there was.
func (b *backend) flying(path string) (now int, reached []time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.flights[path]; f != nil {
		return f.now, f.reached
	}
	return 0, nil
}

// await waits until so many requests to a path are in flight.
func (b *backend) await(t *testing.T, path string, want int) {
	t.Helper()
	eventually.Nil(t, "requests in flight", func() error {
		if now, _ := b.flying(path); now != want {
			return fmt.Errorf("%d are in flight to %s, want %d", now, path, want)
		}
		return nil
	})
}

// visitors are requests through proxies, each of which wants a slot until it has one, and keeps it while the backend
// does.
type visitors struct {
	client *http.Client
	group  sync.WaitGroup
	mu     sync.Mutex
	denied int
	errs   []error
}

// visit sends visitors to URLs in turn. Whoever is denied comes again.
func visit(client *http.Client, count int, urls ...string) *visitors {
	v := &visitors{client: client}
	for i := range count {
		v.group.Go(func() { v.come(urls[i%len(urls)]) })
	}
	return v
}

// come asks for a slot until there is one. Whoever is cut off has had its slot.
func (v *visitors) come(url string) {
	for end := time.Now().Add(patience); time.Now().Before(end); pause(sampling) {
		if had, err := v.once(url); had || err != nil {
			v.note(err)
			return
		}
	}
	v.note(fmt.Errorf("no slot within %v", patience))
}

// once asks for a slot once, and reports whether the request had one.
func (v *visitors) once(url string) (bool, error) {
	resp, err := v.client.Get(url)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		v.mu.Lock()
		v.denied++
		v.mu.Unlock()
		return false, nil
	}
	return false, fmt.Errorf("a proxy answers %s", resp.Status)
}

func (v *visitors) note(err error) {
	if err != nil {
		v.mu.Lock()
		v.errs = append(v.errs, err)
		v.mu.Unlock()
	}
}

// denials returns how often visitors were denied so far.
func (v *visitors) denials() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.denied
}

// wait waits until all have ended, and returns what went wrong.
func (v *visitors) wait() []error {
	v.group.Wait()
	return v.errs
}
