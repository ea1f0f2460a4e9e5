package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limit"
)

func descriptorEntry(key, value string) descriptor.Entry {
	return descriptor.Entry{Key: key, Value: value}
}

// seeing allows all and notes what it was asked, in the text form of
// descriptors.
type seeing struct{ asked []string }

func (s *seeing) Check(_ context.Context, requests []headgate.Request, responses []headgate.Response) error {
	for i, r := range requests {
		for _, d := range r.Descriptors {
			s.asked = append(s.asked, descriptor.Format(d.Entries))
		}
		responses[i].Allowed = true
	}
	return nil
}

// identified returns what a request is limited on, and the status.
func identified(t *testing.T, o httplimit.Options, r *http.Request) ([]string, int) {
	t.Helper()
	o.Domain = "api"
	s := &seeing{}
	status := ask(newMiddleware(t, s, o).Wrap(status(200)), r).StatusCode
	return s.asked, status
}

func TestRemoteAddress(t *testing.T) {
	cases := []struct{ peer, want string }{
		{"192.0.2.1:1234", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff::1]:443", "2001:db8:1:2::/64"},
		{"[::ffff:192.0.2.1]:1", "192.0.2.1"},
		{"[fe80::1%eth0]:1", "fe80::/64"},
		{"@", ""}, {"", ""}, {"192.0.2.1", ""}, {"example.com:1", ""}, {"192.0.2.01:1", ""},
	}
	for _, c := range cases {
		r := newRequest("GET", "/", "X-Forwarded-For", "203.0.113.9", "X-Real-Ip", "203.0.113.9", "Forwarded", "for=203.0.113.9")
		r.RemoteAddr = c.peer
		asked, status := identified(t, httplimit.Options{}, r)
		if c.want == "" {
			if status != 500 || len(asked) != 0 {
				t.Errorf("%s: status %d, asked %q; want 500", c.peer, status, asked)
			}
			continue
		}
		if want := descriptor.Format([]descriptor.Entry{{Key: "remote_address", Value: c.want}}); len(asked) != 1 || asked[0] != want {
			t.Errorf("%s: asked %q, want %q", c.peer, asked, want)
		}
	}
}

// TestTenThousandHeaders: what a client adds changes nothing of who it is.
func TestTenThousandHeaders(t *testing.T) {
	r := newRequest("GET", "/")
	for i := range 10_000 {
		r.Header.Add("X-Forwarded-For", fmt.Sprintf("10.%d.%d.1", i>>8, i&255))
		r.Header.Set(fmt.Sprintf("X-Junk-%d", i), strings.Repeat("j", 100))
	}
	asked, status := identified(t, httplimit.Options{Attributes: []string{"content_length"}}, r)
	if status != 200 || len(asked) != 1 || asked[0] != "remote_address:192.0.2.1" {
		t.Errorf("status %d, asked %q", status, asked)
	}
}

var pepper = []byte("sixteen bytes!!!")

func secretHeader(t *testing.T, h httplimit.SecretHeader) httplimit.Identify {
	t.Helper()
	identify, err := h.Identify()
	if err != nil {
		t.Fatal(err)
	}
	return identify
}

func TestSecretHeader(t *testing.T) {
	o := httplimit.Options{
		Identify:  secretHeader(t, httplimit.SecretHeader{Header: "authorization", Prefix: "Bearer ", Pepper: pepper}),
		Challenge: `Bearer realm="api"`,
	}
	asked, _ := identified(t, o, newRequest("GET", "/", "Authorization", "bearer s3cret"))
	if len(asked) != 1 || strings.Contains(asked[0], "s3cret") || len(asked[0]) != len("api_key:")+32 {
		t.Fatalf("asked %q, want a hash", asked)
	}
	same, _ := identified(t, o, newRequest("GET", "/", "Authorization", "Bearer s3cret"))
	other, _ := identified(t, o, newRequest("GET", "/", "Authorization", "Bearer s3creT"))
	if same[0] != asked[0] || other[0] == asked[0] {
		t.Errorf("asked %q, then %q for the same and %q for another", asked, same, other)
	}
	o.Identify = secretHeader(t, httplimit.SecretHeader{Header: "authorization", Prefix: "Bearer ", Pepper: []byte("another sixteen!")})
	if peppered, _ := identified(t, o, newRequest("GET", "/", "Authorization", "Bearer s3cret")); peppered[0] == asked[0] {
		t.Error("the pepper does not matter")
	}
	cases := []struct {
		name   string
		header []string
		status int
	}{
		{"none", nil, 401},
		{"empty", []string{"Authorization", ""}, 401},
		{"another scheme", []string{"Authorization", "Basic czNjcmV0"}, 401},
		{"prefix alone", []string{"Authorization", "Bearer "}, 401},
		{"two", []string{"Authorization", "Bearer a", "Authorization", "Bearer b"}, 400},
	}
	for _, c := range cases {
		if asked, status := identified(t, o, newRequest("GET", "/", c.header...)); status != c.status || len(asked) != 0 {
			t.Errorf("%s: status %d, asked %q; want %d", c.name, status, asked, c.status)
		}
	}
	if _, err := (httplimit.SecretHeader{Header: "X-Api-Key", Pepper: pepper[:8]}).Identify(); err == nil {
		t.Error("a short pepper is taken")
	}
}

func TestFirstAndAll(t *testing.T) {
	key := secretHeader(t, httplimit.SecretHeader{Header: "X-Api-Key", Pepper: pepper})
	first := httplimit.Options{Identify: httplimit.First(key, httplimit.RemoteAddress)}
	all := httplimit.Options{Identify: httplimit.All(key, httplimit.RemoteAddress)}
	firstAll := httplimit.Options{Identify: httplimit.First(httplimit.All(httplimit.RemoteAddress, key), httplimit.RemoteAddress)}
	with, without := newRequest("GET", "/", "X-Api-Key", "k"), newRequest("GET", "/")
	twice := newRequest("GET", "/", "X-Api-Key", "k", "X-Api-Key", "l")
	cases := []struct {
		name    string
		options httplimit.Options
		request *http.Request
		asked   []string // prefixes
		status  int
	}{
		{"first, key", first, with, []string{"api_key:"}, 200},
		{"first, no key", first, without, []string{"remote_address:"}, 200},
		{"first, ambiguous", first, twice, nil, 400},
		{"all, key", all, with, []string{"api_key:", "remote_address:"}, 200},
		{"all, no key", all, without, nil, 400},
		{"first of all, no key", firstAll, without, []string{"remote_address:"}, 200},
	}
	for _, c := range cases {
		asked, status := identified(t, c.options, c.request)
		if status != c.status || len(asked) != len(c.asked) {
			t.Errorf("%s: status %d, asked %q; want %d, %q", c.name, status, asked, c.status, c.asked)
			continue
		}
		for i := range asked {
			if !strings.HasPrefix(asked[i], c.asked[i]) {
				t.Errorf("%s: asked %q, want %q", c.name, asked, c.asked)
			}
		}
	}
}

func TestEntriesAndDescriptors(t *testing.T) {
	broken := errors.New("a token that is none")
	one := httplimit.Entries(func(r *http.Request) ([]descriptor.Entry, error) {
		switch r.URL.Path {
		case "/none":
			return nil, nil
		case "/broken":
			return nil, broken
		}
		return []descriptor.Entry{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}, nil
	})
	many := httplimit.Descriptors(func(*http.Request) ([][]descriptor.Entry, error) {
		return [][]descriptor.Entry{{{Key: "a", Value: "1"}}, {{Key: "b", Value: "2"}}}, nil
	})
	teapot := httplimit.Options{Identify: one, IdentifyStatus: func(err error) int {
		if errors.Is(err, broken) {
			return http.StatusForbidden
		}
		return 0
	}}
	if asked, _ := identified(t, httplimit.Options{Identify: one}, newRequest("GET", "/")); len(asked) != 1 || asked[0] != "a:1,b:2" {
		t.Errorf("entries: asked %q", asked)
	}
	if asked, status := identified(t, teapot, newRequest("GET", "/none")); len(asked) != 0 || status != 200 {
		t.Errorf("no entries: asked %q, status %d", asked, status)
	}
	if asked, status := identified(t, teapot, newRequest("GET", "/broken")); len(asked) != 0 || status != 403 {
		t.Errorf("an error: asked %q, status %d", asked, status)
	}
	if asked, _ := identified(t, httplimit.Options{Identify: many}, newRequest("GET", "/")); len(asked) != 2 || asked[1] != "b:2" {
		t.Errorf("descriptors: asked %q", asked)
	}
}

// TestStatusOfIdentify: whatever a program says of who could not be identified, it is no success,
// no redirect, no denial and no fault of the server.
func TestStatusOfIdentify(t *testing.T) {
	broken := httplimit.Entries(func(*http.Request) ([]descriptor.Entry, error) { return nil, errors.New("broken") })
	for says, want := range map[int]int{0: 400, 200: 400, 302: 400, 399: 400, 400: 400, 403: 403, 429: 400, 499: 499, 500: 400} {
		o := httplimit.Options{Identify: broken, IdentifyStatus: func(error) int { return says }}
		if _, status := identified(t, o, newRequest("GET", "/")); status != want {
			t.Errorf("%d is answered with %d, want %d", says, status, want)
		}
	}
}

// noting allows all, and notes the last that it was asked.
type noting struct{ hits, attributes string }

func (n *noting) Check(_ context.Context, requests []headgate.Request, responses []headgate.Response) error {
	n.hits, n.attributes = "", fmt.Sprint(requests[0].Attributes)
	for _, d := range requests[0].Descriptors {
		n.hits += fmt.Sprint(d.Hits, " ")
	}
	responses[0].Allowed = true
	return nil
}

// TestAddHits: each descriptor has its own cost, between nothing and the most that a limit can count.
func TestAddHits(t *testing.T) {
	n := &noting{}
	m := newMiddleware(t, n, httplimit.Options{Domain: "api", Identify: func(_ *http.Request, s *httplimit.Subject) error {
		s.Add(descriptorEntry("a", "1"))
		s.AddHits(-5, descriptorEntry("b", "1"))
		s.AddHits(7, descriptorEntry("c", "1"))
		s.AddHits(math.MaxInt64, descriptorEntry("d", "1"))
		return nil
	}})
	if ask(m.Wrap(status(200)), newRequest("GET", "/")); n.hits != fmt.Sprintf("1 0 7 %d ", int64(limit.MaxQuota)) {
		t.Errorf("hits %s", n.hits)
	}
}

// TestUnknownLengthIsNoCost: of a body that is sent in chunks nothing is told.
func TestUnknownLengthIsNoCost(t *testing.T) {
	n := &noting{}
	h := newMiddleware(t, n, httplimit.Options{Domain: "api", Attributes: []string{"content_length"}}).Wrap(status(200))
	for length, want := range map[int64]string{-1: "[]", 0: "[{content_length 0}]", 9: "[{content_length 9}]"} {
		r := newRequest("POST", "/")
		r.ContentLength = length
		if ask(h, r); n.attributes != want {
			t.Errorf("length %d: %s, want %s", length, n.attributes, want)
		}
	}
}

func TestRefusalDoesNotEcho(t *testing.T) {
	for _, b := range []httplimit.Body{httplimit.Platform, httplimit.Flat, httplimit.Problem} {
		m := perMinute(t, 5, httplimit.Options{
			Identify: func(*http.Request, *httplimit.Subject) error {
				return fmt.Errorf("%w: s3cret", httplimit.ErrUnidentified)
			},
			Answer:    httplimit.Answer{Body: b},
			Challenge: "Bearer",
		})
		r := ask(m.Wrap(status(200)), newRequest("GET", "/"))
		text := body(t, r)
		if r.StatusCode != 401 || r.Header.Get("Www-Authenticate") != "Bearer" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, header %v", b, r.StatusCode, r.Header)
		}
		if strings.Contains(text, "s3cret") || !strings.HasPrefix(text, "{") {
			t.Errorf("%s: body %q", b, text)
		}
	}
}
