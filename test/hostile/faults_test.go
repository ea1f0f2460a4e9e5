package hostile

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// fault is something that breaks, and how it is made whole again. While it lasts every node
// asked must answer; afterwards all is as before.
type fault struct {
	name string
	// begin breaks something, and returns how it is mended; nil where it mends itself.
	begin func() (mend func())
	// forgets says that the store loses its counts, hangs that the third node does not
	// answer while it lasts.
	forgets, hangs bool
}

// faults are all of them.
func (f *fleet) faults() []fault {
	replaced := func(name, text string) func() func() {
		return func() func() {
			before := f.read(name)
			f.write(name, text)
			return func() { f.write(name, before) }
		}
	}
	redis := func(words ...string) func() func() {
		return func() func() { f.redis.MustDo(words...); return nil }
	}
	third := f.nodes[2]
	return []fault{
		{name: "Redis hangs up on everybody", begin: redis("CLIENT", "KILL", "TYPE", "normal")},
		{name: "Redis stops", begin: func() func() { f.redis.Stop(); return f.redis.Continue }},
		{name: "Redis is killed and starts empty", begin: func() func() { f.redis.Kill(); return f.redis.Restart }, forgets: true},
		{name: "Redis forgets all keys", begin: redis("FLUSHALL"), forgets: true},
		{name: "Redis forgets all scripts", begin: redis("SCRIPT", "FLUSH")},
		{name: "Redis pauses", begin: redis("CLIENT", "PAUSE", "300", "ALL")},
		{name: "Redis has no memory left", begin: func() func() {
			f.redis.MustDo("CONFIG", "SET", "maxmemory", "1")
			return func() { f.redis.MustDo("CONFIG", "SET", "maxmemory", "0") }
		}},
		{name: "Redis takes the right to run scripts", begin: func() func() {
			f.redis.MustDo("ACL", "SETUSER", "default", "-eval", "-evalsha")
			return func() { f.redis.MustDo("ACL", "SETUSER", "default", "+@all") }
		}},
		{name: "Redis has another password", begin: func() func() {
			f.redis.MustDo("ACL", "SETUSER", "default", "resetpass", ">another")
			f.anonymous("CLIENT", "KILL", "TYPE", "normal")
			return func() { f.anonymous("ACL", "SETUSER", "default", "resetpass", ">"+storePassword) }
		}},
		{name: "every counter is a list", begin: func() func() { f.spoil("list"); return func() { f.redis.MustDo("FLUSHALL") } }, forgets: true},
		{name: "every counter is nonsense", begin: func() func() { f.spoil("text"); return func() { f.redis.MustDo("FLUSHALL") } }, forgets: true},
		{name: "PostgreSQL is killed", begin: func() func() { f.database.Kill(); return f.database.Restart }},
		{name: "PostgreSQL has rows that are nonsense", begin: func() func() {
			f.database.Exec(`UPDATE account_tiers SET tier = E'\x01 no tier'`)
			return func() { f.database.Exec(`UPDATE account_tiers SET tier = 'free'`) }
		}},
		{name: "PostgreSQL hangs up on everybody", begin: func() func() {
			f.database.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
			return nil
		}},
		{name: "a node is killed", begin: func() func() { third.process.Kill(); return third.start }, hangs: true},
		{name: "a node stops", begin: func() func() {
			_ = third.process.Signal(syscall.SIGSTOP)
			return func() { _ = third.process.Signal(syscall.SIGCONT) }
		}, hangs: true},
		{name: "the file of rules is nonsense", begin: replaced("rules.yaml", "domain: [\x01")},
		{name: "the file of rules is empty", begin: replaced("rules.yaml", "")},
		{name: "the file of rules is gone", begin: func() func() {
			before := f.read("rules.yaml")
			if err := os.Remove(f.path("rules.yaml")); err != nil {
				f.t.Fatal(err)
			}
			return func() { f.write("rules.yaml", before) }
		}},
		{name: "the file of tiers is nonsense", begin: replaced("tiers.yaml", "tiers: 7")},
		{name: "the file of callers is nonsense", begin: replaced("callers.yaml", "tokens: {")},
		{name: "the file of operators is nonsense", begin: replaced("admin.yaml", "tokens: {")},
		{name: "the certificate is nonsense", begin: replaced("node.pem", "no PEM")},
		{name: "the key of the certificate is another's", begin: replaced("node.key", f.otherKey())},
		{name: "the directory of events is gone", begin: func() func() { _ = os.RemoveAll(f.path("events0")); return nil }},
		{name: "the directory of states is gone", begin: func() func() { _ = os.RemoveAll(f.path("state0")); return nil }},
		{name: "500 connections say nothing", begin: f.silence},
	}
}

// otherKey is a key that fits no certificate of the nodes.
func (f *fleet) otherKey() string {
	_, key := f.certs.Issue(f.t, testserver.Leaf{})
	text, err := os.ReadFile(key)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// anonymous runs a command on Redis by the password that it has while it has another one.
func (f *fleet) anonymous(words ...string) {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.redis.Addr)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "AUTH another\r\n%s\r\nQUIT\r\n", strings.Join(words, " ")); err != nil {
		f.t.Fatal(err)
	}
	heard := make([]byte, 5)
	if _, err := conn.Read(heard); err != nil || string(heard) != "+OK\r\n" {
		f.t.Fatalf("%q, %v", heard, err)
	}
	buf := make([]byte, 256)
	_, _ = conn.Read(buf)
}

// spoil makes something else of every key of the store.
func (f *fleet) spoil(kind string) {
	f.t.Helper()
	for _, key := range f.redis.MustDo("KEYS", "*").([]any) {
		name := key.(string)
		f.redis.MustDo("DEL", name)
		if kind == "list" {
			f.redis.MustDo("RPUSH", name, "x")
		} else {
			f.redis.MustDo("SET", name, "9 nonsense \xff -1 99999999999999999999")
		}
	}
}

// silence opens connections to all listeners of a node and says nothing.
func (f *fleet) silence() func() {
	var open []net.Conn
	for i := range 500 {
		conn, err := net.Dial("tcp", f.nodes[0].at[plainListeners[i%len(plainListeners)]])
		if err != nil {
			f.t.Error(err)
			break
		}
		open = append(open, conn)
	}
	return func() {
		for _, conn := range open {
			conn.Close()
		}
	}
}

// TestFaults breaks what three nodes stand on, one after the other.
func TestFaults(t *testing.T) {
	f := newFleet(t)
	if status, body, err := f.nodes[0].ask(http.MethodPut, "admin", "/admin/v1/quotas/tenant:t", f.tokens["admin"], `{"tier":"free"}`); err != nil || status/100 != 2 {
		t.Fatalf("an account: %d, %s, %v", status, body, err)
	}
	f.whole(t, "before all")
	rows := ""
	for i, one := range f.faults() {
		key := fmt.Sprint("key", i)
		for range warm {
			if d, err := f.nodes[0].check(f, "fault", key, 1); err != nil || !d.Allowed || d.Degraded != "" {
				t.Errorf("before %s: %+v, %v", one.name, d, err)
			}
		}
		mend := one.begin()
		passed, degraded := f.askAll(t, one, key)
		passed += warm
		// The rule fails open, which is bounded: what the store has let pass and, while it
		// does not answer, the whole limit of each node.
		most, least := int64(faultQuota), int64(faultQuota)
		if one.forgets {
			most += faultQuota
		}
		if degraded > 0 {
			most, least = most+int64(len(f.nodes))*faultQuota, 1
		}
		if passed > most || passed < least {
			t.Errorf("%s: %d passed, of at most %d, and %d answers were degraded", one.name, passed, most, degraded)
		}
		if mend != nil {
			mend()
		}
		f.whole(t, one.name)
		f.unharmed(one.name)
		rows += fmt.Sprintf("| %s | %d | %d |\n", one.name, passed, degraded)
	}
	t.Logf("what passed a limit of %d, and how many answers were degraded, of %d:\n%s", faultQuota, asked, rows)
	f.leaksOnDisk()
}

// warm is how much of a limit is used before a fault begins.
const warm = 5

// asked is how many requests there are while a fault lasts: more than could ever pass.
const asked = 6 * faultQuota

// askAll asks all nodes about a key at once, and returns how many requests have passed and
// how many were decided without the store.
func (f *fleet) askAll(t *testing.T, one fault, key string) (passed, degraded int64) {
	var let, without atomic.Int64
	var asking sync.WaitGroup
	for i, n := range f.nodes {
		if one.hangs && i == 2 {
			continue
		}
		asking.Go(func() {
			for range asked / len(f.nodes) {
				d, err := n.check(f, "fault", key, 1)
				if err != nil {
					t.Errorf("%s: node %d does not answer: %v", one.name, i, err)
					return
				}
				if d.Allowed {
					let.Add(1)
				}
				if d.Degraded != "" {
					without.Add(1)
				}
			}
		})
	}
	asking.Wait()
	return let.Load(), without.Load()
}

// whole waits until all nodes decide by the store again, and then asks exactly as often as
// a limit allows, and once more.
func (f *fleet) whole(t *testing.T, after string) {
	t.Helper()
	for i, n := range f.nodes {
		if err := n.process.Poll(func() error {
			d, err := n.check(f, "fault", "probe", 0)
			if err == nil && d.Degraded != "" {
				err = fmt.Errorf("degraded: %s", d.Degraded)
			}
			return cmp.Or(err, n.ready(http.StatusOK))
		}); err != nil {
			t.Fatalf("%s: node %d does not decide by the store: %v", after, i, err)
		}
	}
	try := 0
	eventually.True(t, after+": a limit is exact again", func() bool {
		try++
		for i := range faultQuota + 1 {
			d, err := f.nodes[i%len(f.nodes)].check(f, "fault", fmt.Sprint(after, try), 1)
			if err != nil {
				t.Fatalf("%s: %v", after, err)
			}
			if d.Degraded != "" {
				return false // the machine is very busy
			}
			if d.Allowed != (i < faultQuota) {
				t.Fatalf("%s: request %d of a limit of %d: %+v", after, i+1, faultQuota, d)
			}
		}
		return true
	})
}
