package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// asked asks a server that answers as answers does.
func asked(t *testing.T, change func(*Config), answers http.HandlerFunc) (*answer, error) {
	t.Helper()
	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	c := newConfig()
	c.URL, c.TimeoutMS = server.URL+"/auth/kong", maxTimeoutMS
	change(c)
	a := newAsker(c)
	t.Cleanup(a.client.CloseIdleConnections)
	return a.ask(t.Context(), &client{header: http.Header{}})
}

// An answer decides if it is 200, or says by its own field which denial it is. Everything else
// is no decision.
func TestWhatIsAnAnswer(t *testing.T) {
	for _, test := range []struct {
		status int
		field  string
		want   int // 0: no decision
	}{
		{200, "", 200}, {200, "429", 200}, {403, "429", 429}, {429, "429", 429}, {503, "400", 400}, {403, "599", 599},
		{429, "", 0}, {403, "200", 0}, {403, "399", 0}, {403, "600", 0}, {403, "4x", 0}, {503, "", 0}, {204, "", 0},
	} {
		got, err := asked(t, func(*Config) {}, func(w http.ResponseWriter, _ *http.Request) {
			if test.field != "" {
				w.Header().Set(statusField, test.field)
			}
			w.WriteHeader(test.status)
		})
		if (err == nil) != (test.want != 0) || err == nil && got.status != test.want {
			t.Errorf("%d with %q: %+v, %v, want %d", test.status, test.field, got, err, test.want)
		}
	}
}

// Who sends the question elsewhere has not decided it.
func TestRedirectsAreNotFollowed(t *testing.T) {
	got, err := asked(t, func(*Config) {}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/auth/kong" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}
	})
	if err == nil {
		t.Errorf("%+v", got)
	}
}

// A body that is too long is left out, and the denial stays one.
func TestBodiesAreBounded(t *testing.T) {
	for length, want := range map[int]int{maxBody: maxBody, maxBody + 1: 0, 4 * maxBody: 0} {
		got, err := asked(t, func(*Config) {}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(statusField, "429")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(strings.Repeat("x", length)))
		})
		if err != nil || got.status != 429 || len(got.body) != want {
			t.Errorf("of %d bytes: %+.80v, %v", length, got, err)
		}
	}
	got, err := asked(t, func(*Config) {}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(statusField, "429")
		w.WriteHeader(http.StatusForbidden)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, maxBody)); err != nil {
				return
			}
		}
	})
	if err != nil || got.status != 429 || len(got.body) > 0 {
		t.Errorf("of a body without an end: %v", err)
	}
	body := &taken{}
	if _, err := read(&http.Response{StatusCode: http.StatusForbidden, Header: http.Header{http.CanonicalHeaderKey(statusField): {"429"}}, Body: body}); err != nil || body.bytes != maxBody+1 {
		t.Errorf("%d bytes are read, %v", body.bytes, err)
	}
}

// taken is a body that counts what is read of it, and fails soon after the bound.
type taken struct{ bytes int }

func (b *taken) Read(p []byte) (int, error) {
	if b.bytes > 4*maxBody {
		return 0, io.ErrUnexpectedEOF
	}
	b.bytes += len(p)
	return len(p), nil
}

func (*taken) Close() error { return nil }

// Only what the configuration names is sent beside what the client is.
func TestWhatHeadgateIsShown(t *testing.T) {
	for _, named := range []bool{true, false} {
		var shown http.Header
		if _, err := asked(t, func(c *Config) {
			if named {
				c.Token, c.CheckIDHeader = "hush", "X-Check"
			}
		}, func(_ http.ResponseWriter, r *http.Request) { shown = r.Header }); err != nil {
			t.Fatal(err)
		}
		if token, id := shown.Get(tokenField), shown.Get("X-Check"); (token == "hush") != named || (len(id) >= 20) != named {
			t.Errorf("named %v: token %q, ID %q", named, token, id)
		}
	}
}

// Failures are logged once in a second.
func TestFailuresAreToldOnceASecond(t *testing.T) {
	var a asker
	at := time.Unix(1_800_000_000, 0)
	for i, want := range []bool{true, false, false, true, false} {
		if got := a.mayTell(at.Add(time.Duration(i) * 400 * time.Millisecond)); got != want {
			t.Errorf("after %d ms: %v", i*400, got)
		}
	}
}
