package app

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlqsv3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	checkstream "github.com/headgate/headgate/client/stream"
	"github.com/headgate/headgate/client/stream/streampb"
	"github.com/headgate/headgate/internal/callers"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/testserver"
)

// secured is a process whose callers have rights, and what asks it.
type secured struct {
	t               *testing.T
	base, auth, ops string
	client          *http.Client
	conn            *grpc.ClientConn
	rls             rlsv3.RateLimitServiceClient
	authz           authv3.AuthorizationClient
	redis           string
	overTLS         *tls.Config       // nil for plain text
	tokens          map[string]string // by the rights that each has, with commas between
	unknown         string            // the name of a token that is none
}

// rightsOf are the rights of a set, as tokens are called by them.
func rightsOf(set int) string {
	var names []string
	for i, name := range countedRights {
		if set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// transports are what may speak HTTP/2 at the gRPC port.
var transports = []string{"grpc-go", "h2"}

// startSecured starts one with a token for each set of rights, by TLS where certificates
// are given, with that transport of gRPC. Nobody is a peer of its gateways, and who shows nothing may do nothing.
func startSecured(t *testing.T, certs *testserver.Certificates, logger *slog.Logger, transport string) *secured {
	t.Helper()
	s := settings()
	s.GRPCTransport = transport
	dir := t.TempDir()
	s.Rules = filepath.Join(dir, "rules.yaml")
	writeFile(t, s.Rules, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 100000, algorithm: fixed_window}}, {key: remote_address, rate_limit: {unit: year, requests_per_unit: 100000, algorithm: fixed_window}}]\n")
	s.RedisAddr = "127.0.0.1:0"
	s.AuthAddr, s.AuthPeers = "127.0.0.1:0", "192.0.2.0/24"
	n := &secured{t: t, tokens: map[string]string{}, client: &http.Client{Timeout: waits.Patience}, unknown: "nobody"}
	text := "anonymous: {ops: []}\ntokens:\n"
	for set := 1; set < 1<<len(countedRights); set++ {
		rights := strings.Split(rightsOf(set), ",")
		token, lines, err := callers.NewToken("t", rights, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		n.tokens[rightsOf(set)], text = token, text+lines
	}
	n.tokens[n.unknown] = "hgct_unknown"
	s.Callers.Callers = filepath.Join(dir, "callers.yaml")
	scheme, over := "http://", insecure.NewCredentials()
	if certs != nil {
		cert, key := certs.Issue(t, testserver.Leaf{URIs: []string{"spiffe://prod/batch"}})
		text += "certificates: [{name: 'uri:spiffe://prod/batch', rights: [check]}]\n"
		s.TLSCert, s.TLSKey, s.ClientCA, s.ClientCerts = certs.CertFile, certs.KeyFile, certs.CAFile, "required"
		shown := certs.ClientWith(t, cert, key)
		n.overTLS = shown
		n.client.Transport = &http.Transport{TLSClientConfig: shown, ForceAttemptHTTP2: true}
		scheme, over = "https://", credentials.NewTLS(shown.Clone())
	}
	writeFile(t, s.Callers.Callers, text)
	at := startAuth(t, s, logger)
	t.Cleanup(n.client.CloseIdleConnections)
	n.base, n.auth, n.ops = scheme+at["http"], scheme+at["auth"]+forwardauth.Prefix, "http://"+at["ops"]
	n.redis = at["redis"]
	conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(over))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	n.conn, n.rls, n.authz = conn, rlsv3.NewRateLimitServiceClient(conn), authv3.NewAuthorizationClient(conn)
	return n
}

// send sends a request and returns the status and the body of its answer.
func (n *secured) send(method, url, body string, header http.Header) (int, string) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header = header
	resp, err := n.client.Do(r)
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

// post asks by the token of a right, "" for none, and returns the status.
func (n *secured) post(path, body, as string) int {
	n.t.Helper()
	code, _ := n.send(http.MethodPost, n.base+path, body, bearer(n.tokens[as]))
	return code
}

// bearer is the header of who has a token, "" for none.
func bearer(token string) http.Header {
	if token == "" {
		return http.Header{}
	}
	return http.Header{"Authorization": {"Bearer " + token}}
}

// gateway asks as a gateway of that profile asks about the request of a client, whose
// own Authorization is a token that may do everything.
func (n *secured) gateway(profile, as string) int {
	n.t.Helper()
	h := bearer(n.tokens[rightsOf(1<<len(countedRights)-1)])
	h.Set("X-Forwarded-For", "198.51.100.7")
	for _, field := range []string{"X-Forwarded-", "X-Original-"} {
		h.Set(field+"Method", "GET")
		h.Set(field+"Uri", "/orders")
		h.Set(field+"Host", "api.example.com")
	}
	if as != "" {
		h.Set(callers.TokenHeader, n.tokens[as])
	}
	code, _ := n.send(http.MethodGet, n.auth+profile, "", h)
	return code
}

// with returns the context of a call by the token of as.
func (n *secured) with(as string) context.Context {
	ctx, cancel := context.WithTimeout(n.t.Context(), waits.Patience)
	n.t.Cleanup(cancel)
	if as != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+n.tokens[as])
	}
	return ctx
}

// asHTTP returns the status of HTTP for an error over gRPC.
func (n *secured) asHTTP(err error) int {
	n.t.Helper()
	switch status.Code(err) {
	case codes.OK:
		return 200
	case codes.Unauthenticated:
		return 401
	case codes.PermissionDenied:
		return 403
	}
	n.t.Errorf("over gRPC: %v", err)
	return 0
}

// call asks over gRPC by the token of as, and returns the status as HTTP has it.
func (n *secured) call(d *ratelimitv3.RateLimitDescriptor, as string) int {
	n.t.Helper()
	_, err := n.rls.ShouldRateLimit(n.with(as), &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{d}}, grpc.WaitForReady(true))
	return n.asHTTP(err)
}

// authorize is call for Envoy's ext_authz.
func (n *secured) authorize(as string) int {
	n.t.Helper()
	resp, err := n.authz.Check(n.with(as), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Path: "/orders", Host: "api.example.com", Headers: map[string]string{"x-forwarded-for": "198.51.100.7"},
		}},
	}}, grpc.WaitForReady(true))
	if err == nil && resp.GetStatus().GetCode() != int32(codes.OK) {
		n.t.Errorf("ext_authz as %q: %v", as, resp)
	}
	return n.asHTTP(err)
}

// report is call for Envoy's rate limit quota service, of a bucket that nothing else asks for.
func (n *secured) report(as string) int {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.with(as))
	defer cancel()
	stream, err := rlqsv3.NewRateLimitQuotaServiceClient(n.conn).StreamRateLimitQuotas(ctx, grpc.WaitForReady(true))
	if err == nil {
		err = stream.Send(&rlqsv3.RateLimitQuotaUsageReports{Domain: "d", BucketQuotaUsages: []*rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: &rlqsv3.BucketId{Bucket: map[string]string{"user": "reported"}}, NumRequestsAllowed: 1},
		}})
	}
	if err == nil || errors.Is(err, io.EOF) { // the error is where messages are received
		_, err = stream.Recv()
	}
	return n.asHTTP(err)
}

// stream is call over a stream of checks.
func (n *secured) stream(d *ratelimitv3.RateLimitDescriptor, as string) int {
	n.t.Helper()
	o := checkstream.Options{}
	if as != "" {
		o.Metadata = metadata.Pairs("authorization", "Bearer "+n.tokens[as])
	}
	c := checkstream.New(n.conn, o)
	defer c.Close()
	_, err := c.ShouldRateLimit(n.with(""), &rlsv3.RateLimitRequest{Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{d}})
	return n.asHTTP(err)
}

// overRedis sends a command by the token of as, and returns the status as HTTP has it.
func (n *secured) overRedis(as string, command ...string) int {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.redis)
	if err != nil {
		n.t.Fatal(err)
	}
	if n.overTLS != nil {
		settings := n.overTLS.Clone()
		settings.ServerName, _, _ = net.SplitHostPort(n.redis)
		conn = tls.Client(conn, settings)
	}
	defer conn.Close()
	in, answer := bufio.NewReader(conn), ""
	for _, args := range [][]string{{"AUTH", n.tokens[as]}, command} {
		if args[0] == "AUTH" && as == "" {
			continue
		}
		text := fmt.Sprintf("*%d\r\n", len(args))
		for _, arg := range args {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			n.t.Fatal(err)
		}
		if answer, err = in.ReadString('\n'); err != nil {
			n.t.Fatal(err)
		}
		if answer[0] == '-' {
			break
		}
	}
	switch kind, _, _ := strings.Cut(answer, " "); kind {
	case "*5\r\n":
		return 200
	case "-NOAUTH", "-WRONGPASS":
		return 401
	case "-NOPERM":
		return 403
	}
	n.t.Errorf("over Redis: %q", answer)
	return 0
}

// left is how much of its limit nobody has used of what the matrix asks for.
func (n *secured) left() string {
	n.t.Helper()
	var all []string
	for _, of := range []string{"user:u", "remote_address:198.51.100.7"} {
		code, text := n.send(http.MethodPost, n.base+"/v1/check", `{"domain":"d","descriptors":[{"descriptor":"`+of+`","hits":0}]}`, bearer(n.tokens["check"]))
		var answer struct{ Remaining *int64 }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || code != 200 || answer.Remaining == nil {
			n.t.Fatalf("peek at %s: %d %s", of, code, text)
		}
		all = append(all, fmt.Sprint(of, " ", *answer.Remaining))
	}
	return strings.Join(all, ", ")
}

// counted is how many calls were refused by now, for want of a credential or of a right.
func (n *secured) counted() (sum int) {
	n.t.Helper()
	_, text := n.send(http.MethodGet, n.ops+"/metrics", "", nil)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "headgate_auth_refused_total{") || strings.HasPrefix(line, "headgate_refused_calls_total{") {
			count, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
			if err != nil {
				n.t.Fatal(err)
			}
			sum += count
		}
	}
	return sum
}

// operation is one that callers ask for by one way in.
type operation struct {
	name string
	// needs are the rights that it takes, all of them.
	needs []string
	ask   func(as string) int
	// stranger is what who shows nothing hears: 401, and 403 where that could reach the
	// client of a gateway.
	stranger int
}

// operations are all there are.
func (n *secured) operations() []operation {
	entries := func(more ...string) *ratelimitv3.RateLimitDescriptor {
		d := &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: "u"}}}
		for i := 0; i < len(more); i += 2 {
			d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: more[i], Value: more[i+1]})
		}
		return d
	}
	back, named := entries(), entries()
	back.HitsAddend, back.IsNegativeHits = wrapperspb.UInt64(1), true
	named.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 100000, Unit: 1}
	over := func(path, body string) func(string) int {
		return func(as string) int { return n.post(path, body, as) }
	}
	rls := func(d *ratelimitv3.RateLimitDescriptor) func(string) int {
		return func(as string) int { return n.call(d, as) }
	}
	streamed := func(d *ratelimitv3.RateLimitDescriptor) func(string) int {
		return func(as string) int { return n.stream(d, as) }
	}
	booked := func(op, id string) *ratelimitv3.RateLimitDescriptor {
		return entries("headgate_op", op, "headgate_id", id, "headgate_estimate", "1")
	}
	inJSON := func(op, id string) string {
		return `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"},{"key":"headgate_op","value":"` + op + `"},{"key":"headgate_id","value":"` + id + `"},{"key":"headgate_estimate","value":"1"}]}]}`
	}
	code, made := n.send(http.MethodPost, n.base+"/v1/reserve", `{"domain":"d","descriptors":[{"descriptor":"user:u"}]}`, bearer(n.tokens["reserve"]))
	var answer struct{ Reservation string }
	if err := json.Unmarshal([]byte(made), &answer); err != nil || code != 200 || answer.Reservation == "" {
		n.t.Fatalf("reserve: %d %s", code, made)
	}
	reservation := `{"reservation":"` + answer.Reservation + `"}`
	const (
		user    = `"domain":"d","descriptors":[{"descriptor":"user:u"`
		limit   = `{"key":"k","limit":100000,"window_ms":60000`
		explain = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`
	)
	check, reserve, explained := []string{"check"}, []string{"reserve"}, []string{"explain"}
	name, back2 := []string{"check", "name_limits"}, []string{"check", "give_back"}
	redis := func(command ...string) func(string) int {
		return func(as string) int { return n.overRedis(as, command...) }
	}
	all := []operation{
		{"HTTP check", check, over("/v1/check", "{"+user+"}]}"), 0},
		{"HTTP check with an id", check, over("/v1/check", "{"+user+`}],"id":"i"}`), 0},
		{"HTTP charge", check, over("/v1/check", "{"+user+`,"op":"charge"}]}`), 0},
		{"HTTP renew", check, over("/v1/renew", "{"+user+`}],"hold":"h"}`), 0},
		{"HTTP release", check, over("/v1/release", "{"+user+`}],"hold":"h"}`), 0},
		{"HTTP limit", name, over("/v1/check", limit+"}"), 0},
		{"HTTP limit with an id", name, over("/v1/check", limit+`,"id":"one"}`), 0},
		{"HTTP limit in a batch", name, over("/v1/check", `{"checks":[{`+user+"}]},"+limit+"}]}"), 0},
		{"HTTP renew by a limit", name, over("/v1/renew", limit+`,"hold":"h"}`), 0},
		{"HTTP release by a limit", name, over("/v1/release", limit+`,"hold":"h"}`), 0},
		{"HTTP plain limit", name, over("/ratelimit/check", limit+"}"), 0},
		{"HTTP negative hits", back2, over("/v1/check", "{"+user+`,"hits":-1}]}`), 0},
		{"HTTP refund", back2, over("/v1/check", "{"+user+`,"op":"refund"}]}`), 0},
		{"HTTP reset", back2, over("/v1/check", "{"+user+`,"op":"reset"}]}`), 0},
		{"HTTP reset with an id", back2, over("/v1/check", "{"+user+`,"op":"reset"}],"id":"r"}`), 0},
		{"HTTP reset in a batch", back2, over("/v1/check", `{"checks":[{`+user+"}]},{"+user+`,"op":"reset"}]}]}`), 0},
		{"HTTP reserve", reserve, over("/v1/reserve", "{"+user+"}]}"), 0},
		{"HTTP commit", reserve, over("/v1/commit", reservation), 0},
		{"HTTP cancel", reserve, over("/v1/cancel", reservation), 0},
		{"HTTP explain", explained, over("/v1/explain", explain), 0},
		{"JSON check", check, over("/json", explain), 0},
		{"JSON limit", name, over("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}],"limit":{"requestsPerUnit":100000,"unit":"SECOND"}}]}`), 0},
		{"JSON refund", back2, over("/json", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}],"hitsAddend":"1","isNegativeHits":true}]}`), 0},
		{"JSON reserve", reserve, over("/json", inJSON("reserve", "j")), 0},
		{"JSON commit", reserve, over("/json", inJSON("commit", "j")), 0},
		{"gRPC check", check, rls(entries()), 0},
		{"gRPC charge", check, rls(entries("headgate_op", "charge")), 0},
		{"gRPC limit", name, rls(named), 0},
		{"gRPC negative hits", back2, rls(back), 0},
		{"gRPC reserve", reserve, rls(booked("reserve", "g")), 0},
		{"gRPC commit", reserve, rls(booked("commit", "g")), 0},
		{"gRPC cancel", reserve, rls(booked("cancel", "g")), 0},
		{"stream check", check, streamed(entries()), 0},
		{"stream charge", check, streamed(entries("headgate_op", "charge")), 0},
		{"stream limit", name, streamed(named), 0},
		{"stream negative hits", back2, streamed(back), 0},
		{"stream reserve", reserve, streamed(booked("reserve", "s")), 0},
		{"stream commit", reserve, streamed(booked("commit", "s")), 0},
		{"gRPC ext_authz", check, n.authorize, 403},
		{"gRPC quotas", check, n.report, 0},
		{"Redis check", check, redis("HEADGATE.CHECK", "d", "user=u"), 0},
		{"Redis check with an id", check, redis("HEADGATE.CHECK", "d", "user=u", "ID", "redis"), 0},
		{"Redis limit", name, redis("CL.THROTTLE", "k", "99999", "1", "60"), 0},
		{"Redis limit of nothing", name, redis("CL.THROTTLE", "k", "-1", "1", "60"), 0},
		{"Redis negative hits", back2, redis("HEADGATE.CHECK", "d", "user=u", "HITS", "-1"), 0},
		{"Redis negative quantity", []string{"check", "name_limits", "give_back"}, redis("CL.THROTTLE", "k", "99999", "1", "60", "-1"), 0},
		{"ops explain", explained, func(as string) int {
			code, _ := n.send(http.MethodPost, n.ops+"/v1/explain", explain, bearer(n.tokens[as]))
			return code
		}, 0},
	}
	for _, profile := range []string{"apisix", "caddy", "envoy/orders", "haproxy", "kong", "nginx", "traefik"} {
		all = append(all, operation{"sub-request of " + profile, check, func(as string) int { return n.gateway(profile, as) }, 403})
	}
	return all
}

// TestRefusedCallersAreNamed: at every way in the log names whose token it was that has no
// right, where the token has none of those that are needed there, and where one call takes
// another.
func TestRefusedCallersAreNamed(t *testing.T) {
	var log syncBuffer
	n := startSecured(t, nil, slog.New(slog.NewTextHandler(&log, nil)), "grpc-go")
	of := map[string]operation{}
	for _, op := range n.operations() {
		of[op.name] = op
	}
	for _, c := range []struct{ operation, as, where string }{
		{"HTTP limit", "check", "front=http"}, {"HTTP check", "explain", "door=http"},
		{"JSON limit", "check", "front=json"},
		{"gRPC limit", "check", "front=grpc"}, {"gRPC check", "explain", "door=grpc"},
		{"stream limit", "check", "front=stream"},
		{"Redis limit", "check", "front=redis"}, {"Redis check", "explain", "door=redis"},
		{"sub-request of nginx", "explain", "door=auth"},
		{"ops explain", "check", "door=ops"},
	} {
		if got := of[c.operation].ask(c.as); got != http.StatusForbidden {
			t.Errorf("%s: %d", c.operation, got)
		}
		waits.True(t, c.operation+" is told of with a name", func() bool {
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, c.where+" ") && strings.Contains(line, "actor=t\n") {
					return true
				}
			}
			return false
		})
	}
	for _, token := range n.tokens {
		if strings.Contains(log.String(), token) {
			t.Error("a token is in the log")
		}
	}
}

// TestRefusedBeforeTheBody: who may not come in hears so when the header of the call has
// come; neither a body nor a message is waited for, which here never come.
func TestRefusedBeforeTheBody(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) { refusedBeforeTheBody(t, startSecured(t, nil, quiet(), transport)) })
	}
}

func refusedBeforeTheBody(t *testing.T, n *secured) {
	for path, as := range map[string]string{
		"/v1/check": "reserve", "/ratelimit/check": "reserve", "/v1/renew": "reserve", "/v1/release": "reserve", // which let reserve alone
		"/v1/reserve": "check", "/v1/commit": "check", "/v1/cancel": "check", "/v1/explain": "check,reserve",
	} {
		n.bodiless(n.base+path, "Authorization: Bearer "+n.tokens[as])
	}
	if got := n.overRedis("reserve", "PING"); got != http.StatusForbidden {
		t.Errorf("a token without the right to check over Redis: %d", got)
	}
	for _, as := range []string{"", n.unknown, "name_limits,give_back"} {
		for url, with := range map[string]string{
			n.base + "/v1/check": "Authorization: Bearer ", n.base + "/ratelimit/check": "Authorization: Bearer ",
			n.base + "/v1/renew": "Authorization: Bearer ", n.base + "/v1/release": "Authorization: Bearer ",
			n.base + "/v1/reserve": "Authorization: Bearer ", n.base + "/v1/commit": "Authorization: Bearer ", n.base + "/v1/cancel": "Authorization: Bearer ",
			n.base + "/json": "Authorization: Bearer ", n.base + "/v1/explain": "Authorization: Bearer ", n.ops + "/v1/explain": "Authorization: Bearer ",
			n.auth + "traefik": callers.TokenHeader + ": ",
		} {
			if as != "" {
				with += n.tokens[as]
			} else {
				with = "X-Nothing: shown"
			}
			n.bodiless(url, with)
		}
		for _, method := range []string{rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, authv3.Authorization_Check_FullMethodName, rlqsv3.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName, streampb.CheckStream_Check_FullMethodName} {
			stream, err := n.conn.NewStream(n.with(as), &grpc.StreamDesc{ClientStreams: true}, method, grpc.WaitForReady(true))
			if err == nil {
				err = stream.RecvMsg(new(rlsv3.RateLimitResponse))
			}
			if code := n.asHTTP(err); code != 401 && code != 403 {
				t.Errorf("%s as %q: %v", method, as, err)
			}
		}
	}
}

// bodiless sends the header of a request with a body, and sees to it that it is refused.
func (n *secured) bodiless(url, shown string) {
	n.t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n%s\r\n\r\n", path, shown)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 401 && resp.StatusCode != 403 {
		n.t.Errorf("%s by %.30s: %s", url, shown, resp.Status)
	}
}

// TestRightsMatrix: every operation of every way in, by who shows nothing, a token that is
// not known, and one token for each set of rights, in plain text and by mutual TLS. Each
// works by the rights that it takes and by no others, and what is refused charges nothing.
// By TLS the certificate has the right to check.
//
//promise:front-door
func TestRightsMatrix(t *testing.T) {
	certificates := testserver.NewCertificates(t)
	for _, over := range []struct {
		name, transport string
		certs           *testserver.Certificates
	}{
		{"plain text", "grpc-go", nil}, {"TLS", "grpc-go", certificates},
		{"plain text by h2", "h2", nil}, {"TLS by h2", "h2", certificates},
	} {
		certs := over.certs
		t.Run(over.name, func(t *testing.T) {
			n := startSecured(t, certs, quiet(), over.transport)
			all := n.operations()
			before := n.left()
			for _, refused := range []bool{true, false} {
				asked, counted := 0, n.counted()
				for _, op := range all {
					byCertificate := certs != nil && op.name != "ops explain" // which has no TLS
					for set := -1; set < 1<<len(countedRights); set++ {
						as, has := n.unknown, []string{}
						if set >= 0 {
							as = rightsOf(set)
							has = strings.Split(as, ",")
						}
						if byCertificate && set == 0 {
							has = []string{"check"}
						}
						want := 403
						switch {
						case set < 0:
							want = 401
						case set == 0 && !byCertificate:
							want = cmp.Or(op.stranger, 401)
						case !slices.ContainsFunc(op.needs, func(right string) bool { return !slices.Contains(has, right) }):
							want = 200
						}
						if (want != 200) != refused {
							continue
						}
						asked++
						if got := op.ask(as); got != want {
							t.Errorf("%s as %q: %d, want %d", op.name, as, got, want)
						}
					}
				}
				if counted = n.counted() - counted; refused && counted != asked || !refused && counted != 0 {
					t.Errorf("of %d, refused %v, %d are counted as refused", asked, refused, counted)
				}
				if after := n.left(); refused && after != before {
					t.Errorf("what was refused has charged: %s, before %s", after, before)
				}
			}
		})
	}
}
