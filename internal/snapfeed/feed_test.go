package snapfeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/accountfile"
	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func point(version int64) sqltenant.Point {
	return sqltenant.Point{Version: version, Digest: fmt.Sprint("digest ", version)}
}

func account(name, tier string) tenant.Account {
	a := tenant.Account{Subject: tenant.Subject{Key: "tenant", Value: name}}
	if tier != "" {
		a.Tiers = []tenant.Assignment{{Tier: tier}}
	}
	return a
}

// admin is an admin process: a Publisher, and what asks it.
type admin struct {
	t *testing.T
	*Publisher
	// forge, when not nil, changes answers on their way.
	forge func(path string, header http.Header, body []byte) []byte
	// waits are those that were asked for.
	waits []string
	files int
	dir   string
}

func newAdmin(t *testing.T, private string) *admin {
	t.Helper()
	signer, err := signing.LoadSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	a := &admin{t: t, dir: t.TempDir()}
	a.Publisher = NewPublisher(signer, func(_ context.Context, at sqltenant.Point) (bool, error) { return at == point(at.Version), nil })
	return a
}

func (a *admin) base(version int64, accounts ...tenant.Account) {
	a.t.Helper()
	a.files++
	f, err := accountfile.Write(filepath.Join(a.dir, fmt.Sprint(a.files)), point(version), func(yield func(tenant.Account, error) bool) {
		for _, account := range accounts {
			if !yield(account, nil) {
				return
			}
		}
	})
	if err == nil {
		err = a.SetBase(f)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { f.Close() })
}

func (a *admin) says(version int64, text string) {
	a.t.Helper()
	if err := a.SetSettings(sqltenant.Settings{Version: version, Documents: []sqltenant.Document{{
		Kind: sqltenant.SwitchDocument, Name: "all", Text: text, Version: version, UpdatedAt: time.Unix(0, 0).UTC(), UpdatedBy: "ann",
	}}}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *admin) change(from, to int64, accounts ...tenant.Account) {
	a.Page(sqltenant.Page{From: point(from), To: point(to), Accounts: accounts})
}

// RoundTrip answers at once, by way of forge.
func (a *admin) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	if !strings.HasPrefix(r.URL.Path, "/snapshot/accounts/") {
		a.waits = append(a.waits, query.Get("wait"))
	}
	query.Del("wait")
	r.URL.RawQuery = query.Encode()
	w := httptest.NewRecorder()
	if sum, ok := strings.CutPrefix(r.URL.Path, "/snapshot/accounts/"); ok {
		a.ServeBase(w, r, sum)
	} else {
		a.ServeNews(w, r)
	}
	response := w.Result()
	if a.forge != nil {
		body, _ := io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(a.forge(r.URL.Path, response.Header, body)))
	}
	return response, nil
}

// decider follows an admin process.
type decider struct {
	*Follower
	t        *testing.T
	tenants  *tenant.Snapshot
	kept     bool
	switched string
	errors   []error
}

func newDecider(t *testing.T, a *admin, public, dir string) *decider {
	t.Helper()
	d := &decider{t: t}
	d.Follower = NewFollower(FollowerOptions{
		Client: a, Path: "/snapshot", Dir: dir, Token: func() (string, error) { return "", nil },
		Verifier: func() *signing.Verifier {
			v, err := signing.LoadVerifier(public)
			if err != nil {
				t.Fatal(err)
			}
			return v
		},
		OnChange:   func(s *tenant.Snapshot, _ sqltenant.Point, kept bool) { d.tenants, d.kept = s, kept },
		OnSettings: func(s sqltenant.Settings, _ bool) { d.switched = s.Documents[0].Text },
		OnError:    func(err error) { d.errors = append(d.errors, err) },
	})
	return d
}

func (d *decider) mustPoll() {
	d.t.Helper()
	if err := d.poll(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// has fails the test unless the decider knows these tiers, written as name=tier.
func (d *decider) has(want string) {
	d.t.Helper()
	var got []string
	for _, name := range []string{"a", "b", "c"} {
		if tier := d.tierOf(name); tier != "" {
			got = append(got, name+"="+tier)
		}
	}
	if text := strings.Join(got, " "); text != want {
		d.t.Errorf("the decider has %q, want %q", text, want)
	}
}

func (d *decider) tierOf(name string) string {
	if d.tenants == nil {
		return ""
	}
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "none"}, {Name: "free"}, {Name: "pro"}, {Name: "max"}}, "none")
	if err != nil {
		d.t.Fatal(err)
	}
	tier := d.tenants.WithTiers(tiers).Standing(tenant.Subject{Key: "tenant", Value: name}, limit.MicrosOf(time.Now())).Tier()
	return strings.TrimPrefix(tier, "none")
}

// started is an admin process that publishes three accounts, and a decider that knows them.
func started(t *testing.T) (a *admin, d *decider, public, dir string) {
	t.Helper()
	private, public := testserver.SigningKeys(t)
	a, dir = newAdmin(t, private), t.TempDir()
	d = newDecider(t, a, public, dir)
	if err := d.poll(t.Context()); err == nil {
		t.Error("an admin process that knows nothing answers")
	}
	a.base(5, account("a", "pro"), account("b", "free"))
	a.says(5, "off")
	d.mustPoll()
	d.has("a=pro b=free")
	return a, d, public, dir
}

// All at first, then what has changed, and nothing when nothing has.
func TestFollows(t *testing.T) {
	a, d, public, dir := started(t)
	fetched := 0
	a.forge = func(path string, _ http.Header, body []byte) []byte {
		if strings.Contains(path, "/accounts/") {
			fetched++
		}
		return body
	}
	a.change(5, 7, account("b", ""), account("c", "max"))
	a.change(7, 8, account("c", "pro"))
	d.mustPoll()
	d.has("a=pro c=pro")
	a.says(9, "shadow")
	d.mustPoll()
	if d.switched != "shadow" || d.at != point(8) {
		t.Errorf("switched %q, at %v", d.switched, d.at)
	}
	before := d.readAt.Load()
	d.mustPoll()
	if d.readAt.Load() == before || fetched != 0 {
		t.Errorf("nothing is answered, or a file was fetched %d times", fetched)
	}
	// A new file is no reason to fetch it while there are few changes beside the one in use.
	a.base(8, account("a", "pro"), account("c", "pro"))
	a.change(8, 9, account("a", "max"))
	d.mustPoll()
	d.has("a=max c=pro")
	if fetched != 0 {
		t.Error("a file was fetched for one change")
	}
	// Another decider, and this one after a restart.
	other := newDecider(t, a, public, t.TempDir())
	other.mustPoll()
	other.has("a=max c=pro")
	again := newDecider(t, a, public, dir)
	if err := again.restore(); err != nil || !again.kept {
		t.Fatal(err)
	}
	again.has("a=max c=pro")
	if again.switched != "shadow" {
		t.Errorf("switched %q", again.switched)
	}
	again.mustPoll()
	if again.kept || len(d.errors)+len(again.errors) > 0 {
		t.Errorf("kept %t, errors %v %v", again.kept, d.errors, again.errors)
	}
}

// What is signed by nobody who is believed, is of another question, is older or is not
// whole, is refused, and changes nothing.
func TestRefused(t *testing.T) {
	a, d, public, _ := started(t)
	a.change(5, 6, account("a", "max"))
	var recorded []byte
	var header http.Header
	stranger, _ := testserver.SigningKeys(t)
	forger, err := signing.LoadSigner(stranger)
	if err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(path string, h http.Header, body []byte) []byte{
		"a letter changed": func(_ string, _ http.Header, body []byte) []byte {
			return bytes.Replace(body, []byte("max"), []byte("pro"), 1)
		},
		"cut short":            func(_ string, _ http.Header, body []byte) []byte { return body[:len(body)/2] },
		"nothing":              func(string, http.Header, []byte) []byte { return nil },
		"no signature":         func(_ string, h http.Header, body []byte) []byte { h.Del(signatureHeader); return body },
		"garbage as signature": func(_ string, h http.Header, body []byte) []byte { h.Set(signatureHeader, "x"); return body },
		"another tag":          func(_ string, h http.Header, body []byte) []byte { h.Set("ETag", `"9"`); return body },
		"signed by a stranger": func(_ string, h http.Header, body []byte) []byte {
			h.Set(signatureHeader, forger.Sign(signed("", h.Get("ETag"), body)))
			return body
		},
		"more than all": func(_ string, _ http.Header, body []byte) []byte { return append(body, body...) },
		"recorded": func(_ string, h http.Header, body []byte) []byte {
			if recorded == nil {
				recorded, header = body, h.Clone()
				return nil
			}
			for k, v := range header {
				h[k] = v
			}
			return recorded
		},
	} {
		a.forge = forge
		for range 2 {
			if err := d.poll(t.Context()); !errors.Is(err, ErrRefused) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if d.has("a=pro b=free"); d.at != point(5) {
			t.Errorf("%s: at %v", name, d.at)
		}
	}
	// A file that is another than the one that was signed is none.
	a.forge = nil
	d.mustPoll()
	d.has("a=max b=free")
	a.forge = func(path string, _ http.Header, body []byte) []byte {
		if strings.Contains(path, "/accounts/") {
			body = slices.Clone(body)
			body[len(body)/2] ^= 1
		}
		return body
	}
	fresh := newDecider(t, a, public, t.TempDir())
	if err := fresh.poll(t.Context()); !errors.Is(err, ErrRefused) || fresh.tenants != nil {
		t.Errorf("another file: %v", err)
	}
}

// While nothing is known, and after a failure, who asks wants to know at once where it
// stands: only then news are waited for. A failure says what the admin process says.
func TestWaitsOnlyForNews(t *testing.T) {
	private, public := testserver.SigningKeys(t)
	a := newAdmin(t, private)
	d := newDecider(t, a, public, t.TempDir())
	if err := d.poll(t.Context()); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: \"what the database of tenants says is not known here yet") {
		t.Errorf("%v", err)
	}
	d.failing = true // as Run has it
	a.base(3, account("ann", "pro"))
	a.says(3, "on")
	d.mustPoll()
	d.failing = false
	d.mustPoll()
	if want := []string{"", "", "20"}; !slices.Equal(a.waits, want) {
		t.Errorf("waits are %q, want %q", a.waits, want)
	}
}

// twoAdmins are two admin processes that know the same, and a decider that follows the first.
func twoAdmins(t *testing.T) (a, b *admin, d *decider) {
	t.Helper()
	private, public := testserver.SigningKeys(t)
	a, b = newAdmin(t, private), newAdmin(t, private)
	for _, one := range []*admin{a, b} {
		one.base(5, account("a", "pro"))
		one.says(5, "off")
	}
	return a, b, newDecider(t, a, public, t.TempDir())
}

// One of two admin processes that is behind takes no decider back; a database that was
// restored does.
func TestBehindAndRestored(t *testing.T) {
	a, b, d := twoAdmins(t)
	a.change(5, 7, account("a", "max"), account("b", "free"))
	d.mustPoll()
	d.options.Client = b
	d.mustPoll() // 304: it has not come so far
	d.has("a=max b=free")
	b.change(5, 6, account("b", "free"))
	b.change(6, 9, account("a", "free"))
	d.mustPoll() // from 7, which is none of its pages
	d.has("a=free b=free")

	b.Publisher.holds = func(_ context.Context, at sqltenant.Point) (bool, error) { return at.Version < 4, nil }
	b.Page(sqltenant.Page{From: point(3), To: point(3), Anew: true})
	if err := d.poll(t.Context()); err == nil {
		t.Error("there is no file of the new history, and it answers")
	}
	d.has("a=free b=free")
	b.base(3, account("c", "pro"))
	d.mustPoll()
	d.has("c=pro")
	if d.at != point(3) || len(d.errors) != 1 || !errors.Is(d.errors[0], ErrRestored) {
		t.Errorf("at %v, %v", d.at, d.errors)
	}
}

// Keys are exchanged: whose are believed is a list.
func TestKeysRotate(t *testing.T) {
	a, d, public, _ := started(t)
	other, otherPublic := testserver.SigningKeys(t)
	signer, err := signing.LoadSigner(other)
	if err != nil {
		t.Fatal(err)
	}
	a.signer = signer
	a.change(5, 6, account("a", "max"))
	if err := d.poll(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("a key that is not listed: %v", err)
	}
	one, err1 := os.ReadFile(public)
	two, err2 := os.ReadFile(otherPublic)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	write(t, public, append(one, two...))
	d.mustPoll()
	d.has("a=max b=free")
	for _, bad := range []string{other, filepath.Join(t.TempDir(), "absent")} {
		if _, err := signing.LoadVerifier(bad); err == nil || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%v", err)
		}
	}
	if _, err := signing.LoadSigner(public); err == nil || !strings.Contains(err.Error(), "hint: `openssl") {
		t.Errorf("%v", err)
	}
}

// What is kept is verified again; what a killed process has left half written, and what
// was changed, is passed over, and all is fetched in time.
func TestKeptIsVerified(t *testing.T) {
	a, d, public, dir := started(t)
	a.change(5, 6, account("a", "max"))
	d.mustPoll()
	kept, err := os.ReadFile(d.keptPath())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"whole":           {kept, "a=max b=free"},
		"half written":    {kept[:len(kept)-3], "a=pro b=free"},
		"changed at last": {bytes.Replace(kept, []byte("max"), []byte("pro"), 1), "a=pro b=free"},
		"garbage":         {[]byte("garbage"), ""},
		"empty":           {nil, ""},
	} {
		write(t, d.keptPath(), c.data)
		again := newDecider(t, a, public, dir)
		_ = again.restore()
		t.Log(name)
		again.has(c.want)
		again.mustPoll()
		again.has("a=max b=free")
	}
	write(t, d.keptPath(), kept)
	write(t, d.basePath(d.base), []byte("garbage"))
	again := newDecider(t, a, public, dir)
	if err := again.restore(); err == nil || again.tenants != nil {
		t.Errorf("a file of garbage: %v", err)
	}
	again.mustPoll()
	again.has("a=max b=free")
}

// FuzzDecode holds that no message, whatever its bytes, makes a panic, and that what is
// taken is written as it can be taken again.
func FuzzDecode(f *testing.F) {
	m := &message{head: head{Format: format, From: point(5), To: point(7), Settings: "x"}, Accounts: []tenant.Account{account("a", "pro"), account("b", "")}, Changed: &sqltenant.Settings{Version: 7}}
	good, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":1,"from":{"Version":0,"Digest":""},"to":{"Version":0,"Digest":""},"full":true}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Skip("an account that no file keeps")
		}
		if _, err := decode(again); err != nil {
			t.Fatalf("%q became %q: %v", data, again, err)
		}
	})
}

// FuzzKept holds that no file of answers makes a panic.
func FuzzKept(f *testing.F) {
	data, err := (&reply{Nonce: "n", ETag: "e", Signature: "s", body: []byte("body")}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bytes.NewReader(data)
		for range 10 {
			if _, err := readReply(from); err != nil {
				return
			}
		}
	})
}
