package e2e

import (
	"bufio"
	"compress/gzip"
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
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
)

// watchedRules deny the sixth request of a user in a year.
const watchedRules = `
domain: api
match: path
descriptors:
- {key: user, rate_limit: {window: 365d, requests_per_unit: 5, algorithm: fixed_window}}
- {key: guarded, failure_mode: closed, rate_limit: {window: 365d, requests_per_unit: 5, algorithm: fixed_window}}
`

// operator is a client of the admin API of a node.
type operator struct {
	*node
	token string
	http  *http.Client
}

// get reads the answer to a GET of the admin API into a T.
func get[T any](o *operator, path string) (T, error) {
	var answer T
	req, err := http.NewRequest(http.MethodGet, "http://admin/admin/v1/"+path, nil)
	if err != nil {
		return answer, err
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	resp, err := o.http.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer, err
	}
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("GET %s: %s: %s", path, resp.Status, text)
	}
	return answer, json.Unmarshal(text, &answer)
}

// startWatched starts a node for each name, with an admin API but without a database, and
// returns a client of each with a token of that scope.
func startWatched(t *testing.T, scope string, names []string, args ...string) []*operator {
	t.Helper()
	dir, err := os.MkdirTemp("", "hg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	made, err := exec.Command(path, "admin", "token", "ann", "--scope", scope).Output()
	if err != nil {
		t.Fatal(err)
	}
	token, lines, _ := strings.Cut(string(made), "\n")
	tokens, key := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "key")
	for path, text := range map[string]string{tokens: "tokens:\n" + lines, key: strings.Repeat("not-a-real-secret", 3)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	operators := make([]*operator, len(names))
	for i, name := range names {
		socket := filepath.Join(dir, name)
		operators[i] = &operator{
			token: token,
			node: startNode(t, append([]string{
				"--node-name", name, "--admin-addr", "unix://" + socket, "--admin-tokens", tokens,
				"--audit-hash-key", key, "--decision-id", "X-Decision-Id",
			}, args...)...),
			http: &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}}},
		}
		t.Cleanup(operators[i].http.CloseIdleConnections)
	}
	return operators
}

// ask makes a request by an entry, and returns its status and the ID of its decision.
func (o *operator) ask(t *testing.T, key, value string) (status int, id string) {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":%q,"value":%q}],"hits":1}]}`, key, value)
	resp, err := o.client.Post("http://headgate/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("X-Decision-Id")
}

// Three nodes without a database: each shows how all of them are, the keys that are
// denied most on all of them together, and the event that the header field of a denial
// leads to. Every event is in the files when the processes have ended.
func TestK4FleetIsWatched(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	logs := t.TempDir()
	names := []string{"a", "b", "c"}
	fleet := startWatched(t, "write", names, "--rules", writeRules(t, watchedRules), "--store", redis.URL(), "--store-budget", "10s",
		"--audit-files", "file://"+logs, "--audit-sample", "0")
	var denials int
	ids := map[string]bool{}
	for i, n := range fleet {
		for range 20 {
			status, id := n.ask(t, "user", "<img src=x onerror=alert(1)>\n")
			if (status == http.StatusTooManyRequests) != (id != "") {
				t.Fatalf("status %d has the decision ID %q", status, id)
			}
			if id == "" {
				continue
			}
			denials++
			ids[id] = true
			var e view.Event
			n.until(t, func() (err error) { // events are filed behind the decision
				e, err = get[view.Event](n, "events/"+id)
				return err
			})
			if e.EventID != id || e.Allowed || e.Outcome != "denied" || e.Rule != "api.user" || e.Limit != 5 || e.Node != names[i] || e.ConfigVersion == "" {
				t.Fatalf("event %+v", e)
			}
		}
	}
	if denials != 55 {
		t.Errorf("%d of 60 requests are denied by a limit of 5", denials)
	}
	for _, n := range fleet {
		n.until(t, func() error {
			f, err := get[view.Fleet](n, "fleet")
			if err == nil && (len(f.Nodes) != 3 || f.Live != 3 || f.Error != "") {
				err = fmt.Errorf("fleet %+v", f)
			}
			return err
		})
		n.until(t, func() error {
			top, err := get[view.TopKeys](n, "keys?by=denied&fleet=true")
			if err != nil {
				return err
			}
			if len(top.Keys) != 1 || top.Nodes != 3 || top.Keys[0].Key != `user:<img src=x onerror=alert(1)>\x0a` || top.Keys[0].Denied < 50 || top.Keys[0].Denied > 56 {
				return fmt.Errorf("keys %+v", top)
			}
			return nil
		})
	}
	var o view.Overview
	fleet[0].until(t, func() (err error) {
		o, err = get[view.Overview](fleet[0], "overview")
		return err
	})
	if o.Node.Name != "a" || o.LiveNodes != 3 || !o.Health.Store.OK || len(o.Shards) != 1 || o.Requests.Denied < 15 ||
		o.Audit.Decided != o.Audit.Produced+o.Audit.Unsampled+o.Audit.Buffered+o.Audit.Dropped {
		t.Errorf("overview %+v", o)
	}
	for i := range fleet {
		fleet[i].process.Terminate()
		for _, n := range fleet[i+1:] {
			n.until(t, func() error {
				f, err := get[view.Fleet](n, "fleet")
				if err == nil && len(f.Nodes) != 2-i {
					err = fmt.Errorf("after %d have ended: fleet %+v", i+1, f)
				}
				return err
			})
		}
	}
	for _, e := range writtenEvents(t, logs) {
		if !e.KeyHashed || strings.Contains(e.Key, "img") || e.Allowed || !ids[e.EventID] {
			t.Errorf("written: %+v", e)
		}
		delete(ids, e.EventID)
	}
	if len(ids) > 0 {
		t.Errorf("%d of %d events are in no file", len(ids), denials)
	}
}

// writtenEvents returns what stands in the files of a folder.
func writtenEvents(t *testing.T, folder string) []view.Event {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var events []view.Event
	for _, f := range files {
		file, err := os.Open(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var text io.Reader = file
		if strings.HasSuffix(f.Name(), ".gz") {
			if text, err = gzip.NewReader(file); err != nil {
				t.Fatal(err)
			}
		}
		lines := bufio.NewScanner(text)
		for lines.Scan() {
			var e view.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%s: %v: %s", f.Name(), err, lines.Text())
			}
			events = append(events, e)
		}
	}
	return events
}

// A Redis that dies shows in the overview, decisions are degraded, and their events say
// why; when it is back, so is everything.
func TestK4OutageIsSeen(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	n := startWatched(t, "read", []string{"a"}, "--rules", writeRules(t, watchedRules), "--store", redis.URL())[0]
	if status, _ := n.ask(t, "user", "u"); status != http.StatusOK {
		t.Fatal(status)
	}
	redis.Kill()
	n.until(t, func() error {
		n.ask(t, "user", "u")
		status, id := n.ask(t, "guarded", "g")
		o, err := get[view.Overview](n, "overview")
		if err == nil && (status != http.StatusServiceUnavailable || id == "" || o.Health.Store.OK || !o.Health.Degraded || o.Shards[0].Connected && o.Shards[0].Breaker == "closed" ||
			o.Requests.DegradedAllowed == 0 || o.Requests.DegradedDenied == 0) {
			err = fmt.Errorf("status %d, overview %+v", status, o)
		}
		return err
	})
	var events view.Events
	n.until(t, func() (err error) { // the API limits who asks it too often
		events, err = get[view.Events](n, "events?outcome=degraded_denied&limit=1")
		if err == nil && len(events.Events) != 1 {
			err = errors.New("there is no such event")
		}
		return err
	})
	if events.Events[0].Degraded == "" || !events.Events[0].KeyHashed || strings.Contains(events.Events[0].Key, "guarded:") {
		t.Errorf("events %+v", events)
	}
	redis.Restart()
	n.until(t, func() error {
		n.ask(t, "user", "u")
		o, err := get[view.Overview](n, "overview")
		if err == nil && (!o.Health.Store.OK || o.Health.Degraded || !o.Shards[0].Connected) {
			err = fmt.Errorf("overview %+v", o)
		}
		return err
	})
}
