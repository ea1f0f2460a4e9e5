package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

const quotasDir = "../../examples/envoy-quotas"

// quotaEdge is an Envoy that decides by what it is assigned, in front of the backend of
// another one and of its Headgate.
func quotaEdge(t *testing.T, backend, grpcAddr string) *testserver.EnvoyServer {
	t.Helper()
	config := readFile(t, filepath.Join(quotasDir, "envoy.yaml"))
	config = with(t, config, map[string]string{
		"port_value: 10000": "port_value: 0",
		"port_value: 9901":  "port_value: 0",
		"port_value: 8000":  "port_value: " + portOf(t, backend),
		"port_value: 8081":  "port_value: " + portOf(t, grpcAddr),
	})
	return testserver.Envoy(t, config)
}

// quotas is what Headgate says of its streams: the counter headgate_rlqs_NAME_total.
func (e *edge) quotas(name string) int {
	e.t.Helper()
	resp, err := e.client.Get("http://" + e.at("ops") + "/metrics")
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^headgate_rlqs_` + name + `_total (\S+)$`).FindSubmatch(text)
	if found == nil {
		e.t.Fatalf("no metric of %s: %s", name, text)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return int(n)
}

// Two Envoys of examples/envoy-quotas share a limit that neither of them asks about: together
// they let pass what it has, and a request each that came before they were told anything. Who
// asks Headgate about each request finds the same bucket empty. Envoys go on by what they were
// told when Headgate has gone.
func TestF7EnvoysShareQuotas(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "backend") }))
	t.Cleanup(backend.Close)
	e := &edge{t: t, rules: filepath.Join(t.TempDir(), "rules.yaml"), client: &http.Client{Timeout: patience}}
	t.Cleanup(e.client.CloseIdleConnections)
	const most = 60
	rules := readFile(t, filepath.Join(quotasDir, "rules.yaml"))
	e.writeRules(strings.Replace(rules, "unit: minute", "unit: year", 1)) // so that no window ends meanwhile
	e.grpcAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(testserver.FreePort(t)))
	e.startHeadgate()
	envoys := []*testserver.EnvoyServer{quotaEdge(t, backend.Listener.Addr().String(), e.grpcAddr), quotaEdge(t, backend.Listener.Addr().String(), e.grpcAddr)}

	passed := 0
	ask := func(envoy *testserver.EnvoyServer) int {
		t.Helper()
		e.envoy = envoy
		resp := e.get("/orders", "alice")
		if resp.StatusCode == http.StatusOK {
			passed++
		}
		return resp.StatusCode
	}
	for i, envoy := range envoys {
		if code := ask(envoy); code != http.StatusOK {
			t.Errorf("a first request: %d", code)
		}
		e.eventually("an assignment", func() bool { return e.quotas("assigned") > i })
	}
	denied := make([]int, len(envoys))
	e.eventually("the limit is used up", func() bool {
		for i, envoy := range envoys {
			for range 20 {
				if ask(envoy) == http.StatusTooManyRequests {
					denied[i]++
				}
			}
		}
		return passed >= most-len(envoys)
	})
	if passed > most+2*len(envoys) {
		t.Errorf("%d of %d passed", passed, most)
	}
	if denied[0] == 0 || denied[1] == 0 {
		t.Errorf("denied %v", denied)
	}
	const peek = `{"domain":"quotas","descriptors":[{"descriptor":"api_key:alice,route:orders"}]}`
	e.eventually("who asks about each request is denied", func() bool {
		resp, err := e.client.Post("http://"+e.at("http")+"/v1/check", "application/json", strings.NewReader(peek))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusTooManyRequests
	})
	// Until it has reported what it let pass, an Envoy has a token bucket that goes on to fill. Its
	// next report but one says that it has the answer to that.
	e.eventually("all that passed is reported", func() bool { return e.quotas("allowed") >= passed })
	reports := e.quotas("reports")
	e.eventually("the answers are there", func() bool { return e.quotas("reports") >= reports+2*len(envoys) })
	e.headgate.Terminate()
	for i, envoy := range envoys {
		// It may have a request left of what it was told.
		code := 0
		for range most {
			if code = ask(envoy); code == http.StatusTooManyRequests {
				break
			}
		}
		if code != http.StatusTooManyRequests {
			t.Errorf("when Headgate has gone, Envoy %d lets everything pass: %d", i, code)
		}
	}
	if passed > most+2*len(envoys) {
		t.Errorf("%d of %d passed when Headgate has gone", passed, most)
	}
}
