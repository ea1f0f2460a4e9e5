package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// rightsRules have nothing that comes back while a slow machine is at it.
const rightsRules = `
domain: d
match: leaf
descriptors:
- {key: user, rate_limit: {unit: year, requests_per_unit: 9, algorithm: token_bucket}}
- {key: slot, concurrency: {limit: 1, timeout: 24h, hold: id}}
- key: job
  rate_limit: {unit: year, requests_per_unit: 9, algorithm: token_bucket}
  concurrency: {limit: 1, timeout: 24h, hold: id}
- key: method
  rate_limit: {unit: year, requests_per_unit: 9, algorithm: token_bucket}
  cost: {from: header, name: X-Cost, max: 5}
`

// rightsNode is a process, and what asks it.
type rightsNode struct {
	*node
	t         *testing.T
	ratelimit rlsv3.RateLimitServiceClient
	auth      authpb.AuthorizationClient
	authAddr  string
}

func startRightsNode(t *testing.T, args ...string) *rightsNode {
	t.Helper()
	identity := identityOf(t, "descriptors: [{entries: [method]}, {entries: [{header: X-Op, as: headgate_op}]}]\nallow_invented: true\n")
	n := &rightsNode{t: t, node: startNode(t, append([]string{
		"--rules", writeRules(t, rightsRules), "--identity", identity, "--auth-addr", "127.0.0.1:0", "--auth-peers", "127.0.0.1",
	}, args...)...)}
	conn, err := grpc.NewClient(n.at(t, "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n.ratelimit, n.auth, n.authAddr = rlsv3.NewRateLimitServiceClient(conn), authpb.NewAuthorizationClient(conn), n.at(t, "auth")
	return n
}

// identityOf returns a file of who asks.
func identityOf(t *testing.T, text string) string {
	t.Helper()
	return writeFile(t, "identity.yaml", text)
}

// post sends body to path, and returns the status and the answer.
func (n *rightsNode) post(path, body string) (int, string) {
	n.t.Helper()
	resp, err := n.client.Post("http://headgate"+path, "application/json", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// used returns how much of the nine hits of user u is used.
func (n *rightsNode) used(u string) int {
	n.t.Helper()
	code, text := n.post("/v1/check", fmt.Sprintf(`{"domain":"d","descriptors":[{"descriptor":"user:%s","hits":0}]}`, u))
	var a struct{ Remaining int }
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != http.StatusOK {
		n.t.Fatalf("%d %s: %v", code, text, err)
	}
	return 9 - a.Remaining
}

// reserved makes a reservation of four hits of user u, and returns it.
func (n *rightsNode) reserved(u string) string {
	n.t.Helper()
	code, text := n.post("/v1/reserve", fmt.Sprintf(`{"domain":"d","id":"r","descriptors":[{"descriptor":"user:%s","hits":4}]}`, u))
	var a struct{ Reservation string }
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != http.StatusOK {
		n.t.Fatalf("%d %s: %v", code, text, err)
	}
	return a.Reservation
}

// rightsCase is one operation. Before it, user U has used 5, of which 4 are reserved.
type rightsCase struct {
	name string
	// path and body are a call over HTTP; envoy is one over gRPC and /json.
	path, body string
	envoy      *rlsv3.RateLimitRequest
	// closed says that the switch closes it. used is what U has used afterwards where it
	// is not refused.
	closed bool
	used   int
}

func over(path, name, body string, closed bool, used int) rightsCase {
	return rightsCase{name: path + " " + name, path: path, body: body, closed: closed, used: used}
}

func byEnvoy(name string, closed bool, used int, descriptors ...*ratelimitv3.RateLimitDescriptor) rightsCase {
	return rightsCase{name: name, envoy: &rlsv3.RateLimitRequest{Domain: "d", Descriptors: descriptors}, closed: closed, used: used}
}

// wire is a descriptor of pairs of keys and values.
func wire(hits uint64, pairs ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{HitsAddend: wrapperspb.UInt64(hits)}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func negative(d *ratelimitv3.RateLimitDescriptor) *ratelimitv3.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

func limited(d *ratelimitv3.RateLimitDescriptor) *ratelimitv3.RateLimitDescriptor {
	d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1e6, Unit: typev3.RateLimitUnit_SECOND}
	return d
}

// rightsCases are all operations on user u, by every way in that has any.
func rightsCases(u, reservation string) []rightsCase {
	const key = `{"key":"k","limit":9,"window_ms":86400000`
	user := func(more string) string {
		return fmt.Sprintf(`{"domain":"d","descriptors":[{"descriptor":"user:%s"%s}]}`, u, more)
	}
	on := func(text, more string) string {
		return fmt.Sprintf(`{"domain":"d","descriptors":[{"descriptor":%q%s}]}`, text, more)
	}
	settles := []string{"user", u, "headgate_id", "r", "headgate_estimate", "4"}
	op := func(name string, hits uint64) *ratelimitv3.RateLimitDescriptor {
		return wire(hits, append([]string{"headgate_op", name}, settles...)...)
	}
	caller := byEnvoy("envoy: limit in the domain of callers", true, 5, limited(wire(1, "user", u)))
	caller.envoy.Domain = "headgate.caller"
	return []rightsCase{
		over("/v1/check", "hit", user(""), false, 6),
		over("/v1/check", "peek", user(`,"hits":0`), false, 5),
		over("/v1/check", "charge", user(`,"hits":2,"op":"charge"`), false, 7),
		over("/v1/check", "refund", user(`,"op":"refund"`), true, 4),
		over("/v1/check", "negative hits", user(`,"hits":-2`), true, 3),
		over("/v1/check", "reset", user(`,"op":"reset"`), true, 0),
		over("/v1/check", "renew", on("slot:s"+u+",id:a", `,"op":"renew"`), false, 5),
		over("/v1/check", "release", on("slot:s"+u+",id:a", `,"op":"release"`), false, 5),
		over("/v1/check", "refund of a slot", on("slot:s"+u+",id:a", `,"op":"refund"`), false, 5),
		over("/v1/check", "refund of a slot with hits", on("job:s"+u+",id:a", `,"op":"refund"`), true, 5),
		over("/v1/check", "limit", key+"}", true, 5),
		over("/v1/check", "refund of a limit", key+`,"hits":-1}`, true, 5),
		over("/v1/check", "reset of a limit", key+`,"op":"reset"}`, true, 5),
		over("/v1/check", "batch with a limit", `{"checks":[`+user("")+`,`+key+`}]}`, true, 6),
		over("/v1/check", "batch with a refund", `{"checks":[`+user("")+`,`+user(`,"hits":-3`)+`]}`, true, 3),
		over("/v1/renew", "", on("slot:s"+u+",id:a", ""), false, 5),
		over("/v1/renew", "limit", key+`,"hold":"h"}`, true, 5),
		over("/v1/release", "", on("slot:s"+u+",id:a", ""), false, 5),
		over("/v1/release", "limit", key+`,"hold":"h"}`, true, 5),
		over("/v1/reserve", "", strings.Replace(user(`,"hits":2`), "{", `{"id":"other",`, 1), false, 7),
		over("/v1/commit", "", fmt.Sprintf(`{"reservation":%q,"hits":1}`, reservation), false, 2),
		over("/v1/cancel", "", fmt.Sprintf(`{"reservation":%q}`, reservation), false, 1),
		byEnvoy("envoy: hit", false, 6, wire(1, "user", u)),
		byEnvoy("envoy: limit", true, 5, limited(wire(1, "user", u))),
		caller,
		byEnvoy("envoy: limit beside a hit", true, 6, wire(1, "user", u), limited(wire(1, "user", u))),
		byEnvoy("envoy: negative hits", true, 3, negative(wire(2, "user", u))),
		byEnvoy("envoy: negative hits beside a hit", true, 6, wire(1, "user", u), negative(wire(1, "job", u))),
		byEnvoy("envoy: negative hits of a slot", false, 5, negative(wire(1, "slot", "s"+u, "id", "a"))),
		byEnvoy("envoy: charge", false, 7, wire(2, "user", u, "headgate_op", "charge")),
		byEnvoy("envoy: charge of a limit", true, 5, limited(wire(2, "user", u, "headgate_op", "charge"))),
		byEnvoy("envoy: reserve", false, 7, wire(1, "user", u, "headgate_op", "reserve", "headgate_id", "other", "headgate_estimate", "2")),
		byEnvoy("envoy: commit", false, 2, op("commit", 1)),
		byEnvoy("envoy: cancel", false, 1, op("cancel", 1)),
		byEnvoy("envoy: commit beside negative hits", true, 1, op("commit", 1), negative(wire(1, "user", u))),
		byEnvoy("envoy: commit beside a limit", true, 2, op("commit", 1), limited(wire(1, "user", u))),
	}
}

// TestRightsOfCallers: --no-caller-limits holds at every way in. What it closes is refused
// and charges nothing, all else goes on, and without it everything is served.
func TestRightsOfCallers(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprintf("caller-limits=%v", open), func(t *testing.T) {
			n := startRightsNode(t, fmt.Sprintf("--caller-limits=%v", open))
			for i, c := range rightsCases("", "") {
				ways := []string{"http"}
				if c.envoy != nil {
					ways = []string{"grpc", "json"}
				}
				for _, way := range ways {
					u := fmt.Sprintf("u%d%s", i, way)
					if code, text := n.post("/v1/check", fmt.Sprintf(`{"domain":"d","descriptors":[{"descriptor":"user:%s"}]}`, u)); code != http.StatusOK {
						t.Fatalf("%d %s", code, text)
					}
					one := rightsCases(u, n.reserved(u))[i]
					refused := n.ask(way, &one)
					want := one.used
					if one.closed && !open {
						want = 5
					}
					if used := n.used(u); refused != (one.closed && !open) || used != want {
						t.Errorf("%s by %s: refused %v, used %d, want %d", c.name, way, refused, used, want)
					}
				}
			}
			n.gatewaysHaveNoRights()
			metrics := n.scrape(t)
			for _, series := range []string{"http", "json", "grpc"} {
				found := regexp.MustCompile(`headgate_refused_calls_total\{front="` + series + `",right="give_back"\} (\d+)`).FindStringSubmatch(metrics)
				if found == nil || (found[1] == "0") != open {
					t.Errorf("%s: %v", series, found)
				}
			}
			if told := strings.Contains(n.process.Output(), "refused because its caller has no right to it"); told == open {
				t.Errorf("told of refused calls: %v", told)
			}
		})
	}
}

// ask does c, and reports whether it was refused for want of a right. Anything else that
// is no answer fails the test.
func (n *rightsNode) ask(way string, c *rightsCase) bool {
	n.t.Helper()
	code, text := 0, ""
	switch way {
	case "http":
		code, text = n.post(c.path, c.body)
	case "json":
		body, err := protojson.Marshal(c.envoy)
		if err != nil {
			n.t.Fatal(err)
		}
		code, text = n.post("/json", string(body))
	default:
		_, err := n.ratelimit.ShouldRateLimit(n.t.Context(), c.envoy)
		if code, text = http.StatusOK, ""; err != nil {
			code, text = http.StatusBadGateway, err.Error()
		}
		if status.Code(err) == codes.PermissionDenied {
			code = http.StatusForbidden
		}
	}
	if code == http.StatusForbidden && strings.Contains(text, "not served here") {
		return true
	}
	if code != http.StatusOK {
		n.t.Errorf("%s by %s: %d %s", c.name, way, code, text)
	}
	return false
}

// gatewaysHaveNoRights: what a client sends through a gateway is a hit, whatever it says.
func (n *rightsNode) gatewaysHaveNoRights() {
	n.t.Helper()
	for i, cost := range []string{"-5", "1.5", "reset", "-9223372036854775808"} {
		req, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.authAddr+"/auth/traefik", nil)
		if err != nil {
			n.t.Fatal(err)
		}
		for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-Forwarded-Host": "h", "X-Forwarded-For": "203.0.113.9", "X-Cost": cost, "X-Op": "cancel"} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			n.t.Fatal(err)
		}
		resp.Body.Close()
		n.leftOfMethod("GET", fmt.Sprint("by HTTP, cost ", cost), resp.StatusCode, 8-i)
		answer, err := n.auth.Check(n.t.Context(), &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
			Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
				Address: "203.0.113.9", PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 1},
			}}}},
			Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
				Method: "POST", Path: "/", Host: "h", Headers: map[string]string{"x-cost": cost, "x-op": "refund"},
			}},
		}})
		if err != nil {
			n.t.Fatal(err)
		}
		n.leftOfMethod("POST", fmt.Sprint("by gRPC, cost ", cost), http.StatusOK+int(answer.GetStatus().GetCode()), 8-i)
	}
}

// leftOfMethod holds that a request of a gateway was allowed and charged one hit.
func (n *rightsNode) leftOfMethod(method, what string, code, want int) {
	n.t.Helper()
	_, text := n.post("/v1/check", `{"domain":"d","descriptors":[{"descriptor":"method:`+method+`","hits":0}]}`)
	var a struct{ Remaining int }
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != http.StatusOK || a.Remaining != want {
		n.t.Errorf("%s: status %d, %d left, want %d", what, code, a.Remaining, want)
	}
}

// A client of the proxy has no rights either, whatever it sends.
func TestProxyGivesNoRights(t *testing.T) {
	identity := identityOf(t, "descriptors: [{entries: [method]}]\n")
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	p := startProxy(t, backend, rightsRules, "--identity", identity)
	for i := range 9 {
		req := httptest.NewRequest(http.MethodPost, "http://"+p.addr+"/v1/check", bytes.NewBufferString(`{"key":"k","limit":1,"window_ms":1,"op":"reset"}`))
		req.RequestURI = ""
		req.Header.Set("X-Cost", "-5")
		resp, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if left := resp.Header.Get("X-RateLimit-Remaining"); resp.StatusCode != http.StatusOK || left != fmt.Sprint(8-i) {
			t.Errorf("request %d: %s, %s left", i+1, resp.Status, left)
		}
	}
}
