package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseKeySet(t *testing.T) {
	s := signers()
	usable := jwk(t, "e", &s.ec.PublicKey, "")
	for _, test := range []struct {
		name, set  string
		keys, skip int
		err        string
	}{
		{"all kinds", allKeys(t), 6, 0, ""},
		{"for signatures", keySet(jwk(t, "e", &s.ec.PublicKey, `,"use":"sig","key_ops":["verify"],"alg":"ES256"`)), 1, 0, ""},
		{"unknown kind beside", keySet(`{"kty":"AKP","kid":"x"}`, usable), 1, 1, ""},
		{"for encryption", keySet(jwk(t, "x", &s.ec.PublicKey, `,"use":"enc"`), usable), 1, 1, ""},
		{"for signing", keySet(jwk(t, "x", &s.ec.PublicKey, `,"key_ops":["sign"]`), usable), 1, 1, ""},
		{"algorithm of another kind", keySet(jwk(t, "x", &s.ec.PublicKey, `,"alg":"RS256"`), usable), 1, 1, ""},
		{"weak", keySet(jwk(t, "x", &s.weak.PublicKey, ""), usable), 1, 1, ""},
		{"private", keySet(jwk(t, "x", s.ec, ""), usable), 1, 1, ""},
		{"symmetric", keySet(`{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0","kid":"x","alg":"HS256"}`, usable), 1, 1, ""},
		{"name too long", keySet(jwk(t, strings.Repeat("x", maxKeyID+1), &s.ec.PublicKey, ""), usable), 1, 1, ""},
		{"no object beside", keySet("7", usable), 1, 1, ""},
		{"three of one name", keySet(usable, usable, usable), 2, 1, ""},
		{"nothing usable", keySet(`{"kty":"AKP"}`), 0, 0, "no usable key"},
		{"empty", keySet(), 0, 0, "no usable key"},
		{"no keys", `{}`, 0, 0, "no usable key"},
		{"no JSON", `<html>`, 0, 0, "not a JSON Web Key Set"},
		{"too many", keySet(slicesOf("{}", MaxKeys+1)...), 0, 0, "at most"},
		{"too long", strings.Repeat(" ", MaxKeySet+1), 0, 0, "longer than"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ring, err := parseKeySet([]byte(test.set))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("%v, want %q", err, test.err)
				}
				return
			}
			if err != nil || len(ring.keys) != test.keys || ring.skipped != test.skip {
				t.Fatalf("%+v, %v; want %d keys, %d skipped", ring, err, test.keys, test.skip)
			}
		})
	}
}

// publisher serves what it is told to, and counts.
type publisher struct {
	mu     sync.Mutex
	set    string
	status int
	tag    string
	asked  int
	served int
}

func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.tag != "" {
		w.Header().Set("ETag", p.tag)
		if r.Header.Get("If-None-Match") == p.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if p.status != 0 {
		w.WriteHeader(p.status)
		return
	}
	p.served++
	_, _ = io.WriteString(w, p.set)
}

func (p *publisher) tell(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// published starts a publisher and a KeySet on it, at noon.
func published(t *testing.T, p http.Handler, change func(*KeySetOptions)) (*KeySet, func(time.Duration)) {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	var mu sync.Mutex
	now := noon
	o := KeySetOptions{URL: server.URL + "/jwks?secret=canary", AllowLoopback: true, MaxAge: time.Hour, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}
	if change != nil {
		change(&o)
	}
	k, err := NewKeySet(o)
	if err != nil {
		t.Fatal(err)
	}
	return k, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
}

// G1: keys rotate while tokens come in; nothing waits for the publisher, and a
// token of a new key is good as soon as the key has come.
func TestG1Rotation(t *testing.T) {
	s := signers()
	p := &publisher{set: keySet(jwk(t, "1", &s.ec.PublicKey, ""))}
	refreshed := make(chan error, 10)
	k, _ := published(t, p, func(o *KeySetOptions) {
		o.Refresh, o.MinRefresh, o.Now = time.Hour, time.Nanosecond, nil
		o.OnRefresh = func(err error) { refreshed <- err }
	})
	v, now := verifier(t, k), time.Now()
	payload := claims("exp", fmt.Sprint(now.Unix()+600), "iat", "", "nbf", "")
	first := sign(t, s.ec, `{"alg":"ES256","kid":"1"}`, payload)
	second := sign(t, s.other, `{"alg":"ES256","kid":"2"}`, payload)
	expect := func(token string, want Reason) {
		t.Helper()
		if _, got := v.Verify(token, now); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	expect(first, TokenNoKeys)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	if err := <-refreshed; err != nil {
		t.Fatal(err)
	}
	expect(first, 0)
	p.tell(func() { p.set = keySet(jwk(t, "1", &s.ec.PublicKey, ""), jwk(t, "2", &s.other.PublicKey, "")) })
	expect(second, TokenUnknownKey)
	if err := <-refreshed; err != nil {
		t.Fatal(err)
	}
	expect(second, 0)
	expect(first, 0)
	p.tell(func() { p.set = keySet(jwk(t, "2", &s.other.PublicKey, "")) })
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(second, 0)
	expect(first, TokenUnknownKey)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// lookup is what a token with such a header meets.
func lookup(k *KeySet, id string, now time.Time) Reason {
	ring := k.inForce(now)
	if ring == nil {
		k.want()
		return TokenNoKeys
	}
	if len(ring.find(id, ES256)) == 0 {
		k.miss()
		return TokenUnknownKey
	}
	return 0
}

func TestLastGoodKeysAreKeptForMaxAge(t *testing.T) {
	s := signers()
	p := &publisher{set: keySet(jwk(t, "e", &s.ec.PublicKey, "")), tag: `"v1"`}
	k, pass := published(t, p, nil)
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]string{"junk": "<html>", "nothing usable": keySet(), "too long": strings.Repeat(" ", MaxKeySet+9)} {
		p.tell(func() { p.set, p.tag = set, "" })
		if err := k.Refresh(t.Context()); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.tell(func() { p.status = http.StatusInternalServerError })
	if err := k.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "status 500") {
		t.Error(err)
	}
	if reason := lookup(k, "e", noon.Add(time.Hour)); reason != 0 {
		t.Errorf("%v at MaxAge", reason)
	}
	if reason := lookup(k, "e", noon.Add(time.Hour+1)); reason != TokenNoKeys {
		t.Errorf("%v beyond MaxAge, want TokenNoKeys", reason)
	}
	if s := k.Stats(); s.Reads != 5 || s.Failures != 4 || s.Keys != 1 || !s.LastRead.Equal(noon) {
		t.Errorf("%+v", s)
	}
	pass(2 * time.Hour)
	p.tell(func() { p.status, p.set = 0, keySet(jwk(t, "e", &s.ec.PublicKey, "")) })
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reason := lookup(k, "e", noon.Add(2*time.Hour)); reason != 0 {
		t.Errorf("%v after the publisher came back", reason)
	}
}

func TestUnchangedKeysAreFreshAgain(t *testing.T) {
	s := signers()
	p := &publisher{set: keySet(jwk(t, "e", &s.ec.PublicKey, "")), tag: `"v1"`}
	k, pass := published(t, p, nil)
	for range 3 {
		pass(50 * time.Minute)
		if err := k.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if p.asked != 3 || p.served != 1 || !k.Stats().LastRead.Equal(noon.Add(150*time.Minute)) {
		t.Errorf("asked %d times, served %d, %+v", p.asked, p.served, k.Stats())
	}
}

func TestKeysThatNeverEnd(t *testing.T) {
	release := make(chan struct{})
	k, _ := published(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"keys":[`)
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}), func(o *KeySetOptions) { o.FetchLimit = time.Millisecond })
	defer close(release)
	if err := k.Refresh(t.Context()); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}
}

func TestRedirectsStaySafe(t *testing.T) {
	k, _ := published(t, http.RedirectHandler("http://keys.invalid/canary", http.StatusFound), nil)
	if err := k.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "not https") || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}
	var server http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }
	k, _ = published(t, server, nil)
	if err := k.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "too far") {
		t.Error(err)
	}
}

// scripted is a source whose reads are counted in virtual time.
type scripted struct {
	at    []time.Duration
	start time.Time
	err   error
	set   string
}

func (s *scripted) forget() {}

func (s *scripted) read(context.Context) ([]byte, error) {
	s.at = append(s.at, time.Since(s.start))
	return []byte(s.set), s.err
}

// run drives a KeySet with a source in virtual time for d, with tokens of an
// unknown key from `unknownFrom` on, ten a second.
func run(t *testing.T, source *scripted, d, unknownFrom time.Duration) []time.Duration {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, err := NewKeySet(KeySetOptions{File: "unused"})
		if err != nil {
			t.Fatal(err)
		}
		source.start, k.source = time.Now(), source
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		go func() {
			timer := time.NewTimer(unknownFrom)
			for {
				select {
				case <-ctx.Done():
					return
				case <-timer.C:
					lookup(k, "nobody", time.Now())
					timer.Reset(100 * time.Millisecond)
				}
			}
		}()
		if err := k.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	return source.at
}

func TestRunReadsNowAndThen(t *testing.T) {
	s := signers()
	at := run(t, &scripted{set: keySet(jwk(t, "e", &s.ec.PublicKey, ""))}, time.Hour, 2*time.Hour)
	if len(at) < 6 || len(at) > 7 || at[0] != 0 {
		t.Fatalf("read at %v", at)
	}
	for i := range at[1:] {
		if pause := at[i+1] - at[i]; pause < DefaultRefresh || pause > DefaultRefresh+DefaultRefresh/10 {
			t.Errorf("pause of %v", pause)
		}
	}
}

func TestUnknownKeysDoNotFloodThePublisher(t *testing.T) {
	s := signers()
	at := run(t, &scripted{set: keySet(jwk(t, "e", &s.ec.PublicKey, ""))}, 59*time.Second, 0)
	if len(at) != 6 {
		t.Fatalf("read at %v, want every %v", at, DefaultMinRefresh)
	}
	for i := range at[1:] {
		if pause := at[i+1] - at[i]; pause < DefaultMinRefresh {
			t.Errorf("pause of %v", pause)
		}
	}
}

func TestFailuresBackOff(t *testing.T) {
	at := run(t, &scripted{err: os.ErrNotExist}, 10*time.Minute, time.Hour)
	want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second}
	if len(at) != len(want) {
		t.Fatalf("read at %v, want %v", at, want)
	}
	for i := range at {
		if at[i] != want[i] {
			t.Errorf("read at %v, want %v", at, want)
		}
	}
}

func TestRefreshPlanNeverOverflows(t *testing.T) {
	p := refreshPlan{every: 24 * time.Hour, least: 24 * time.Hour}
	for range 1000 {
		p.done(noon, true, 0.5)
		if due := p.next(true); due.Before(noon.Add(24*time.Hour)) || due.After(noon.Add(27*time.Hour)) {
			t.Fatalf("due %v", due)
		}
	}
}

func TestKeySetOptions(t *testing.T) {
	for _, test := range []struct {
		o     KeySetOptions
		field string
	}{
		{KeySetOptions{}, "URL"},
		{KeySetOptions{URL: "https://a.example", File: "f"}, "URL"},
		{KeySetOptions{URL: "http://issuer.example/canary"}, "URL"},
		{KeySetOptions{URL: "http://issuer.example/canary", AllowLoopback: true}, "URL"},
		{KeySetOptions{URL: "http://127.0.0.1/canary"}, "URL"},
		{KeySetOptions{URL: "https://user:canary@issuer.example/"}, "URL"},
		{KeySetOptions{URL: "canary"}, "URL"},
		{KeySetOptions{URL: "file:///canary"}, "URL"},
		{KeySetOptions{File: "f", Refresh: time.Millisecond}, "Refresh"},
		{KeySetOptions{File: "f", MinRefresh: time.Hour}, "MinRefresh"},
		{KeySetOptions{File: "f", MaxAge: time.Minute}, "MaxAge"},
		{KeySetOptions{File: "f", FetchLimit: time.Hour}, "FetchLimit"},
	} {
		_, err := NewKeySet(test.o)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != test.field || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: %v, want a ConfigError of %s", test.o, err, test.field)
		}
	}
	for _, address := range []string{"http://127.0.0.1:1/", "http://localhost/", "http://[::1]:1/"} {
		if _, err := NewKeySet(KeySetOptions{URL: address, AllowLoopback: true}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
