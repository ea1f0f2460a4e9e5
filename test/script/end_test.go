package script

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// TestHungFileDoesNotHoldTheEnd: a file that cannot be read, nor the read interrupted, as on
// a disk of a network that has gone, does not keep the process from saying how it is, nor from
// ending. Whoever opens a file
// on which somebody else has a lease waits until it is given back, or for 45 seconds.
func TestHungFileDoesNotHoldTheEnd(t *testing.T) {
	const text = "tiers: {free: {default: [{requests_per_unit: 1, unit: hour}]}}\n"
	tiers := filepath.Join(t.TempDir(), "tiers.yaml")
	if err := os.WriteFile(tiers, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, "--tiers="+tiers)
	hung, err := os.OpenFile(tiers+".new", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	if _, err := hung.WriteString("# changed\n" + text); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(hung.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("a lease on a file: %v; hint: is TMPDIR on a disk of this machine?", err)
	}
	if err := os.Rename(hung.Name(), tiers); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the file is being opened", func() bool {
		lease, err := unix.FcntlInt(hung.Fd(), unix.F_GETLEASE, 0)
		return err == nil && lease == unix.F_RDLCK // which is what this one shall become
	})
	get(t, "http://"+s.addrs["ops"]+"/readyz") // whether it is ready does not depend on the file
	if code, err := s.stop(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if want := "the process ends without waiting any longer"; !strings.Contains(s.log.text(), want) {
		t.Errorf("no %q in\n%s", want, s.log.text())
	}
}

// TestSilentServersDoNotHoldTheEnd: servers that are there and do not answer any more keep
// no process from ending: the database of tenants, brokers, the collector, the store.
func TestSilentServersDoNotHoldTheEnd(t *testing.T) {
	database, err := url.Parse(testserver.Postgres(t).DSN)
	if err != nil {
		t.Fatal(err)
	}
	tenants, store := testserver.NewProxy(t, database.Host), testserver.NewProxy(t, testserver.Redis(t, testserver.RedisConfig{}).Addr)
	database.Host = tenants.Addr
	silent := silence(t)
	s := start(t, "--rules", writeRules(t, userRules), "--store=redis://"+store.Addr+"/0", "--store-budget=10s",
		"--tenants="+database.String(), "--tenants-file="+filepath.Join(t.TempDir(), "tenants"),
		"--audit-sample=1", "--audit-kafka=kafka://"+silent+"/events", "--trace-endpoint=http://"+silent, "--trace-ratio=1")
	if err := s.log.await(regexp.MustCompile("accounts of tenants in force"), s.ended); err != nil {
		t.Fatal(err)
	}
	allowed(t, s)
	tenants.Set(testserver.Toxics{HalfOpen: true})
	store.Set(testserver.Toxics{HalfOpen: true})
	if code, err := s.stop(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// silence returns the address of a server that takes connections and says nothing.
func silence(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes what nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestTwoProcessesOfOneStateDir: the second says that it is not alone, and both serve.
func TestTwoProcessesOfOneStateDir(t *testing.T) {
	dir := t.TempDir()
	const not = "another process uses this state directory"
	one := start(t, "--state-dir="+dir)
	other := start(t, "--state-dir="+dir)
	if strings.Contains(one.log.text(), not) || !strings.Contains(other.log.text(), not) {
		t.Errorf("the first:\n%s\nthe second:\n%s", one.log.text(), other.log.text())
	}
	for _, s := range []*server{one, other} {
		if code, err := s.stop(syscall.SIGTERM); code != 0 || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
	}
	if next := start(t, "--state-dir="+dir); strings.Contains(next.log.text(), not) {
		t.Errorf("the next:\n%s", next.log.text())
	}
}
