package snapfeed

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// TestNothingNewIsSigned: that nothing has changed is believed of who has signed it alone, so
// that nobody on the way keeps a decider back who says that it is up to date.
func TestNothingNewIsSigned(t *testing.T) {
	a, d, _, _ := started(t)
	a.forge = func(_ string, h http.Header, body []byte) []byte { h.Del(signatureHeader); return body }
	before := d.ReadAt()
	if err := d.poll(t.Context()); !errors.Is(err, ErrRefused) || !d.ReadAt().Equal(before) {
		t.Errorf("%v, read at %v, before %v", err, d.ReadAt(), before)
	}
}

// TestNoneIsTakenBack: one of two admin processes that is behind takes nobody back, also where
// all is asked for.
func TestNoneIsTakenBack(t *testing.T) {
	a, behind, d := twoAdmins(t)
	a.change(5, 7, account("a", "max"))
	d.mustPoll()
	d.offered, d.Follower.kept = "another file", maxKept+1
	d.options.Client = behind
	if err := d.poll(t.Context()); !errors.Is(err, ErrRefused) || d.at != point(7) {
		t.Errorf("%v, at %v", err, d.at)
	}
	d.has("a=max")
}

// torn is what a process has kept whose last write was cut off, and the paths of it.
func torn(t *testing.T) (a *admin, public, dir string) {
	t.Helper()
	a, d, public, dir := started(t)
	a.change(5, 6, account("a", "max"))
	d.mustPoll()
	kept, err := os.ReadFile(d.keptPath())
	if err != nil || d.Follower.kept != int64(len(kept)) {
		t.Fatalf("%d bytes are kept, %d of them known, %v", len(kept), d.Follower.kept, err)
	}
	write(t, d.keptPath(), kept[:len(kept)-3])
	return a, public, dir
}

// TestKeptAnew: behind an answer that is not whole none is kept, because it would not be read;
// all is fetched and kept anew once there is a newer file.
func TestKeptAnew(t *testing.T) {
	a, public, dir := torn(t)
	d := newDecider(t, a, public, dir)
	if err := d.restore(); err != nil {
		t.Fatal(err)
	}
	a.base(6, account("a", "max"), account("b", "free"))
	d.mustPoll() // hears of the file
	d.mustPoll() // asks for all
	a.change(6, 7, account("b", "pro"))
	d.mustPoll()
	again := newDecider(t, a, public, dir)
	if err := again.restore(); err != nil || again.at != point(7) || len(d.errors) > 0 {
		t.Errorf("%v, at %v, %v", err, again.at, d.errors)
	}
	again.has("a=max b=pro")
}

// TestNotKept: an answer that cannot be kept is put in force and told of, and all is kept anew
// once there is a newer file.
func TestNotKept(t *testing.T) {
	a, d, public, dir := started(t)
	if err := os.Remove(d.keptPath()); err != nil {
		t.Fatal(err)
	}
	a.change(5, 6, account("a", "max"))
	d.mustPoll()
	if d.has("a=max b=free"); len(d.errors) != 1 || !errors.Is(d.errors[0], os.ErrNotExist) {
		t.Errorf("%v", d.errors)
	}
	a.base(6, account("a", "max"), account("b", "free"))
	a.change(6, 7, account("b", "pro"))
	d.mustPoll()
	d.mustPoll()
	again := newDecider(t, a, public, dir)
	if err := again.restore(); err != nil || again.at != point(7) || len(d.errors) != 1 {
		t.Errorf("%v, at %v, %v", err, again.at, d.errors)
	}
	again.has("a=max b=pro")
}

// TestDamagedAccountsAreFetched: a file of accounts that is here is used by what is in it, not
// by its name and its size.
func TestDamagedAccountsAreFetched(t *testing.T) {
	a, d, public, dir := started(t)
	path := d.basePath(d.base)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	write(t, path, damaged)
	again := newDecider(t, a, public, dir)
	if err := again.restore(); err == nil || again.tenants != nil {
		t.Errorf("a damaged file: %v", err)
	}
	again.mustPoll()
	again.has("a=pro b=free")
	if now, err := os.ReadFile(path); err != nil || !slices.Equal(now, whole) {
		t.Errorf("the file is not the one that was signed: %v", err)
	}
}

// TestAnotherHistory: changes from a point of another history are not put behind those that
// are known, though its number is the same.
func TestAnotherHistory(t *testing.T) {
	a, d, _, _ := started(t)
	a.holds = func(context.Context, sqltenant.Point) (bool, error) { return false, nil }
	other := func(version int64) sqltenant.Point {
		return sqltenant.Point{Version: version, Digest: "of another history"}
	}
	a.Page(sqltenant.Page{From: other(5), To: other(6), Accounts: []tenant.Account{account("a", "max")}})
	if err := d.poll(t.Context()); err == nil && !slices.ContainsFunc(d.errors, func(err error) bool { return errors.Is(err, ErrRestored) }) {
		t.Errorf("the changes of another history were taken, at %v", d.at)
	}
}

// TestFits: an answer is one to what was asked: from that point, of that history.
func TestFits(t *testing.T) {
	_, d, _, _ := started(t)
	other := sqltenant.Point{Version: 5, Digest: "of another history"}
	for name, c := range map[string]struct {
		head head
		good bool
	}{
		"what was asked":       {head{From: point(5), To: point(6)}, true},
		"an earlier point":     {head{From: point(4), To: point(6)}, false},
		"a later point":        {head{From: point(6), To: point(6)}, false},
		"another history":      {head{From: other, To: point(6)}, false},
		"all, and no settings": {head{From: point(5), To: point(6), Full: true}, false},
	} {
		if err := d.fits(&message{head: c.head}, point(5)); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneFileIsServed: the file of accounts is served by its own name alone, so that nobody
// takes it for another one.
func TestOneFileIsServed(t *testing.T) {
	a, d, _, _ := started(t)
	for sum, want := range map[string]int{d.base: 200, strings.Repeat("0a", 32): 404, "": 404} {
		w := httptest.NewRecorder()
		if a.ServeBase(w, httptest.NewRequest(http.MethodGet, "/", nil), sum); w.Code != want {
			t.Errorf("%q: %d, want %d", sum, w.Code, want)
		}
	}
}

// TestNewsAreNew: an answer has no changes that were known, and there is none where the file of
// accounts is of a later point than the changes.
func TestNewsAreNew(t *testing.T) {
	a, _, _, _ := started(t)
	a.change(5, 6, account("a", "max"))
	a.change(6, 7, account("b", "pro"))
	m, _, err := a.answer(t.Context(), &question{at: point(6), settings: a.digest})
	if err != nil || len(m.Accounts) != 1 || m.Accounts[0].Subject.Value != "b" {
		t.Errorf("%+v, %v", m, err)
	}
	a.base(8, account("a", "max"))
	if m, _, err := a.answer(t.Context(), &question{}); !errors.Is(err, errNotYet) {
		t.Errorf("%+v, %v", m, err)
	}
}

// After the database was restored, the file of accounts is of another history, also when its
// version has come again: nobody is given it, and all get the next one.
func TestFileOfAnotherHistory(t *testing.T) {
	private, public := testserver.SigningKeys(t)
	a := newAdmin(t, private)
	a.base(5, account("a", "pro"), account("b", "free"))
	a.says(5, "on")
	a.Page(sqltenant.Page{From: point(3), To: point(3), Anew: true})
	a.change(3, 4, account("b", "max"))
	a.change(4, 6, account("c", "max"))
	d := newDecider(t, a, public, t.TempDir())
	if err := d.poll(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	a.base(6, account("b", "max"), account("c", "max"))
	d.mustPoll()
	d.has("b=max c=max")
}
