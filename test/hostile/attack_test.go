package hostile

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// attackers send at the same time.
const attackers = 8

// mutations is how many requests that were good are sent with something wrong.
const mutations = 1500

// tally counts inputs by part and by what they were answered.
type tally struct {
	mu    sync.Mutex
	heard map[string]map[string]int
}

func (y *tally) count(part, heard string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.heard[part] == nil {
		y.heard[part] = map[string]int{}
	}
	y.heard[part][heard]++
}

// table returns the rows of docs/guarantees.md.
func (y *tally) table() string {
	var b strings.Builder
	for _, part := range slices.Sorted(maps.Keys(y.heard)) {
		sum, list := 0, []string{}
		for _, heard := range slices.Sorted(maps.Keys(y.heard[part])) {
			sum += y.heard[part][heard]
			list = append(list, fmt.Sprintf("%s: %d", heard, y.heard[part][heard]))
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", part, sum, strings.Join(list, ", "))
	}
	return b.String()
}

// statuses are those of the answers in what was read of a connection.
func statuses(answer []byte) (list []int) {
	for line := range bytes.Lines(answer) {
		if rest, ok := bytes.CutPrefix(line, []byte("HTTP/1.")); ok && len(rest) > 5 {
			if status, err := strconv.Atoi(string(rest[2:5])); err == nil {
				list = append(list, status)
			}
		}
	}
	return list
}

// heard says how an input was answered, and what is wrong with that.
func (in *input) heard(answer []byte) (heard, wrong string) {
	if in.listener == "redis" {
		return in.heardRedis(answer)
	}
	heard = "hung up on"
	for _, status := range statuses(answer) {
		heard = fmt.Sprintf("%dxx", status/100)
		if status >= 500 && !slices.Contains(allowedFaults, status) || in.refused && status < 300 && status >= 200 {
			wrong = strconv.Itoa(status)
		}
	}
	return heard, wrong
}

// heardRedis is heard for the protocol of Redis, in which a decision is five numbers.
func (in *input) heardRedis(answer []byte) (heard, wrong string) {
	heard = "hung up on"
	for line := range bytes.Lines(answer) {
		switch line[0] {
		case '-':
			heard = "error"
		case '*':
			if heard = "decision"; in.refused {
				wrong = heard
			}
		}
	}
	return heard, wrong
}

// allowedFaults are statuses of 500 and more that say what is wrong with a request.
var allowedFaults = []int{http.StatusNotImplemented, http.StatusHTTPVersionNotSupported}

// sendAll sends inputs to a node, several at once, and checks what is answered.
func (f *fleet) sendAll(t *testing.T, part string, y *tally, n *node, inputs []input) {
	work := make(chan input)
	var senders sync.WaitGroup
	for range attackers {
		senders.Go(func() {
			for in := range work {
				answer, err := n.send(in.listener, in.data)
				if err != nil {
					t.Errorf("%s, %s at %s: %v", part, in.name, in.listener, err)
				}
				f.leaks(part+", "+in.name, string(answer))
				heard, wrong := in.heard(answer)
				if wrong != "" {
					t.Errorf("%s, %s at %s: %s\n%.500s", part, in.name, in.listener, wrong, answer)
				}
				y.count(part, heard)
			}
		})
	}
	for _, in := range inputs {
		work <- in
	}
	close(work)
	senders.Wait()
}

// request returns a whole request in bytes.
func request(method, path, token, body string) []byte {
	auth := ""
	if token != "" {
		auth = "Authorization: Bearer " + token + "\r\n"
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		method, path, auth, len(body), body)
}

// TestInputs sends bytes and requests that are not as they should be to all listeners.
//
//promise:front-door
func TestInputs(t *testing.T) {
	f := newFleet(t)
	y := &tally{heard: map[string]map[string]int{}}
	first := f.nodes[0]
	if status, body, err := first.ask(http.MethodPut, "admin", "/admin/v1/quotas/"+apiKey, f.tokens["admin"], `{"tier":"free"}`); err != nil || status/100 != 2 {
		t.Fatalf("an account: %d, %s, %v", status, body, err)
	}
	f.usageToken()
	if status, body, err := first.ask(http.MethodPost, "http", "/v1/check", f.tokens["all"], victimsCheck); err != nil || status != http.StatusOK {
		t.Fatalf("the victim's check: %d, %s, %v", status, body, err)
	}
	before := f.stands()

	var parts []func()
	part := func(name string, n *node, inputs []input) {
		parts = append(parts, func() {
			f.sendAll(t, name, y, n, inputs)
			f.unharmed(name)
			if after := f.stands(); after != before {
				t.Errorf("%s has changed something:\n%+v\n%+v", name, before, after)
			}
		})
	}
	var noHTTP []input
	for _, listener := range plainListeners {
		noHTTP = append(noHTTP, noRequests(listener)...)
	}
	part("bytes that are no request", first, noHTTP)
	part("frames of HTTP/2 and gRPC", f.nodes[1], append(badFrames("grpc"), badFrames("http")...))
	part("bytes at listeners with TLS", f.nodes[2], slices.Concat(noRequests("http"), noRequests("grpc"), noRequests("redis"), badFrames("grpc")))
	part("headers of the PROXY protocol", f.nodes[1], badProxyHeaders())
	part("commands of Redis", first, f.badCommands())
	part("ids of other checks", f.nodes[1], f.takenIDs())
	part("bodies that are not valid", f.nodes[1], f.bodies())
	part("documents that are not valid", first, f.documents())
	part("raises that may not be", first, f.badRaises())
	part("rights that are missing", first, f.withoutRights())
	part("requests with something wrong", f.nodes[1], f.mutated(rand.New(rand.NewPCG(1, 2))))
	for _, run := range parts {
		run()
	}
	t.Log("\n" + y.table())
	f.leaksOnDisk()
}

// bodies are those of badBodies at every path that decides, by who may do everything.
func (f *fleet) bodies() (list []input) {
	for name, body := range badBodies() {
		for _, path := range []string{"/v1/check", "/v1/reserve", "/v1/commit", "/v1/cancel", "/v1/renew", "/v1/release", "/ratelimit/check", "/json", "/v1/explain"} {
			list = append(list, input{path + ": " + name, "http", request(http.MethodPost, path, f.tokens["all"], body), path != "/json"})
		}
	}
	return list
}

// documents are those of badDocuments at every path that changes something, by an admin.
func (f *fleet) documents() (list []input) {
	for name, body := range badDocuments() {
		for _, path := range []string{"PUT quotas/tenant:t", "PUT tiers/document", "PUT rules/documents/x", "POST rules/rows", "PUT switches/all", "POST import", "POST quotas/tenant:t/topups", "POST explain", "POST hooks/billing"} {
			method, path, _ := strings.Cut(path, " ")
			list = append(list, input{path + ": " + name, "admin", request(method, "/admin/v1/"+path, f.tokens["admin"], body), true})
		}
	}
	return list
}

// withoutRights are requests that would do something, each by all who may not.
func (f *fleet) withoutRights() (list []input) {
	victim := func(more string) string {
		return `{"domain":"d","descriptors":[{"entries":[{"key":"victim","value":"v"}]` + more + `}]}`
	}
	add := func(listener, method, path, body string, may ...string) {
		whos := map[string]string{"nobody": "", "a token of nobody": "hgct_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "no token": "%s\x7f"}
		maps.Copy(whos, f.tokens)
		for who, token := range whos {
			if !slices.Contains(may, who) {
				list = append(list, input{path + " by " + who, listener, request(method, path, token, body), true})
			}
		}
	}
	for _, body := range []string{victim(`,"op":"refund"`), victim(`,"hits":-5`), victim(`,"op":"reset"`), victim(`,"limit":1000000,"window_ms":1000`)} {
		add("http", http.MethodPost, "/v1/check", body, "all")
	}
	add("http", http.MethodPost, "/v1/reserve", victim(""), "all")
	add("http", http.MethodPost, "/v1/explain", victim(""), "all")
	add("http", http.MethodPost, "/v1/check", victim(`,"hits":1`), "all", "check")
	for _, change := range [][2]string{
		{"PUT quotas/tenant:t", `{"tier":"free"}`}, {"DELETE quotas/tenant:t", ""}, {"POST quotas/tenant:t/reset", `{}`}, {"PUT switches/all", `{"state":"off","reason":"x"}`},
		{"DELETE switches/all", ""}, {"PUT rules/documents/x", `{}`}, {"DELETE rules/documents/x", ""}, {"POST rules/rows", `{}`}, {"POST import", `{}`},
	} {
		method, path, _ := strings.Cut(change[0], " ")
		add("admin", method, "/admin/v1/"+path, change[1], "admin")
	}
	for _, path := range []string{"quotas", "changes", "me", "fleet", "keys", "events", "export"} {
		add("admin", http.MethodGet, "/admin/v1/"+path, "", "admin", "read")
	}
	for who, token := range f.tokens {
		for _, command := range [][]string{
			{"CL.THROTTLE", "k", "1", "1", "1"}, {"CL.THROTTLE", "k", "1", "1", "1", "-1"}, {"HEADGATE.CHECK", "d", "victim=v", "HITS", "-5"}, {"HEADGATE.CHECK", "d", "victim=v"},
		} {
			if who != "all" && (who != "check" || len(command) != 3) {
				list = append(list, input{fmt.Sprint(command, " by ", who), "redis", []byte(loggedIn(token, command...)), true})
			}
		}
	}
	add("usage", http.MethodGet, "/v1/usage", "", "usage")
	for _, path := range []string{"/api/overview", "/api/quotas", "/api/me"} {
		add("dashboard", http.MethodGet, path, "")
	}
	return list
}

// mutated are requests that were good, with something wrong in them.
func (f *fleet) mutated(r *rand.Rand) (list []input) {
	good := [][]byte{
		request(http.MethodPost, "/v1/check", f.tokens["check"], `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}],"hits":1}]}`),
		request(http.MethodPost, "/ratelimit/check", f.tokens["all"], `{"key":"user:u","limit":100000000,"window_ms":60000}`),
		request(http.MethodPost, "/json", f.tokens["check"], `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`),
		[]byte("GET /auth/nginx HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-API-Key: " + apiKey + "\r\nX-Original-URI: /a?b=c\r\n\r\n"),
		request(http.MethodPut, "/admin/v1/quotas/tenant:t", f.tokens["read"], `{"tier":"free"}`),
		[]byte(loggedIn(f.tokens["all"], "HEADGATE.CHECK", "d", "user=u", "HITS", "2", "ID", "x") + command("CL.THROTTLE", "user", "100", "10", "60")),
	}
	listeners := []string{"http", "http", "http", "auth", "admin", "redis"}
	for i := range mutations {
		which := r.IntN(len(good))
		data := slices.Clone(good[which])
		for range 1 + r.IntN(4) {
			at := r.IntN(len(data))
			switch r.IntN(5) {
			case 0:
				data[at] = byte(r.IntN(256))
			case 1:
				data[at] ^= 1 << r.IntN(8)
			case 2:
				data = slices.Insert(data, at, byte(r.IntN(256)))
			case 3:
				data = slices.Delete(data, at, min(at+1+r.IntN(8), len(data)))
			case 4:
				data = slices.Concat(data[:at], data[at/2:])
			}
			if len(data) == 0 {
				data = []byte("x")
			}
		}
		list = append(list, input{"mutation " + strconv.Itoa(i), listeners[which], data, false})
	}
	return list
}
