//go:build !race

// The race detector empties pools at random, so allocations are counted
// without it.

package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/alloctest"
)

// discard is a ResponseWriter that keeps its header map.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// TestAllocations: an allowed request takes one allocation for the values of the fields and
// their slices, and one for the context of the decision, which does not end with the client; a
// Result in the context takes two. A denial, whose body has a Content-Type, takes no more.
func TestAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		options httplimit.Options
		limit   int64
		want    float64
	}{
		"usual":         {httplimit.Options{}, 1_000_000, 2},
		"with a Result": {httplimit.Options{PassResult: true}, 1_000_000, 4},
		"denied":        {httplimit.Options{}, 1, 2},
	} {
		h := perMinute(t, c.limit, c.options).Wrap(status(200))
		r, w := newRequest("GET", "/"), &discard{http.Header{}}
		if got := alloctest.PerRun(200, func() { h.ServeHTTP(w, r) }); got != c.want {
			t.Errorf("%s: %v allocations, want %v", name, got, c.want)
		}
	}
}

// TestIdentityAllocates only what the Extractor does.
func TestIdentityAllocates(t *testing.T) {
	e := newExtractor(t, identity.Anonymous)
	h := perMinute(t, 1_000_000, httplimit.Options{Identify: httplimit.Identity(e)}).Wrap(status(200))
	r, w := newRequest("GET", "/", "X-Api-Key", "k-1"), &discard{http.Header{}}
	var who identity.Identity
	extract := alloctest.PerRun(200, func() {
		if err := e.Extract(r, exampleNow, &who); err != nil {
			t.Fatal(err)
		}
	})
	if got := alloctest.PerRun(200, func() { h.ServeHTTP(w, r) }); got != extract+2 {
		t.Errorf("%v allocations, want 2 beside the %v of the Extractor", got, extract)
	}
}
