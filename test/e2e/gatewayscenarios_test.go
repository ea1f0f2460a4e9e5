package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// envoyAsk is one request of an Envoy: what its descriptors are made of, for a domain.
type envoyAsk struct {
	domain      string
	descriptors []askedDescriptor
}

// askedDescriptor is "key=value/key=value", and the hits, -1 for none named.
type askedDescriptor struct {
	entries string
	hits    int
}

// one is a request with one descriptor and no hits named, which is one.
func one(domain, entries string) envoyAsk {
	return envoyAsk{domain, []askedDescriptor{{entries, -1}}}
}

// ask returns whether the request passes, and what remains by each descriptor.
func (q envoyAsk) ask(t *testing.T, n *node) (passes bool, remaining []int) {
	t.Helper()
	var body struct {
		Domain      string `json:"domain"`
		Descriptors []any  `json:"descriptors"`
	}
	body.Domain = q.domain
	for _, d := range q.descriptors {
		var entries []map[string]string
		for pair := range strings.SplitSeq(d.entries, "|") {
			key, value, _ := strings.Cut(pair, "=")
			entries = append(entries, map[string]string{"key": key, "value": value})
		}
		descriptor := map[string]any{"entries": entries}
		if d.hits >= 0 {
			descriptor["hitsAddend"] = d.hits
		}
		body.Descriptors = append(body.Descriptors, descriptor)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+n.at(t, "http")+"/json", "application/json", strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		OverallCode string
		Statuses    []struct{ LimitRemaining int }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatalf("%s: %v", resp.Status, err)
	}
	for _, s := range answer.Statuses {
		remaining = append(remaining, s.LimitRemaining)
	}
	return answer.OverallCode == "OK", remaining
}

// matched are the levels of a rule: one of a route, and below it one for each match.
func matched(route string, perYear uint64, matches ...string) level {
	below := level{}
	for i := len(matches) - 1; i >= 0; i-- {
		key, value, _ := strings.Cut(matches[i], "=")
		l := level{key: key, value: value}
		if i == len(matches)-1 {
			l.perYear = perYear
		} else {
			l.below = []level{below}
		}
		below = l
	}
	return level{key: route, value: route, below: []level{below}}
}

// TestEnvoyGatewaysScenarios makes the calls that Envoys make in the tests that Envoy Gateway
// has of its global rate limits, by rules in the form that it gives them.
func TestEnvoyGatewaysScenarios(t *testing.T) {
	certificates := testserver.NewCertificates(t)
	g := startControlPlane(t, certificates)
	n := gatewaysLimiter(t, g, certificates)()
	shadow := matched("shadow", 3, "rule-0-match-0=a")
	shadow.shadow, shadow.below[0].shadow = true, true
	const shared = "ns/policy-shared"
	g.accepted(t, g.set(
		configOf("ns/gateway/one",
			matched("cidr", 3, "masked_remote_address=192.168.0.0/16"),
			matched("distinct", 3, "masked_remote_address=0.0.0.0/0", "remote_address"),
			matched("enforce", 3, "masked_remote_address=invert:192.0.2.0/24"),
			matched("header", 3, "rule-0-match-0=rule-0-match-0"),
			matched("claims", 3, "rule-0-match-0"),
			matched("method", 3, "rule-0-method=GET"),
			matched("path", 3, "rule-0-path=/orders"),
			matched("both", 3, "rule-0-match-0=rule-0-match-0", "masked_remote_address=192.168.0.0/16"),
			matched("query", 3, "rule-0-match-0=rule-0-match-0", "rule-0-match-1"),
			matched("usage", 21, "rule-0-match-0=rule-0-match-0"),
			matched("all", 3, "rule-0-match--1=rule-0-match--1"),
			shadow,
		),
		configOf("ns/gateway/two", matched("header", 3, "rule-0-match-0=rule-0-match-0")),
		configOf(shared, matched(shared, 4, "rule-0-match--1=rule-0-match--1")),
	))
	three := func(name string, q envoyAsk, other ...envoyAsk) {
		t.Helper()
		for i := range 3 {
			if passes, remaining := q.ask(t, n); !passes || remaining[0] != 2-i {
				t.Errorf("%s, request %d: passes %v, %v remain", name, i+1, passes, remaining)
			}
		}
		if passes, remaining := q.ask(t, n); passes || remaining[0] != 0 {
			t.Errorf("%s, the fourth request: passes %v, %v remain", name, passes, remaining)
		}
		for _, q := range other {
			if passes, _ := q.ask(t, n); !passes {
				t.Errorf("%s: %v is denied, of which nothing was used", name, q)
			}
		}
	}
	const listener = "ns/gateway/one"
	three("addresses of a network", one(listener, "cidr=cidr|masked_remote_address=192.168.0.0/16"), one(listener, "cidr=cidr|masked_remote_address=10.0.0.0/8"))
	three("each address", one(listener, "distinct=distinct|masked_remote_address=0.0.0.0/0|remote_address=192.0.2.1"),
		one(listener, "distinct=distinct|masked_remote_address=0.0.0.0/0|remote_address=192.0.2.2"))
	three("all but a network", one(listener, "enforce=enforce|masked_remote_address=invert:192.0.2.0/24"), one(listener, "enforce=enforce"))
	three("a header", one(listener, "header=header|rule-0-match-0=rule-0-match-0"), one(listener, "header=header"))
	three("another listener", one("ns/gateway/two", "header=header|rule-0-match-0=rule-0-match-0"))
	three("each value of a claim", one(listener, "claims=claims|rule-0-match-0=alice"), one(listener, "claims=claims|rule-0-match-0=bob"))
	three("a method", one(listener, "method=method|rule-0-method=GET"), one(listener, "method=method|rule-0-method=POST"))
	three("a path", one(listener, "path=path|rule-0-path=/orders"), one(listener, "path=path|rule-0-path=/other"))
	three("a header and a network", one(listener, "both=both|rule-0-match-0=rule-0-match-0|masked_remote_address=192.168.0.0/16"),
		one(listener, "both=both|rule-0-match-0=rule-0-match-0"))
	three("each value of a query parameter", one(listener, "query=query|rule-0-match-0=rule-0-match-0|rule-0-match-1=blue"),
		one(listener, "query=query|rule-0-match-0=rule-0-match-0|rule-0-match-1=red"))
	three("every request", one(listener, "all=all|rule-0-match--1=rule-0-match--1"))
	for i := range 5 {
		if passes, _ := one(listener, "shadow=shadow|rule-0-match-0=a").ask(t, n); !passes {
			t.Errorf("in shadow mode, request %d is denied", i+1)
		}
	}
	// Two routes share a rule of 4, and each request costs 2.
	costly := envoyAsk{shared, []askedDescriptor{{shared + "=" + shared + "|rule-0-match--1=rule-0-match--1", 2}}}
	for i, want := range []bool{true, true, false} {
		if passes, _ := costly.ask(t, n); passes != want {
			t.Errorf("a shared cost, request %d: passes %v", i+1, passes)
		}
	}
	testUsage(t, n, listener)
}

// testUsage: a request asks without a cost, and its response costs 10 of 21 afterwards. What is
// used after the fact counts though it is too much.
func testUsage(t *testing.T, n *node, listener string) {
	const entries = "usage=usage|rule-0-match-0=rule-0-match-0"
	for i := range 4 {
		passes, remaining := envoyAsk{listener, []askedDescriptor{{entries, 0}}}.ask(t, n)
		if want := i < 3; passes != want {
			t.Errorf("a cost of responses, request %d: passes %v, %v remain", i+1, passes, remaining)
		}
		if passes {
			envoyAsk{listener, []askedDescriptor{{entries, 10}}}.ask(t, n)
		}
	}
}
