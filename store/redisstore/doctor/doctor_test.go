package doctor_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/redisstore/doctor"
)

// finding is what a report must contain: a check of this name and status whose
// words, hint included, contain the text.
type finding struct{ name, status, text string }

func diagnose(t *testing.T, url string, change func(*conn.Options)) store.Report {
	t.Helper()
	o, err := conn.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DialTimeout = 5 * time.Second
	// Answers may be slow on a busy machine; that is not what is tested.
	o.Budget = time.Minute
	if change != nil {
		change(&o)
	}
	r := doctor.Diagnose(t.Context(), o)
	if text := fmt.Sprintf("%+v", r); strings.Contains(text, "hunter2") {
		t.Errorf("the password is in the report: %s", text)
	}
	return r
}

// expect fails the test unless the report has the finding, and is OK exactly
// when the finding is no problem.
func expect(t *testing.T, r store.Report, want finding) {
	t.Helper()
	if r.OK() != (want.status != store.CheckProblem) {
		t.Errorf("OK is %t", r.OK())
	}
	find(t, r, want)
}

// find fails the test unless the report has the finding.
func find(t *testing.T, r store.Report, want finding) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == want.name && c.Status == want.status && strings.Contains(c.Found+"; hint: "+c.Hint, want.text) {
			return
		}
	}
	t.Errorf("no %s %q about %s in\n%s", want.status, want.text, want.name, show(r))
}

func show(r store.Report) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Store)
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%s %-8s %-10s %s; hint: %s\n", c.Server, c.Status, c.Name, c.Found, c.Hint)
	}
	return b.String()
}

func TestDiagnoseSingle(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Unix: true})
	for _, url := range []string{server.URL() + "/3", "unix://" + server.Socket} {
		r := diagnose(t, url, nil)
		names := ""
		for _, c := range r.Checks {
			if c.Status != store.CheckOK {
				t.Errorf("%+v", c)
			}
			names += " " + c.Name
		}
		if want := " connect protocol auth kind version role scripts eviction memory persistence clock latency"; names != want {
			t.Errorf("%s: checks%s, want%s", url, names, want)
		}
	}
	if n, err := server.Do("DBSIZE"); err != nil || n != int64(0) {
		t.Errorf("the doctor left %v keys, %v", n, err)
	}
}

func TestDiagnoseAddress(t *testing.T) {
	free := fmt.Sprintf("redis://127.0.0.1:%d", testserver.FreePort(t))
	expect(t, diagnose(t, free, nil), finding{"connect", store.CheckProblem, "is Redis running there?"})
	expect(t, diagnose(t, "redis://no-such-host.invalid", nil), finding{"resolve", store.CheckProblem, "the host name is unknown"})
	expect(t, diagnose(t, "unix:///no/such/socket", nil), finding{"connect", store.CheckProblem, "there is no such socket"})
}

// listen serves connections of one kind of stranger.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
			conn.Close()
		}
	}()
	return "redis://" + listener.Addr().String()
}

func TestDiagnoseStrangers(t *testing.T) {
	web := listen(t, func(c net.Conn) {
		bufio.NewReader(c).ReadString('\n')
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	expect(t, diagnose(t, web, nil), finding{"protocol", store.CheckProblem, "does not speak the Redis protocol"})
	frozen := testserver.Redis(t, testserver.RedisConfig{})
	frozen.Stop()
	defer frozen.Continue()
	soon := func(o *conn.Options) { o.DialTimeout = 2 * time.Second }
	expect(t, diagnose(t, frozen.URL(), soon), finding{"protocol", store.CheckProblem, "nothing answers"})
}

// TestDiagnoseMixedTLS has each side speak TLS alone, and a certificate that
// nobody trusts.
func TestDiagnoseMixedTLS(t *testing.T) {
	secure := testserver.Redis(t, testserver.RedisConfig{TLS: true})
	plain := testserver.Redis(t, testserver.RedisConfig{})
	expect(t, diagnose(t, "redis://"+secure.Addr, nil), finding{"protocol", store.CheckProblem, "use rediss://"})
	soon := func(o *conn.Options) { o.DialTimeout = 2 * time.Second }
	expect(t, diagnose(t, "rediss://"+plain.Addr, soon), finding{"tls", store.CheckProblem, "use redis://"})
	expect(t, diagnose(t, secure.URL(), nil), finding{"tls", store.CheckProblem, "not trusted"})
	trusting := func(o *conn.Options) { o.TLS = secure.Certificates.Client() }
	// The certificate of the test lasts for a day.
	expect(t, diagnose(t, secure.URL(), trusting), finding{"tls", store.CheckWarning, "TLS 1.3, certificate for localhost valid until"})
	expect(t, diagnose(t, secure.URL(), trusting), finding{"scripts", store.CheckOK, ""})
	other := func(o *conn.Options) {
		o.TLS = secure.Certificates.Client()
		o.TLS = &tls.Config{RootCAs: o.TLS.RootCAs, ServerName: "redis.example.com"}
	}
	expect(t, diagnose(t, secure.URL(), other), finding{"tls", store.CheckProblem, "another name"})
	// Without TLS a server says that it takes no more clients; with TLS it hangs up.
	holder, err := tls.Dial("tcp", secure.Addr, secure.Certificates.Client())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := io.WriteString(holder, "CONFIG SET maxclients 1\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(holder).ReadString('\n'); said != "+OK\r\n" {
		t.Fatal(said, err)
	}
	expect(t, diagnose(t, secure.URL(), trusting), finding{"tls", store.CheckProblem, "maxclients"})
	full := trustingStore(t, secure)
	if err := full.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "maxclients") {
		t.Errorf("the store: %v", err)
	}
}

// trustingStore opens a store that knows the authority of server.
func trustingStore(t *testing.T, server *testserver.RedisServer) *redisstore.Store {
	t.Helper()
	o, err := conn.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.TLS, o.Budget = server.Certificates.Client(), time.Minute
	s, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestDiagnoseUsers(t *testing.T) {
	locked := testserver.Redis(t, testserver.RedisConfig{Password: "hunter2"})
	expect(t, diagnose(t, locked.URL(), nil), finding{"auth", store.CheckProblem, "give a password"})
	expect(t, diagnose(t, "redis://:hunter1@"+locked.Addr, nil), finding{"auth", store.CheckProblem, "wrong user or password"})
	expect(t, diagnose(t, "redis://:hunter2@"+locked.Addr, nil), finding{"auth", store.CheckOK, "accepted, user default"})
	open := testserver.Redis(t, testserver.RedisConfig{})
	expect(t, diagnose(t, "redis://:hunter2@"+open.Addr, nil), finding{"auth", store.CheckProblem, "give none"})
	expect(t, diagnose(t, open.URL()+"/99", nil), finding{"database", store.CheckProblem, "fewer databases"})

	users := testserver.Redis(t, testserver.RedisConfig{Users: []string{
		"user default off",
		"user decides on >hunter2 ~hg:* +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire",
		"user asks on >hunter2 ~hg:* +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire +role",
		"user fleet on >hunter2 ~hg:* +evalsha +eval +time +get +set +incrby +del +strlen +getrange +append +pexpire +pttl +hget +hset +zadd +zcard +zrem +zremrangebyscore +zrevrange +zscore",
		"user longer on >hunter2 ~hg:* +evalsha +eval +time +get +set +del +strlen +getrange +append +pexpire +pttl +hget +hset +zadd +zcard +zrem +zremrangebyscore +zrevrange +zscore",
		"user noeval on >hunter2 ~hg:* +time +info",
		"user noset on >hunter2 ~hg:* +evalsha +eval +time +get +info",
		"user nokeys on >hunter2 ~other:* +@all",
	}})
	as := func(user string) store.Report { return diagnose(t, "redis://"+user+":hunter2@"+users.Addr, nil) }
	expect(t, as("fleet"), finding{"scripts", store.CheckOK, ""})
	expect(t, as("longer"), finding{"scripts", store.CheckWarning, "INCRBY refused"})
	expect(t, as("decides"), finding{"scripts", store.CheckWarning, "HSET, HGET, PTTL, ZADD, ZCARD, ZSCORE, ZREVRANGE, ZREMRANGEBYSCORE, ZREM refused"})
	expect(t, as("decides"), finding{"kind", store.CheckUnknown, "+info"})
	expect(t, as("decides"), finding{"role", store.CheckUnknown, "+role"})
	expect(t, as("asks"), finding{"role", store.CheckOK, "primary with 0 replicas"})
	expect(t, as("decides"), finding{"eviction", store.CheckUnknown, "noeviction"})
	expect(t, as("noeval"), finding{"scripts", store.CheckProblem, "the ACL user needs +select +evalsha"})
	expect(t, as("noset"), finding{"scripts", store.CheckProblem, "SET, APPEND, STRLEN, GETRANGE, PEXPIRE, DEL refused"})
	expect(t, as("nokeys"), finding{"scripts", store.CheckProblem, "~<prefix>*"})
}

func TestDiagnoseMemory(t *testing.T) {
	full := testserver.Redis(t, testserver.RedisConfig{MaxMemory: "1"})
	expect(t, diagnose(t, full.URL(), nil), finding{"memory", store.CheckProblem, "raise maxmemory"})
	expect(t, diagnose(t, full.URL(), nil), finding{"scripts", store.CheckProblem, "raise maxmemory"})
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		evicting := testserver.Redis(t, testserver.RedisConfig{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", policy}})
		expect(t, diagnose(t, evicting.URL(), nil), finding{"eviction", store.CheckWarning, "set noeviction"})
	}
}

// A command that has another name is one that the scripts lack.
func TestDiagnoseRenamed(t *testing.T) {
	for _, command := range []string{"SET", "EVALSHA"} {
		server := testserver.Redis(t, testserver.RedisConfig{Args: []string{"--rename-command", command, "HIDDEN"}})
		expect(t, diagnose(t, server.URL(), nil), finding{"scripts", store.CheckProblem, "rename-command"})
	}
}

// Redis refuses almost everything while a script of somebody else runs for too long. This is
// said once, and nothing of rights that the user might lack.
func TestDiagnoseBusy(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Args: []string{"--lua-time-limit", "1"}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = server.Do("EVAL", "while true do end", "0") // until it is killed
	}()
	eventually.True(t, "the script blocks the server", func() bool {
		_, err := server.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	r := diagnose(t, server.URL(), nil)
	expect(t, r, finding{"scripts", store.CheckProblem, "SCRIPT KILL"})
	for _, c := range r.Checks {
		if c.Status != store.CheckOK && c.Name != "scripts" {
			t.Errorf("%+v", c)
		}
	}
	if _, err := server.Do("SCRIPT", "KILL"); err != nil {
		t.Error(err)
	}
	<-ended
}

func TestDiagnoseReplica(t *testing.T) {
	primary := testserver.Redis(t, testserver.RedisConfig{})
	replica := testserver.Redis(t, testserver.RedisConfig{ReplicaOf: primary})
	expect(t, diagnose(t, replica.URL(), nil), finding{"role", store.CheckProblem, "give the address of its primary, " + primary.Addr})
	replica.MustDo("ACL", "SETUSER", "limited", "on", ">hunter2", "~*", "+@all", "-info")
	limited := "redis://limited:hunter2@" + replica.Addr
	expect(t, diagnose(t, limited, nil), finding{"role", store.CheckProblem, "give the address of its primary, " + primary.Addr})
	guarded := testserver.Redis(t, testserver.RedisConfig{Args: []string{"--min-replicas-to-write", "1"}})
	expect(t, diagnose(t, guarded.URL(), nil), finding{"scripts", store.CheckProblem, "min-replicas-to-write"})
}

func TestDiagnoseSentinel(t *testing.T) {
	s := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true})
	all := strings.Join(s.Addrs(), ",")
	good := "redis+sentinel://" + all + "/0?master=" + s.Name
	expect(t, diagnose(t, good, nil), finding{"sentinels", store.CheckOK, s.Primary().Addr})
	expect(t, diagnose(t, good, nil), finding{"role", store.CheckOK, "primary with 1 replica; hint: min-replicas-to-write 1"})
	expect(t, diagnose(t, good, nil), finding{"quorum", store.CheckOK, ""})
	expect(t, diagnose(t, "redis+sentinel://"+all+"/0?master=nobody", nil), finding{"master", store.CheckProblem, fmt.Sprintf("it knows %q", s.Name)})
	expect(t, diagnose(t, "redis://"+s.Addrs()[0], nil), finding{"kind", store.CheckProblem, "redis+sentinel://" + s.Addrs()[0]})
	expect(t, diagnose(t, "redis+sentinel://"+s.Nodes[0].Addr+"/0?master=x", nil), finding{"kind", store.CheckProblem, "this is a Redis, and was given as a Sentinel"})
	expect(t, diagnose(t, "redis+cluster://"+s.Addrs()[0], nil), finding{"kind", store.CheckProblem, "this is a Sentinel"})
	// Users of sentinels that may not ask for all.
	for _, sentinel := range s.Sentinels() {
		sentinel.MustDo("ACL", "SETUSER", "limited", "on", ">hunter2", "+@all", "-sentinel|ckquorum")
		sentinel.MustDo("ACL", "SETUSER", "blind", "on", ">hunter2", "+@all", "-sentinel")
	}
	expect(t, diagnose(t, good+"&sentinel_user=limited&sentinel_password=hunter2", nil), finding{"quorum", store.CheckUnknown, "NOPERM"})
	find(t, diagnose(t, good+"&sentinel_user=blind&sentinel_password=hunter2", nil), finding{"master", store.CheckProblem, "the user of the sentinels needs +sentinel"})
	// One that is away is no problem while others answer.
	s.Sentinels()[0].Kill()
	expect(t, diagnose(t, good, nil), finding{"connect", store.CheckWarning, "is a sentinel running there?"})
}

// The doctor examines the server that nodes go to, whichever sentinel names it, and says who names
// which. A replica that sentinels name is not the fault of the address.
func TestDiagnoseSentinelsThatDisagree(t *testing.T) {
	s := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true})
	monitor := func(sentinel *testserver.RedisServer, name, addr string) {
		t.Helper()
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		sentinel.MustDo("SENTINEL", "MONITOR", name, host, port, "9") // more than there are, so that none is replaced
	}
	all := s.Sentinels()
	monitor(all[0], "split", s.Nodes[0].Addr)
	monitor(all[1], "split", s.Nodes[0].Addr)
	monitor(all[2], "split", s.Nodes[1].Addr)
	monitor(all[0], "astray", s.Nodes[1].Addr)
	url := "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/0?master="
	r := diagnose(t, url+"split", nil)
	expect(t, r, finding{"sentinels", store.CheckWarning, all[2].Addr + " says " + s.Nodes[1].Addr + "; nodes go to " + s.Nodes[0].Addr})
	find(t, r, finding{"role", store.CheckOK, "primary with 1 replica"})
	r = diagnose(t, url+"astray", nil)
	find(t, r, finding{"role", store.CheckProblem, "this is a replica of " + s.Nodes[0].Addr + ": what it would count is lost; hint: the sentinels name a replica"})
	find(t, r, finding{"scripts", store.CheckProblem, "hint: the sentinels name a replica"})
}

func TestDiagnoseCluster(t *testing.T) {
	c := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	all := "redis+cluster://" + strings.Join(c.Addrs(), ",")
	r := diagnose(t, all, nil)
	expect(t, r, finding{"slots", store.CheckOK, "all served, by 3 primaries"})
	expect(t, r, finding{"role", store.CheckWarning, "add a replica"})
	scripts := 0
	for _, check := range r.Checks {
		if check.Name == "scripts" && check.Status == store.CheckOK {
			scripts++
		}
	}
	if scripts != 3 {
		t.Errorf("scripts were tried on %d primaries:\n%s", scripts, show(r))
	}
	expect(t, diagnose(t, c.Nodes[0].URL(), nil), finding{"kind", store.CheckProblem, "redis+cluster://" + c.Nodes[0].Addr})
	expect(t, diagnose(t, "redis+sentinel://"+c.Addrs()[0]+"/0?master=x", nil), finding{"kind", store.CheckProblem, "redis+cluster://"})
	single := testserver.Redis(t, testserver.RedisConfig{})
	expect(t, diagnose(t, "redis+cluster://"+single.Addr, nil), finding{"kind", store.CheckProblem, "this is a single Redis"})
	c.Nodes[2].Kill()
	expect(t, diagnose(t, all, nil), finding{"connect", store.CheckProblem, "the nodes tell this address"})
}

// Whether a shard that is away takes the others along is what each node is set to.
func TestDiagnoseCoverage(t *testing.T) {
	c := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	strict := c.Nodes[1]
	strict.MustDo("CONFIG", "SET", "cluster-require-full-coverage", "yes")
	r := diagnose(t, "redis+cluster://"+c.Addrs()[0], nil)
	expect(t, r, finding{"coverage", store.CheckWarning, "it refuses all keys when another shard is away"})
	for _, check := range r.Checks {
		if check.Name == "coverage" && (check.Status == store.CheckWarning) != (check.Server == strict.Addr) {
			t.Errorf("%s of %s, and %s alone is strict", check.Status, check.Server, strict.Addr)
		}
	}
	strict.MustDo("CONFIG", "SET", "cluster-require-full-coverage", "no")
	for _, node := range c.Nodes {
		node.MustDo("ACL", "SETUSER", "limited", "on", ">hunter2", "~*", "+@all", "-config")
	}
	expect(t, diagnose(t, "redis+cluster://"+c.Addrs()[0], nil), finding{"coverage", store.CheckOK, "it goes on"})
	expect(t, diagnose(t, "redis+cluster://limited:hunter2@"+c.Addrs()[0], nil), finding{"coverage", store.CheckUnknown, "+config|get"})
}

// TestDiagnoseSentinelUsers: the sentinels and the servers have passwords, and
// certificates, of their own.
func TestDiagnoseSentinelUsers(t *testing.T) {
	s := testserver.Sentinel(t, testserver.SentinelConfig{Quick: true, Password: "hunter2", SentinelPassword: "hunter22", TLS: true})
	all := strings.Join(s.Addrs(), ",")
	url := func(server, sentinel string) string {
		return "rediss+sentinel://:" + server + "@" + all + "/0?master=" + s.Name + "&sentinel_password=" + sentinel
	}
	trusting := func(o *conn.Options) {
		o.TLS, o.Sentinel.TLS = s.Certificates.Client(), s.Certificates.Client()
	}
	expect(t, diagnose(t, url("hunter2", "hunter22"), trusting), finding{"scripts", store.CheckOK, ""})
	for _, password := range []string{"hunter3", ""} {
		find(t, diagnose(t, url("hunter2", password), trusting), finding{"auth", store.CheckWarning, "sentinels have a user and a password of their own"})
	}
	expect(t, diagnose(t, url("hunter2", "hunter3"), trusting), finding{"sentinels", store.CheckProblem, "none of 3"})
	expect(t, diagnose(t, url("hunter1", "hunter22"), trusting), finding{"auth", store.CheckProblem, "wrong user or password"})
	half := func(o *conn.Options) {
		trusting(o)
		o.Sentinel.TLS = nil
	}
	find(t, diagnose(t, url("hunter2", "hunter22"), half), finding{"protocol", store.CheckWarning, "use rediss://"})
}

// What a restart costs is what the server is set to, and not what is usual.
func TestDiagnosePersistence(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Users: []string{
		"user default on nopass ~* &* +@all", "user limited on >hunter2 ~* +@all -config",
	}})
	expect(t, diagnose(t, server.URL(), nil), finding{"persistence", store.CheckOK, "neither an append-only file nor snapshots"})
	server.MustDo("CONFIG", "SET", "save", "3600 1 300 100")
	expect(t, diagnose(t, server.URL(), nil), finding{"persistence", store.CheckOK, "snapshots (save 3600 1 300 100)"})
	expect(t, diagnose(t, "redis://limited:hunter2@"+server.Addr, nil), finding{"persistence", store.CheckUnknown, "may not ask"})
	server.MustDo("CONFIG", "SET", "appendonly", "yes")
	expect(t, diagnose(t, server.URL(), nil), finding{"persistence", store.CheckOK, "append-only file: counts survive"})
}

// A Redis whose disk is full refuses writes, whatever is set for snapshots.
func TestDiagnoseFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "appendonlydir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof")); err != nil {
		t.Fatal(err)
	}
	server := testserver.Redis(t, testserver.RedisConfig{Args: []string{"--dir", dir, "--appendonly", "yes"}})
	eventually.True(t, "Redis refuses writes", func() bool {
		_, err := server.Do("SET", "a", "b")
		return err != nil
	})
	r := diagnose(t, server.URL(), nil)
	const hint = "CONFIG SET appendonly no"
	find(t, r, finding{"persistence", store.CheckProblem, hint})
	find(t, r, finding{"scripts", store.CheckProblem, hint})
}

// Certificates of both sides are told of, and files that cannot be used.
func TestDiagnoseCertificates(t *testing.T) {
	certs := testserver.NewCertificates(t)
	certs.Mutual = true
	server := testserver.Redis(t, testserver.RedisConfig{TLS: true, Certificates: certs, Password: "hunter2"})
	word := filepath.Join(t.TempDir(), "word")
	if err := os.WriteFile(word, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := func(leaf testserver.Leaf, more string) string {
		cert, key := certs.Issue(t, leaf)
		return server.URL() + "?ca=" + certs.CAFile + "&cert=" + cert + "&key=" + key + more
	}
	good := diagnose(t, address(testserver.Leaf{CommonName: "client"}, "&prefix=shop:&password_file="+word), nil)
	expect(t, good, finding{"own cert", store.CheckWarning, "CN=client, valid until"})
	expect(t, good, finding{"auth", store.CheckOK, "accepted"})
	expect(t, good, finding{"scripts", store.CheckOK, ""})
	expect(t, diagnose(t, address(testserver.Leaf{NotAfter: time.Now().Add(-time.Minute)}, "&password_file="+word), nil), finding{"own cert", store.CheckProblem, "valid until"})
	expect(t, diagnose(t, address(testserver.Leaf{CommonName: "client"}, "&password_file=/nowhere/word"), nil), finding{"options", store.CheckProblem, "/nowhere/word"})
	expect(t, diagnose(t, server.URL()+"?ca="+certs.CAFile+"&server_name=redis.example.com", nil), finding{"tls", store.CheckProblem, "server_name=NAME"})
}

// Where operators read from replicas they are looked at too, and what is wrong with one is no
// reason not to decide.
func TestDiagnoseReadReplicas(t *testing.T) {
	servers := testserver.Sentinel(t, testserver.SentinelConfig{Sentinels: 1, Quick: true})
	primary, replica := servers.Nodes[0], servers.Nodes[1]
	primary.AwaitReplica(replica)
	for _, url := range []string{
		primary.URL() + "?peeks=replicas", primary.URL() + "?peeks=" + replica.Addr,
		"redis+sentinel://" + strings.Join(servers.Addrs(), ",") + "?master=" + servers.Name + "&peeks=replicas",
	} {
		r := diagnose(t, url, nil)
		expect(t, r, finding{"replica", store.CheckOK, "a replica, which heard of its primary"})
		for _, c := range r.Checks {
			if c.Name == "replica" && c.Server != replica.Addr {
				t.Errorf("%s is taken for a replica", c.Server)
			}
		}
	}
	alone := testserver.Redis(t, testserver.RedisConfig{})
	expect(t, diagnose(t, alone.URL()+"?peeks=replicas", nil), finding{"replicas", store.CheckWarning, "none is known"})
	expect(t, diagnose(t, primary.URL()+"?peeks="+alone.Addr, nil), finding{"replica", store.CheckWarning, "no replica"})
	expect(t, diagnose(t, primary.URL()+"?peeks=127.0.0.1:1", nil), finding{"connect", store.CheckWarning, "refused"})
}

func TestDiagnoseReadReplicasOfACluster(t *testing.T) {
	// A server tells of a replica once it has heard that this has something of its primary: a
	// sign of life is enough.
	servers := testserver.Cluster(t, testserver.ClusterConfig{Args: []string{"--repl-ping-replica-period", "1"}})
	eventually.Nil(t, "all replicas are looked at", func() error {
		r := diagnose(t, "redis+cluster://"+strings.Join(servers.Addrs(), ",")+"?peeks=replicas", nil)
		for _, node := range servers.Nodes[3:] {
			if !slices.ContainsFunc(r.Checks, func(c store.Check) bool {
				return c.Name == "replica" && c.Status == store.CheckOK && c.Server == node.Addr
			}) {
				return fmt.Errorf("the replica %s is not in\n%s", node.Addr, show(r))
			}
		}
		return nil
	})
}
