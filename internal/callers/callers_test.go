package callers_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/refusals"
)

// bench is a file of callers and the gates over it.
type bench struct {
	t      *testing.T
	path   string
	file   *callers.File
	counts *refusals.Log
	now    time.Time
	opened map[*headgate.Door]headgate.Rights
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	b := &bench{t: t, path: filepath.Join(t.TempDir(), "callers.yaml"), counts: refusals.New(refusals.Options{}), now: time.Unix(1e9, 0), opened: map[*headgate.Door]headgate.Rights{}}
	b.write(text)
	var err error
	if b.file, err = callers.Load(b.path); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) gate(l callers.Listener, o callers.Options[*headgate.Door]) *callers.Gate[*headgate.Door] {
	o.File, o.Listener = b.file, l
	return b.open(o)
}

func (b *bench) open(o callers.Options[*headgate.Door]) *callers.Gate[*headgate.Door] {
	o.Refusals, o.Door, o.Now = b.counts, refusals.HTTP, func() time.Time { return b.now }
	o.Open = func(_ string, r headgate.Rights) *headgate.Door {
		d := new(headgate.Limiter).Door(headgate.DoorOptions{Rights: r})
		b.opened[d] = r
		return d
	}
	return callers.New(o)
}

// enter returns the rights that s comes in with, or why it does not.
func (b *bench) enter(g *callers.Gate[*headgate.Door], s callers.Shown) (headgate.Rights, refusals.Reason) {
	d, err := g.Enter(s)
	var refused *callers.Refused
	if errors.As(err, &refused) {
		return headgate.Rights{}, refused.Reason
	}
	return b.opened[d], refusals.None
}

func token(t *testing.T, name string, rights ...string) (token, lines string) {
	t.Helper()
	token, lines, err := callers.NewToken(name, rights, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return token, lines
}

// peer is who has shown a certificate that an authority has signed.
func peer(names ...string) *inlet.Peer {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}}
	for _, n := range names[1:] {
		u, _ := url.Parse(n)
		c.URIs = append(c.URIs, u)
	}
	return &inlet.Peer{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}}
}

// TestDoorsAreNamed: who shows a credential comes in by a door of his name at each gate, and by
// the same one again; who shows none by one without a name. A file that was read again says
// anew what he may do.
func TestDoorsAreNamed(t *testing.T) {
	tok, line := token(t, "one", "check")
	other, otherLine := token(t, "two", "check")
	b := newBench(t, "tokens:\n"+line+otherLine+"certificates: [{name: 'cn:cron', rights: [check]}]\nanonymous: {http: [check], grpc: [check]}\n")
	var opened []string
	gate := func(at callers.Listener) *callers.Gate[string] {
		return callers.New(callers.Options[string]{File: b.file, Listener: at, Open: func(caller string, r headgate.Rights) string {
			if caller != "" {
				opened = append(opened, caller)
			}
			return fmt.Sprintf("%v %s %v", at, caller, r.GiveBack)
		}})
	}
	expect := func(g *callers.Gate[string], s callers.Shown, want string) {
		t.Helper()
		for range 2 {
			if got, err := g.Enter(s); err != nil || got != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		}
	}
	http, grpc := gate(callers.HTTP), gate(callers.GRPC)
	expect(http, callers.Shown{}, "http  false")
	expect(http, callers.Shown{Token: tok}, "http one false")
	expect(grpc, callers.Shown{Token: tok}, "grpc one false")
	expect(http, callers.Shown{Token: other}, "http two false")
	expect(http, callers.Shown{Peer: peer("cron")}, "http cert:cn:cron false")
	if len(opened) != 4 {
		t.Errorf("doors were opened for %v", opened)
	}
	b.write("tokens:\n" + strings.Replace(line, "[check]", "[check, give_back]", 1))
	if _, err := b.file.Reload(); err != nil {
		t.Fatal(err)
	}
	expect(http, callers.Shown{Token: tok}, "http one true")
}

// TestRefusedAreNamed: a credential of the file that is refused is named where refusals are
// told, and not to who shows it. One that nobody was given has no name.
func TestRefusedAreNamed(t *testing.T) {
	late, lateLine := token(t, "late", "check")
	weak, weakLine := token(t, "weak", "check")
	b := newBench(t, "tokens:\n"+lateLine+"    expires_at: 2001-09-09T01:46:40Z\n"+weakLine)
	var told []string
	log := refusals.New(refusals.Options{Tell: func(n refusals.Notice) { told = append(told, n.Reason.String()+" "+n.Actor) }})
	g := callers.New(callers.Options[int]{
		File: b.file, Listener: callers.HTTP, Needs: headgate.Rights{Explain: true}, Refusals: log, Door: refusals.HTTP, Now: func() time.Time { return b.now },
		Open: func(string, headgate.Rights) int { return 0 },
	})
	for _, shown := range []string{late, weak, "unknown"} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+shown)
		if _, err := g.HTTP(r); err == nil || strings.Contains(err.Error(), "late") || strings.Contains(err.Error(), "weak") {
			t.Errorf("%v", err)
		}
	}
	if want := "expired late, wrong_scope weak, unknown_token "; strings.Join(told, ", ") != want {
		t.Errorf("told: %s; want %s", strings.Join(told, ", "), want)
	}
}

// TestEnter: who shows what comes in with which rights, at each listener.
func TestEnter(t *testing.T) {
	checks, checksLine := token(t, "checks", "check", "reserve")
	resets, resetsLine := token(t, "resets", "check", "give_back")
	late, lateLine := token(t, "late", "check")
	b := newBench(t, "tokens:\n"+checksLine+resetsLine+"    listeners: [http]\n"+lateLine+"    expires_at: 2001-09-09T01:46:41Z\n"+`
certificates:
- {name: "spiffe://prod/edge/*", rights: [check]}
- {name: "cn:cron", rights: [explain], listeners: [http]}
anonymous: {http: [], grpc: [check], ops: [explain]}
`)
	check := headgate.Rights{Check: true}
	unsigned := peer("cron")
	unsigned.State.VerifiedChains = nil
	for _, c := range []struct {
		at    callers.Listener
		shown callers.Shown
		want  headgate.Rights
		why   refusals.Reason
	}{
		{callers.HTTP, callers.Shown{}, headgate.Rights{}, refusals.NoToken},
		{callers.GRPC, callers.Shown{}, check, 0},
		{callers.Ops, callers.Shown{}, headgate.Rights{Explain: true}, 0},
		{callers.Auth, callers.Shown{}, headgate.Rights{}, refusals.NoToken},
		{callers.HTTP, callers.Shown{Token: checks}, headgate.Rights{Check: true, Reserve: true}, 0},
		{callers.Auth, callers.Shown{Token: checks}, headgate.Rights{Check: true, Reserve: true}, 0},
		{callers.HTTP, callers.Shown{Token: resets}, headgate.Rights{Check: true, GiveBack: true}, 0},
		{callers.GRPC, callers.Shown{Token: resets}, check, 0}, // as those who show nothing
		{callers.Auth, callers.Shown{Token: resets}, headgate.Rights{}, refusals.WrongScope},
		{callers.HTTP, callers.Shown{Token: late}, check, 0},
		{callers.GRPC, callers.Shown{Token: checks + "x"}, headgate.Rights{}, refusals.UnknownToken},
		{callers.GRPC, callers.Shown{Token: checks[:len(checks)-1]}, headgate.Rights{}, refusals.UnknownToken},
		{callers.GRPC, callers.Shown{Malformed: true}, headgate.Rights{}, refusals.Malformed},
		{callers.HTTP, callers.Shown{Peer: peer("x", "spiffe://prod/edge/envoy")}, check, 0},
		{callers.HTTP, callers.Shown{Peer: peer("x", "spiffe://prod/edge")}, headgate.Rights{}, refusals.NoToken},
		{callers.HTTP, callers.Shown{Peer: peer("cron")}, headgate.Rights{Explain: true}, 0},
		{callers.Auth, callers.Shown{Peer: peer("cron")}, headgate.Rights{}, refusals.WrongScope},
		{callers.HTTP, callers.Shown{Peer: unsigned}, headgate.Rights{}, refusals.NoToken},
		{callers.HTTP, callers.Shown{Peer: peer("cron"), Token: checks}, headgate.Rights{Check: true, Reserve: true}, 0},
		{callers.HTTP, callers.Shown{Peer: peer("cron"), Token: "wrong"}, headgate.Rights{}, refusals.UnknownToken},
	} {
		g := b.gate(c.at, callers.Options[*headgate.Door]{})
		for again := range 2 { // what is remembered says the same
			if got, why := b.enter(g, c.shown); got != c.want || why != c.why {
				t.Errorf("%v %+v, time %d: %+v, %v; want %+v, %v", c.at, c.shown, again, got, why, c.want, c.why)
			}
		}
	}
	b.now = b.now.Add(2 * time.Second)
	if _, why := b.enter(b.gate(callers.HTTP, callers.Options[*headgate.Door]{}), callers.Shown{Token: late}); why != refusals.Expired {
		t.Errorf("an expired token: %v", why)
	}
}

// TestUnlistedCertificate: who shows a good certificate that nobody has listed hears that, and not
// that there was none.
func TestUnlistedCertificate(t *testing.T) {
	_, line := token(t, "one", "check")
	g := newBench(t, "tokens:\n"+line).gate(callers.HTTP, callers.Options[*headgate.Door]{})
	unsigned := peer("cron")
	unsigned.State.VerifiedChains = nil
	for _, c := range []struct {
		shown callers.Shown
		want  string
	}{{callers.Shown{Peer: peer("cron")}, "the certificate is good"}, {callers.Shown{Peer: unsigned}, "no token and no certificate"}, {callers.Shown{}, "no token and no certificate"}} {
		if _, err := g.Enter(c.shown); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.shown, err, c.want)
		}
	}
}

// TestClosed: a right that is closed nobody has, by no credential, and neither where there
// is no file.
func TestClosed(t *testing.T) {
	all, line := token(t, "all", headgate.RightCheck, headgate.RightNameLimits, headgate.RightGiveBack, headgate.RightReserve, headgate.RightExplain)
	b := newBench(t, "tokens:\n"+line+"anonymous: {http: [check, give_back]}\n")
	closed := headgate.Rights{GiveBack: true, Explain: true}
	g := b.gate(callers.HTTP, callers.Options[*headgate.Door]{Closed: closed})
	if got, _ := b.enter(g, callers.Shown{Token: all}); got != (headgate.Rights{Check: true, NameLimits: true, Reserve: true}) {
		t.Errorf("by a token: %+v", got)
	}
	if got, _ := b.enter(g, callers.Shown{}); got != (headgate.Rights{Check: true}) {
		t.Errorf("by none: %+v", got)
	}
	open := b.open(callers.Options[*headgate.Door]{Anonymous: headgate.Rights{Check: true, GiveBack: true}, Closed: closed})
	if got, why := b.enter(open, callers.Shown{Token: "whatever", Malformed: true}); got != (headgate.Rights{Check: true}) || why != refusals.None {
		t.Errorf("without a file: %+v, %v", got, why)
	}
}

// TestReload: a token that is taken out is known no more, also to connections that had it,
// and a file that cannot be used changes nothing.
func TestReload(t *testing.T) {
	one, oneLine := token(t, "one", "check")
	two, twoLine := token(t, "two", "check")
	b := newBench(t, "tokens:\n"+oneLine+"certificates: [{name: 'cn:cron', rights: [check]}]\n")
	g, cron := b.gate(callers.HTTP, callers.Options[*headgate.Door]{}), peer("cron")
	state := func(what string, first, second, byCertificate refusals.Reason) {
		t.Helper()
		for i, s := range []callers.Shown{{Token: one}, {Token: two}, {Peer: cron}} {
			if _, why := b.enter(g, s); why != []refusals.Reason{first, second, byCertificate}[i] {
				t.Errorf("%s: %d: %v", what, i, why)
			}
		}
	}
	state("at first", refusals.None, refusals.UnknownToken, refusals.None)
	b.write("tokens: 7\n")
	if changed, err := b.file.Reload(); !changed || err == nil || !strings.Contains(err.Error(), b.path) {
		t.Fatalf("Reload: %v, %v", changed, err)
	}
	state("after a bad file", refusals.None, refusals.UnknownToken, refusals.None)
	b.write("tokens:\n" + twoLine)
	if changed, err := b.file.Reload(); !changed || err != nil {
		t.Fatalf("Reload: %v, %v", changed, err)
	}
	state("after a change", refusals.UnknownToken, refusals.None, refusals.NoToken)
}

// TestManyTokens: all tokens of a full file are known, though not all have room in the
// memory, and none is taken for another.
func TestManyTokens(t *testing.T) {
	var text strings.Builder
	text.WriteString("tokens:\n")
	all := make([]string, 1000)
	for i := range all {
		rights := "check"
		if i%2 == 1 {
			rights = "reserve"
		}
		var line string
		all[i], line = token(t, fmt.Sprintf("t%d", i), rights)
		text.WriteString(line)
	}
	b := newBench(t, text.String())
	g := b.gate(callers.HTTP, callers.Options[*headgate.Door]{})
	for range 2 {
		for i := range all {
			if got, why := b.enter(g, callers.Shown{Token: all[i]}); why != refusals.None || got.Check != (i%2 == 0) {
				t.Fatalf("token %d: %+v, %v", i, got, why)
			}
		}
	}
}

// TestEnterAllocatesNothing: neither by a token nor by a certificate.
func TestEnterAllocatesNothing(t *testing.T) {
	tok, line := token(t, "one", "check")
	b := newBench(t, "tokens:\n"+line+"certificates: [{name: 'cn:cron', rights: [check]}]\n")
	g := b.gate(callers.HTTP, callers.Options[*headgate.Door]{})
	r := httptest.NewRequest(http.MethodPost, "/v1/check", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+tok)
	by := peer("cron")
	for what, enter := range map[string]func() error{
		"token":       func() error { _, err := g.HTTP(r); return err },
		"certificate": func() error { _, err := g.Enter(callers.Shown{Peer: by}); return err },
	} {
		if err := enter(); err != nil {
			t.Fatal(err)
		}
		if n := alloctest.PerRun(100, func() { _ = enter() }); n != 0 {
			t.Errorf("by a %s: %v allocations", what, n)
		}
	}
}

// TestHTTP: what a request shows, and what one that is refused hears.
func TestHTTP(t *testing.T) {
	tok, line := token(t, "one", "check")
	b := newBench(t, "tokens:\n"+line)
	g := b.gate(callers.HTTP, callers.Options[*headgate.Door]{})
	for _, c := range []struct {
		header    http.Header
		status    int
		challenge string
	}{
		{http.Header{"Authorization": {"Bearer " + tok}}, 200, ""},
		{http.Header{"Authorization": {"bearer " + tok}}, 200, ""},
		{http.Header{"Authorization": {"Bearer   " + tok}}, 200, ""}, // 1*SP of RFC 6750, section 2.1
		{http.Header{"Authorization": {"Bearer\t" + tok}}, 401, "invalid_token"},
		{http.Header{"Authorization": {" Bearer " + tok}}, 401, "invalid_token"},
		{http.Header{"Authorization": {"Bearer  "}}, 401, "invalid_token"},
		{http.Header{"X-Headgate-Token": {tok}, "Authorization": {"Basic eA=="}}, 200, ""},
		{http.Header{"X-Headgate-Token": {tok, tok}}, 401, "invalid_token"},
		{http.Header{"X-Headgate-Token": {""}}, 401, "invalid_token"},
		{http.Header{"X-Headgate-Token": {"x"}, "Authorization": {"Bearer " + tok}}, 401, "invalid_token"},
		{http.Header{"Authorization": {"Basic eA=="}}, 401, "invalid_token"},
		{http.Header{"Authorization": {"Bearer " + tok, "Bearer " + tok}}, 401, "invalid_token"},
		{http.Header{"Authorization": {"Bearer " + tok + " "}}, 401, "invalid_token"},
		{http.Header{"Authorization": {"Bearer"}}, 401, "invalid_token"},
		{http.Header{}, 401, `realm="headgate"`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Header = c.header
		_, err := g.HTTP(r)
		if (err != nil) != (c.status != 200) {
			t.Errorf("%v: %v", c.header, err)
		}
		if err == nil {
			continue
		}
		answer := http.Header{}
		if own := c.header["X-Headgate-Token"] != nil; c.challenge == "invalid_token" && own && strings.Contains(err.Error(), "Authorization") {
			t.Errorf("%v: %v", c.header, err)
		}
		if status, challenge := callers.Answer(answer, err), answer.Get("WWW-Authenticate"); status != c.status || !strings.Contains(challenge, c.challenge) || strings.Contains(err.Error(), tok) {
			t.Errorf("%v: %d %q %v", c.header, status, challenge, err)
		}
	}
}

// deadlined is a connection that notes until when it is read from.
type deadlined struct {
	http.ResponseWriter
	until time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.until = t
	return nil
}

// TestKeepOut: who is refused does not hold a connection by a body that does not come.
func TestKeepOut(t *testing.T) {
	_, line := token(t, "one", "check")
	_, err := newBench(t, "tokens:\n"+line).gate(callers.HTTP, callers.Options[*headgate.Door]{}).HTTP(httptest.NewRequest(http.MethodPost, "/", http.NoBody))
	w := &deadlined{ResponseWriter: httptest.NewRecorder()}
	if status := callers.KeepOut(w, err); status != http.StatusUnauthorized || w.until.IsZero() || w.until.After(time.Now().Add(time.Second)) {
		t.Errorf("%d, reads until %v", status, w.until)
	}
	if status := callers.KeepOut(httptest.NewRecorder(), err); status != http.StatusUnauthorized {
		t.Errorf("a writer without deadlines: %d", status)
	}
}

// TestWrongTokens: an address that shows many wrong tokens is hung up on, each refusal is
// counted, and who shows a right one comes in from there as from anywhere.
func TestWrongTokens(t *testing.T) {
	tok, line := token(t, "one", "check")
	b := newBench(t, "tokens:\n"+line)
	g := b.gate(callers.HTTP, callers.Options[*headgate.Door]{})
	ask := func(from, token string) (hungUp bool, err error) {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.RemoteAddr = from
		r.Header.Set("Authorization", "Bearer "+token)
		_, err = g.HTTP(r)
		answer := http.Header{}
		if err != nil && callers.Answer(answer, err) != http.StatusUnauthorized {
			t.Errorf("%v is not 401", err)
		}
		return answer.Get("Connection") == "close", err
	}
	hungUp := 0
	for i := range 50 {
		if up, err := ask(fmt.Sprintf("[2001:db8::%x]:%d", i, i+1), "wrong"); up { // one network
			hungUp++
		} else if err == nil {
			t.Fatal("a wrong token comes in")
		}
	}
	if hungUp != 30 {
		t.Errorf("%d of 50 were hung up on, want all after 20", hungUp)
	}
	if up, err := ask("[2001:db8::1]:9", tok); up || err != nil {
		t.Errorf("the right token from there: %v", err)
	}
	b.now = b.now.Add(time.Second)
	if up, _ := ask("[2001:db8::1]:9", "wrong"); up {
		t.Error("a second later one more is told")
	}
	for _, c := range b.counts.Counts() {
		if c.Reason == refusals.UnknownToken && c.Total != 51 {
			t.Errorf("%d were counted", c.Total)
		}
	}
}

// TestBadFiles: what is wrong is said with a hint, and without a digest.
func TestBadFiles(t *testing.T) {
	_, line := token(t, "one", "check")
	digest := strings.Split(line, "\"")[3]
	for _, c := range []struct{ text, want string }{
		{"", "headgate caller token"},
		{"tokens: []", "nobody may ask"},
		{"tokens: []\ncertificates: []\nanonymous: {http: [], ops: []}", "nobody may ask"},
		{"token: []", "unknown key"},
		{"tokens: [{name: a, sha256: abc, rights: [check]}]", "hexadecimal"},
		{"tokens: [{name: 'a b', sha256: " + digest + ", rights: [check]}]", "name of a token"},
		{"tokens: [{name: a, sha256: " + digest + "}]", "no rights"},
		{"tokens: [{name: a, sha256: " + digest + ", rights: [all]}]", "give_back"},
		{"tokens: [{name: a, sha256: " + digest + ", rights: [check], listeners: [admin]}]", "http, grpc"},
		{"tokens: [{name: a, sha256: " + digest + ", rights: [check], listeners: []}]", "listeners: an empty list"},
		{"tokens: [{name: a, sha256: " + digest + ", rights: [check], expires_at: 0001-01-01T00:00:00Z}]", "the year 1 is over"},
		{"tokens:\n" + line + line, "the same token twice"},
		{"certificates: [{name: envoy, rights: [check]}]", "name of a certificate"},
		{"certificates: [{name: 'cn:a', rights: [check]}, {name: 'cn:a', rights: [check]}]", "the same name twice"},
		{"anonymous: {smtp: [check]}", "listener"},
		{"anonymous: {http: [everything]}", "right"},
		{"anonymous: {auth: [check]}", "--auth-peers"},
	} {
		path := filepath.Join(t.TempDir(), "callers.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := callers.Load(path)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), digest) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// FuzzFile: no bytes make a file that panics, or that lets somebody in by a token that it
// does not list.
func FuzzFile(f *testing.F) {
	f.Add("tokens: [{name: a, sha256: " + strings.Repeat("ab", 32) + ", rights: [check]}]\nanonymous: {http: [check]}\n")
	f.Add("certificates: [{name: 'dns:*.a', rights: [explain], expires_at: 2027-01-01T00:00:00Z}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "callers.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := callers.Load(path)
		if err != nil {
			return
		}
		g := callers.New(callers.Options[*headgate.Door]{File: file, Open: func(string, headgate.Rights) *headgate.Door { return new(headgate.Door) }})
		if _, err := g.Enter(callers.Shown{Token: "hgct_nobody has this one"}); err == nil {
			t.Error("an unknown token comes in")
		}
	})
}

func BenchmarkEnter(b *testing.B) {
	tok, line, err := callers.NewToken("one", []string{"check"}, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "callers.yaml")
	if err := os.WriteFile(path, []byte("tokens:\n"+line+"certificates: [{name: 'cn:cron', rights: [check]}]\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	file, err := callers.Load(path)
	if err != nil {
		b.Fatal(err)
	}
	g := callers.New(callers.Options[*headgate.Door]{File: file, Open: func(string, headgate.Rights) *headgate.Door { return new(headgate.Door) }})
	for name, s := range map[string]callers.Shown{"token": {Token: tok}, "certificate": {Peer: peer("cron")}, "wrong": {Token: tok + "x"}, "nothing": {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = g.Enter(s)
			}
		})
	}
}
