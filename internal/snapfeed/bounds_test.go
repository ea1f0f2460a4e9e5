package snapfeed

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestQuestions: what is asked is bounded, and what is no question is refused.
func TestQuestions(t *testing.T) {
	long := strings.Repeat("x", maxHead+1)
	for query, good := range map[string]bool{
		"":                                       true,
		"wait=0&version=0":                       true,
		"wait=30&version=7":                      true,
		"wait=31":                                false,
		"wait=-1":                                false,
		"wait=1.5":                               false,
		"version=-1":                             false,
		"version=x":                              false,
		"version=9223372036854775808":            true,
		"nonce=" + strings.Repeat("n", maxNonce): true,
		"nonce=" + strings.Repeat("n", maxNonce+1):     false,
		"digest=" + long[1:] + "&settings=" + long[1:]: true,
		"digest=" + long:   false,
		"settings=" + long: false,
		"version=%zz":      false,
	} {
		if query == "version=9223372036854775808" {
			good = false
		}
		r := httptest.NewRequest(http.MethodGet, "/snapshot", nil)
		r.URL.RawQuery = query
		if _, err := parseQuestion(r); (err == nil) != good {
			t.Errorf("%.40q: %v", query, err)
		}
	}
}

// TestHeads: what no message says is refused.
func TestHeads(t *testing.T) {
	whole := func() *message {
		return &message{head: head{Format: format, From: point(5), To: point(7), Settings: "x"}, Accounts: []tenant.Account{account("a", "pro")}, Changed: &sqltenant.Settings{Version: 7}}
	}
	sum := strings.Repeat("0a", 32)
	for name, c := range map[string]struct {
		change func(m *message)
		good   bool
	}{
		"one":                       {func(*message) {}, true},
		"of nothing new":            {func(m *message) { m.From = m.To }, true},
		"another format":            {func(m *message) { m.Format++ }, false},
		"from below 0":              {func(m *message) { m.From.Version = -1 }, false},
		"backwards":                 {func(m *message) { m.From.Version = 8 }, false},
		"all without a base":        {func(m *message) { m.Full = true }, false},
		"all of another base":       {func(m *message) { m.Full, m.Base = true, &Base{Point: point(4), SHA256: sum, Size: 1} }, false},
		"all":                       {func(m *message) { m.Full, m.Base = true, &Base{Point: point(5), SHA256: sum, Size: 1} }, true},
		"a base of nothing":         {func(m *message) { m.Base = &Base{Point: point(5), SHA256: sum} }, false},
		"a base that is too large":  {func(m *message) { m.Base = &Base{Point: point(5), SHA256: sum, Size: maxBase + 1} }, false},
		"a base by no name":         {func(m *message) { m.Base = &Base{Point: point(5), SHA256: "../../etc/passwd", Size: 1} }, false},
		"a base by half a name":     {func(m *message) { m.Base = &Base{Point: point(5), SHA256: sum[2:], Size: 1} }, false},
		"a base in capital letters": {func(m *message) { m.Base = &Base{Point: point(5), SHA256: strings.ToUpper(sum), Size: 1} }, false},
	} {
		m := whole()
		c.change(m)
		text, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(text); (err == nil) != c.good || err != nil && !errors.Is(err, errMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The accounts are of another version than the head says.
	text, err := whole().encode()
	if err != nil {
		t.Fatal(err)
	}
	_, accounts, _ := strings.Cut(string(text), "\n")
	later := whole()
	later.To = point(8)
	if text, err = later.encode(); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if _, err := decode([]byte(first + "\n" + accounts)); !errors.Is(err, errMessage) {
		t.Errorf("accounts of another version: %v", err)
	}
}

// asking notes the headers that are sent.
type asking struct {
	http.RoundTripper
	sent []http.Header
}

func (a *asking) RoundTrip(r *http.Request) (*http.Response, error) {
	a.sent = append(a.sent, r.Header.Clone())
	return a.RoundTripper.RoundTrip(r)
}

// TestShowsItsToken: every question shows the token, as it is then, and one is not asked where it
// cannot be read.
func TestShowsItsToken(t *testing.T) {
	a, d, _, _ := started(t)
	notes := &asking{RoundTripper: a}
	token, wrong := "one", error(nil)
	d.options.Client, d.options.Token = notes, func() (string, error) { return token, wrong }
	d.mustPoll()
	token = "two"
	fresh := newDecider(t, a, "", t.TempDir())
	fresh.options.Client, fresh.options.Token, fresh.options.Verifier = notes, d.options.Token, d.options.Verifier
	fresh.mustPoll()
	var shown []string
	for _, h := range notes.sent {
		shown = append(shown, h.Get("Authorization"))
	}
	if got := strings.Join(shown, ", "); got != "Bearer one, Bearer two, Bearer two" {
		t.Errorf("shown: %s", got)
	}
	wrong = errors.New("no such file")
	if err := d.poll(t.Context()); !errors.Is(err, wrong) || len(notes.sent) != 3 {
		t.Errorf("%v, %d questions", err, len(notes.sent))
	}
}

// TestRefusedFilesAreNotKept: what is no file of accounts that was signed leaves nothing behind,
// whether it is too long, too short, or not answered well.
func TestRefusedFilesAreNotKept(t *testing.T) {
	a, _, public, _ := started(t)
	for name, forge := range map[string]func(path string, _ http.Header, body []byte) []byte{
		"another":   func(_ string, _ http.Header, body []byte) []byte { return append([]byte{body[0] ^ 1}, body[1:]...) },
		"too long":  func(_ string, _ http.Header, body []byte) []byte { return append(body, 0) },
		"too short": func(_ string, _ http.Header, body []byte) []byte { return body[:len(body)-1] },
	} {
		a.forge = func(path string, h http.Header, body []byte) []byte {
			if !strings.Contains(path, "/accounts/") {
				return body
			}
			return forge(path, h, body)
		}
		dir := t.TempDir()
		d := newDecider(t, a, public, dir)
		if err := d.poll(t.Context()); !errors.Is(err, ErrRefused) || d.tenants != nil {
			t.Errorf("%s: %v", name, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
}

// answering answers every question with a status.
type answering int

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(int(a))
	return w.Result(), nil
}

// TestStatuses: an answer of another status is none, and says what to do where that is known.
func TestStatuses(t *testing.T) {
	_, d, _, _ := started(t)
	for status, hint := range map[int]string{401: "--admin-urls-token", 403: "--admin-urls-token", 404: "--snapshot-sign-key", 500: "500", 302: "302", 204: "204"} {
		d.options.Client = answering(status)
		if err := d.poll(t.Context()); err == nil || !strings.Contains(err.Error(), hint) || errors.Is(err, ErrRefused) {
			t.Errorf("%d: %v", status, err)
		}
		d.has("a=pro b=free")
	}
}

// TestKeptOfAnotherTime: an answer that is kept and does not follow from what is known is passed over.
func TestKeptOfAnotherTime(t *testing.T) {
	a, d, public, dir := started(t)
	a.change(5, 6, account("a", "max"))
	d.mustPoll()
	a.change(6, 7, account("a", "free"))
	d.mustPoll()
	kept, err := os.ReadFile(d.keptPath())
	if err != nil {
		t.Fatal(err)
	}
	again := newDecider(t, a, public, dir)
	if err := again.restore(); err != nil || again.etag != d.etag || again.etag == "" || again.readAt.Load() == 0 {
		t.Errorf("%v, at %q and not %q", err, again.etag, d.etag)
	}
	again.has("a=free b=free")
	// Without the second of the three answers the third does not follow from what is known.
	var parts [][]byte
	for from := bytes.NewReader(kept); from.Len() > 0; {
		r, err := readReply(from)
		if err != nil {
			t.Fatal(err)
		}
		part, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	if len(parts) != 3 {
		t.Fatalf("%d answers are kept", len(parts))
	}
	write(t, d.keptPath(), slices.Concat(parts[0], parts[2]))
	again = newDecider(t, a, public, dir)
	if err := again.restore(); err != nil || again.at != point(5) {
		t.Errorf("%v, at %v", err, again.at)
	}
	again.has("a=pro b=free")
	again.mustPoll()
	again.has("a=free b=free")
}
