package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

const (
	rulesText = `
domain: d
match: path
descriptors:
  - {key: victim, rate_limit: {unit: year, requests_per_unit: 100, algorithm: fixed_window}}
  - {key: fault, rate_limit: {unit: year, requests_per_unit: 40, algorithm: fixed_window}}
  - {key: user, rate_limit: {unit: year, requests_per_unit: 100000000, algorithm: fixed_window}}
  - {key: remote_address, rate_limit: {unit: year, requests_per_unit: 100000000, algorithm: fixed_window}}
  - {key: login, sensitive: true, rate_limit: {unit: year, requests_per_unit: 100, algorithm: fixed_window}}
  - {key: api_key, tenant: true, rate_limit: {unit: year, requests_per_unit: 1000, algorithm: fixed_window}}
`
	tiersText = "tiers: {free: {default: {requests_per_unit: 1000, unit: year}}}\n"

	storePassword = "hunter2-of-the-store"
	apiKey        = "live-0123456789-of-a-customer"
	usageKey      = "YW5vdGhlci1rZXktZm9yLXRoZS11c2FnZS1vZi1jdXN0"
	// databasePassword is that of package testserver.
	databasePassword = "not-a-real-secret"
	hashKey          = "bW9yZS10aGFuLXNpeHRlZW4tYnl0ZXMtb2Yta2V5"
	// faultQuota is the quota of the rule fault.
	faultQuota = 40
)

// plainListeners are those that every node has, in plain text.
var plainListeners = []string{"http", "grpc", "auth", "ops", "health", "usage", "admin", "dashboard", "redis"}

// fleet is three nodes and all that they stand on. The third serves callers by TLS alone,
// to who has a certificate.
type fleet struct {
	t        *testing.T
	dir      string
	redis    *testserver.RedisServer
	database *testserver.PostgresServer
	certs    *testserver.Certificates
	nodes    []*node
	// tokens are those of callers by what they may do, and of operators: read, admin.
	tokens map[string]string
}

// node is one process of headgate.
type node struct {
	t       *testing.T
	args    []string
	log     string
	process *testserver.Process
	at      map[string]string // by the name of the listener
	client  *http.Client
	scheme  string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{
		t: t, dir: t.TempDir(), tokens: map[string]string{}, certs: testserver.NewCertificates(t),
		redis: testserver.Redis(t, testserver.RedisConfig{Password: storePassword}), database: testserver.Postgres(t),
	}
	f.write("rules.yaml", rulesText)
	f.write("tiers.yaml", tiersText)
	f.write("hash.key", hashKey)
	f.write("usage.key", usageKey+"\n")
	f.write("identity.yaml", `
hash_key_file: hash.key
api_key: {headers: [X-API-Key]}
descriptors:
  - entries: [{first: [api_key, remote_address]}]
  - {entries: [remote_address], when_unverified: true}
`)
	f.writeTokens()
	for i := range 3 {
		n := &node{t: t, log: f.path("log" + strconv.Itoa(i)), scheme: "http://", client: &http.Client{Timeout: eventually.Patience}}
		n.args = []string{
			"serve", "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--auth-addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
			"--health-addr", "127.0.0.1:0", "--usage-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--dashboard-addr", "127.0.0.1:0", "--redis-addr", "127.0.0.1:0",
			"--rules", f.path("rules.yaml"), "--tiers", f.path("tiers.yaml"), "--tenants", f.database.DSN, "--store", "redis://:" + storePassword + "@" + f.redis.Addr, "--store-budget", "5s",
			"--callers", f.path("callers.yaml"), "--admin-tokens", f.path("admin.yaml"), "--admin-hash-key", f.path("hash.key"),
			"--usage-key", f.path("usage.key"), "--identity", f.path("identity.yaml"), "--audit-files", "file://" + f.path("events"+strconv.Itoa(i)), "--state-dir", f.path("state" + strconv.Itoa(i)),
			"--rules-poll", "100ms", "--drain-delay", "0s", "--node-name", "n" + strconv.Itoa(i), "--log-format", "json", "--log-level", "debug",
		}
		switch i {
		case 1: // it stands behind a load balancer where customers come
			n.args = append(n.args, "--proxy-protocol", "usage", "--proxy-protocol-from", "127.0.0.0/8")
		case 2:
			f.copyFile(f.certs.CertFile, "node.pem")
			f.copyFile(f.certs.KeyFile, "node.key")
			n.args = append(n.args, "--tls-cert", f.path("node.pem"), "--tls-key", f.path("node.key"), "--client-ca", f.certs.CAFile)
			n.scheme = "https://"
			n.client.Transport = &http.Transport{TLSClientConfig: f.certs.ClientWith(t, f.certs.CertFile, f.certs.KeyFile)}
		}
		t.Cleanup(n.client.CloseIdleConnections)
		f.nodes = append(f.nodes, n)
		n.start()
	}
	return f
}

func (f *fleet) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

func (f *fleet) copyFile(from, name string) {
	f.t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write(name, string(text))
}

// writeTokens writes the files of callers and of operators.
func (f *fleet) writeTokens() {
	f.t.Helper()
	text := "tokens:\n"
	for name, rights := range map[string][]string{
		"check": {"check"}, "all": {"check", "reserve", "name_limits", "give_back", "explain"}, "expired": {"check", "give_back"},
	} {
		var until time.Time
		if name == "expired" {
			until = time.Now().Add(-time.Hour)
		}
		token, lines, err := callers.NewToken(name, rights, until)
		if err != nil {
			f.t.Fatal(err)
		}
		f.tokens[name] = token
		text += lines
	}
	f.write("callers.yaml", text)
	text = "tokens:\n"
	for name, scope := range map[string]adminapi.Scope{"read": adminapi.Read, "admin": adminapi.Admin} {
		token, lines, err := adminapi.NewToken(name, scope, time.Time{})
		if err != nil {
			f.t.Fatal(err)
		}
		f.tokens[name] = token
		text += lines
	}
	f.write("admin.yaml", text)
}

// secrets are what nobody may read anywhere, by name.
func (f *fleet) secrets() map[string]string {
	all := map[string]string{"the password of the store": storePassword, "the API key": apiKey, "the hash key": hashKey, "the usage key": usageKey, "the password of the database": databasePassword}
	for name, token := range f.tokens {
		all["the token "+name] = token
	}
	return all
}

// start runs the node and waits until it is ready. Its log goes on in the same file.
func (n *node) start() {
	n.t.Helper()
	path, err := testserver.Headgate()
	if err != nil {
		n.t.Fatal(err)
	}
	before := len(n.logged())
	// The shell is replaced at once: the log is whole in a file, and not its end alone.
	n.process, err = testserver.StartProcess(exec.Command("/bin/sh", append([]string{"-c", `log=$1; shift; exec "$@" >>"$log" 2>&1`, "sh", n.log, path}, n.args...)...))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.process.Terminate)
	n.at = map[string]string{}
	if err := n.process.Poll(func() error {
		log := n.logged()[before:]
		if !strings.Contains(log, `"headgate ready"`) {
			return fmt.Errorf("not ready: %s", log)
		}
		for _, found := range regexp.MustCompile(`"(\w+)":"(127\.0\.0\.1:\d+)"`).FindAllStringSubmatch(log, -1) {
			n.at[found[1]] = found[2]
		}
		for _, name := range plainListeners {
			if n.at[name] == "" {
				return fmt.Errorf("no address of %s: %s", name, log)
			}
		}
		return n.ready(http.StatusOK)
	}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) logged() string {
	text, err := os.ReadFile(n.log)
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	return string(text)
}

// ready returns nil when the node says of itself what is wanted.
func (n *node) ready(want int) error {
	resp, err := http.Get("http://" + n.at["health"] + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != want {
		return fmt.Errorf("readyz: %s: %s", resp.Status, body)
	}
	return nil
}

// shown returns what a node shows at a path of a listener, for who has a token.
func (n *node) shown(listener, path, token string) string {
	n.t.Helper()
	status, body, err := n.ask(http.MethodGet, listener, path, token, "")
	if err != nil || status != http.StatusOK {
		n.t.Fatalf("%s%s: %d, %v\n%.300s", listener, path, status, err, body)
	}
	return body
}

// ask sends a request and returns its answer.
func (n *node) ask(method, listener, path, token, body string) (status int, answer string, err error) {
	scheme := "http://"
	if listener == "http" {
		scheme = n.scheme
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), eventually.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, scheme+n.at[listener]+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// decision is what /v1/check answers.
type decision struct {
	Allowed   bool   `json:"allowed"`
	Remaining int64  `json:"remaining"`
	Degraded  string `json:"degraded"`
}

// check asks a node about a key, as somebody who may do everything. There is always an
// answer: it is what a node is for.
func (n *node) check(f *fleet, key, value string, hits int) (d decision, err error) {
	body := fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":%q,"value":%q}],"hits":%d}]}`, key, value, hits)
	status, text, err := n.ask(http.MethodPost, "http", "/v1/check", f.tokens["all"], body)
	if err != nil {
		return d, err
	}
	if status != http.StatusOK && status != http.StatusTooManyRequests {
		return d, fmt.Errorf("%d: %s", status, text)
	}
	return d, json.Unmarshal([]byte(text), &d)
}

// answeredWithin is for how long an input may be answered before the node is told that no more
// comes. It decides nothing for who seems to have gone, so that an attack would be answered well
// and do nothing.
const answeredWithin = 250 * time.Millisecond

// send writes bytes to a listener, says that no more will come when there is an answer or
// answeredWithin is over, and returns what is answered until the connection ends. An error is a connection that was reset, which is an
// answer too, or one that the node has left open.
func (n *node) send(listener string, data []byte) (answer []byte, err error) {
	conn, err := net.Dial("tcp", n.at[listener])
	if err != nil {
		return nil, fmt.Errorf("nobody listens: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(eventually.Patience)); err != nil {
		return nil, err
	}
	wrote, answered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(wrote)
		_, _ = io.Copy(conn, bytes.NewReader(data)) // a node may hang up before it has read all
		select {
		case <-answered:
		case <-time.After(answeredWithin):
		}
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	from := bufio.NewReader(io.LimitReader(conn, 1<<20))
	_, err = from.Peek(1)
	close(answered)
	if err == nil {
		answer, err = io.ReadAll(from)
	} else if errors.Is(err, io.EOF) {
		err = nil
	}
	conn.Close()
	<-wrote
	var timeout net.Error
	if err != nil && !(asNet(err, &timeout) && timeout.Timeout()) {
		err = nil // reset
	}
	return answer, err
}

func asNet(err error, to *net.Error) bool {
	e, ok := err.(net.Error)
	if ok {
		*to = e
	}
	return ok
}

// unharmed fails the test unless all nodes live, answer, have caught no panic, and show no
// secret.
func (f *fleet) unharmed(after string) {
	f.t.Helper()
	for i, n := range f.nodes {
		select {
		case <-n.process.Ended():
			f.t.Fatalf("%s: node %d has ended: %.2000s", after, i, n.logged())
		default:
		}
		metrics := n.shown("ops", "/metrics", "")
		if !strings.Contains(metrics, "\nheadgate_panics_total 0\n") {
			f.t.Errorf("%s: node %d has caught a panic", after, i)
		}
		log := n.logged()
		if at := strings.Index(log, "panic"); at >= 0 {
			f.t.Errorf("%s: the log of node %d speaks of a panic: %.800s", after, i, log[at:])
		}
		f.leaks(after+": the log", log)
		f.leaks(after+": the metrics", metrics)
		for _, path := range []string{"/rules", "/rlconfig", "/switches", "/readyz"} {
			f.leaks(after+": "+path, n.shown("ops", path, ""))
		}
	}
}

// leaks fails the test where a text has a secret.
func (f *fleet) leaks(where, text string) {
	f.t.Helper()
	for name, secret := range f.secrets() {
		if strings.Contains(text, secret) {
			f.t.Errorf("%s shows %s", where, name)
		}
	}
}

// standing is all that an attack must leave as it is.
type standing struct {
	left     int64 // of the victim's limit
	changes  string
	switches string
	rules    string
}

// stands returns it.
func (f *fleet) stands() standing {
	f.t.Helper()
	d, err := f.nodes[0].check(f, "victim", "v", 0)
	if err != nil || d.Degraded != "" {
		f.t.Fatalf("the victim's limit: %+v, %v", d, err)
	}
	n := f.nodes[0]
	rules := strings.Split(n.shown("ops", "/rules", ""), "\n")
	slices.Sort(rules)
	return standing{
		d.Remaining, n.shown("admin", "/admin/v1/changes", f.tokens["read"]), n.shown("ops", "/switches", ""), strings.Join(rules, "\n"),
	}
}
