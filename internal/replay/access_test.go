package replay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/identityfile"
	"github.com/headgate/headgate/internal/replay"
)

// extractor is that of an identity file.
func extractor(t testing.TB, text string) *identity.Extractor {
	t.Helper()
	path := ""
	if text != "" {
		path = filepath.Join(t.TempDir(), "identity.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := identityfile.Load(identityfile.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return s.Extractor
}

const whoAsks = `
client_ip: {source: x_forwarded_for, trusted: [10.0.0.0/8]}
routes: ["/v1/orders/{id}"]
allow_invented: true
descriptors:
  - entries: [remote_address]
  - entries: [remote_address, endpoint]
  - entries: [{header: Remote-User, as: user}]
`

const addressPolicy = `
domain: shop
descriptors:
- {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: fixed_window}, descriptors: [
    {key: endpoint, value: "GET /v1/orders/{id}", rate_limit: {unit: minute, requests_per_unit: 1, algorithm: fixed_window}}]}
- {key: user, value: ann, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: fixed_window}}
`

// The identity file makes of the lines of all formats what it makes of requests.
func TestAccessLogs(t *testing.T) {
	who := extractor(t, whoAsks)
	for name, c := range map[string]struct {
		format, log string
		want        replay.Counts
		rules       string // that deny newly
		nobody      int64
	}{
		"combined": {replay.Combined, `203.0.113.7 - - [22/Nov/2026:12:00:00 +0000] "GET /v1/orders/1 HTTP/1.1" 200 5 "-" "curl"
203.0.113.7 - - [22/Nov/2026:12:00:01 +0000] "GET /v1/orders/2?x=y HTTP/1.1" 200 5 "-" "curl"
203.0.113.7 - - [22/Nov/2026:13:00:01 +0100] "GET /other HTTP/1.1" 429 5 "-" "curl"
203.0.113.8 - ann [22/Nov/2026:12:00:02 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"
203.0.113.9 - ann [22/Nov/2026:12:00:03 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"
some.name - - [22/Nov/2026:12:00:04 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"
10.0.0.1 - - [22/Nov/2026:12:00:05 +0000] "\x16\x03" 400 5 "-" "-"
`, replay.Counts{Requests: 5, DeniedBefore: 1, DeniedAfter: 2, NewlyDenied: 2, NewlyAllowed: 1}, "shop.remote_address.endpoint_GET /v1/orders/{id} shop.user_ann", 1},
		"behind a proxy": {replay.Combined, `10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" "203.0.113.7"
10.0.0.2 - - [22/Nov/2026:12:00:01 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" "6.6.6.6, 203.0.113.7"
10.0.0.1 - - [22/Nov/2026:12:00:02 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" "203.0.113.7, 10.9.9.9"
`, replay.Counts{Requests: 3, DeniedAfter: 1, NewlyDenied: 1}, "shop.remote_address", 0},
		"envoy": {replay.Envoy, `[2026-11-22T12:00:00.1Z] "GET / HTTP/1.1" 200 - 0 0 1 1 "203.0.113.7,10.0.0.1" "-" "-" "a" "-"
[2026-11-22T12:00:00.3Z] "GET / HTTP/1.1" 200 - 0 0 1 1 "203.0.113.7" "-" "-" "a" "-"
[2026-11-22T12:00:00.2Z] "GET / HTTP/1.1" 403 RL 0 0 1 1 "203.0.113.7" "-" "-" "a" "-"
[2026-11-22T12:00:00.4Z] "GET / HTTP/1.1" 200 - 0 0 1 1 "-" "-" "-" "a" "-"
`, replay.Counts{Requests: 3, DeniedBefore: 1, DeniedAfter: 1, NewlyDenied: 1, NewlyAllowed: 1}, "shop.remote_address", 1},
		"csv of requests": {replay.CSV, `time,remote_address,method,path,status,user
1795348800,203.0.113.7,GET,/v1/orders/1,200,
1795348801,203.0.113.7,GET,/v1/orders/2,200,
1795348802,203.0.113.7,GET,,429,ann
`, replay.Counts{Requests: 3, DeniedBefore: 1, DeniedAfter: 1, NewlyDenied: 1, NewlyAllowed: 1}, "shop.remote_address.endpoint_GET /v1/orders/{id}", 0},
		"csv of descriptors": {replay.CSV, `time,domain,descriptor,hits,allowed
2026-11-22T12:00:00Z,,"remote_address:a",2,true
2026-11-22T12:00:01Z,other,"remote_address:a",1,true
2026-11-22T12:00:02Z,shop,"remote_address:a",1,true
`, replay.Counts{Requests: 3, DeniedAfter: 1, NewlyDenied: 1}, "shop.remote_address", 0},
	} {
		a := &replay.Access{Domain: "shop", Extractor: who, Denied: []int{429}, NeedsAnswers: true}
		report := run(t, addressPolicy, replay.Options{
			Inputs: []replay.Input{textInput("log", c.log, access(a, c.format))}, Window: replay.DefaultWindow,
		})
		lines := int64(strings.Count(c.log, "\n"))
		if c.format == replay.CSV {
			lines-- // the names of the columns
			if report.Reading.Skipped > 0 {
				t.Errorf("%s: %+v: the header is about no request, and no line", name, report.Reading)
			}
		}
		if report.Reading.Lines != lines {
			t.Errorf("%s: %d lines, want %d", name, report.Reading.Lines, lines)
		}
		if report.Counts != c.want || report.Reading.Bad != 0 || report.Reading.Nobody != c.nobody {
			t.Errorf("%s: %+v, want %+v; %+v", name, report.Counts, c.want, report.Reading)
		}
		var denying []string
		for _, r := range report.Rules {
			if r.NewlyDenied > 0 {
				denying = append(denying, r.Rule)
			}
		}
		if got := strings.Join(denying, " "); got != c.rules {
			t.Errorf("%s: %s, want %s", name, got, c.rules)
		}
	}
}

// Who was connected to Envoy is the last of X-Forwarded-For, and only those before are what a proxy has
// noted.
func TestPeersOfEnvoy(t *testing.T) {
	who := extractor(t, "client_ip: {source: x_forwarded_for, hops: 1}\ndescriptors: [{entries: [remote_address]}]\n")
	a := &replay.Access{Domain: "shop", Extractor: who}
	decode, err := a.Decoder(replay.Envoy)
	if err != nil {
		t.Fatal(err)
	}
	var r replay.Record
	if err := decode([]byte(`[2026-11-22T12:00:00.1Z] "GET / HTTP/1.1" 200 - 0 0 1 1 "6.6.6.6,203.0.113.7,10.0.0.1" "-" "-" "a" "-"`), &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Descriptors[0].Entries[0].Value; got != "203.0.113.7" {
		t.Errorf("the client is %s", got)
	}
}

// A file that does not say what was answered needs rules of today.
func TestCSVWithoutAnswers(t *testing.T) {
	a := &replay.Access{Domain: "shop", NeedsAnswers: true}
	for _, again := range []bool{false, true} {
		first, second := textInput("log.csv", "time,descriptor\n1795348800,user:ann\n", access(a, replay.CSV)), textInput("b", "", access(a, replay.CSV))
		first.Again = again
		_, err := replay.Run(t.Context(), replay.Options{Inputs: []replay.Input{first, second}})
		if err == nil || !strings.Contains(err.Error(), "log.csv") || !strings.Contains(err.Error(), "--current") {
			t.Error(err)
		}
	}
}

// FuzzAccess takes any line in any format without harm.
func FuzzAccess(f *testing.F) {
	f.Add(`203.0.113.7 - - [22/Nov/2026:12:00:00 +0000] "GET /v1/orders/1 HTTP/1.1" 200 5 "-" "curl"`)
	f.Add(`10.0.0.1 - x [22/Nov/2026:12:00:00 +0000] "GET http://[::1]/%zz HTTP/1.1" 200 5 "-" "curl" "a, b"`)
	f.Add(`[2026-11-22T12:00:00.1Z] "GET //?;%% HTTP/1.1" 200 - 0 0 1 1 "203.0.113.7,[2001:db8::1]:80" "-" "-" "a" "-"`)
	f.Add("1795348800,203.0.113.7,GET,/v1/orders/1,200,x")
	who := extractor(f, whoAsks)
	f.Fuzz(func(t *testing.T, line string) {
		for _, format := range []string{replay.Combined, replay.Envoy, replay.CSV} {
			a := &replay.Access{Domain: "shop", Extractor: who}
			decode, err := a.Decoder(format)
			if err != nil {
				t.Fatal(err)
			}
			if format == replay.CSV {
				_ = decode([]byte("time,remote_address,method,path,status,header:x"), new(replay.Record))
			}
			r := new(replay.Record)
			if err := decode([]byte(line), r); err == nil && (len(r.Descriptors) == 0 || r.Domain == "") {
				t.Errorf("%s: %+v", line, r)
			}
		}
	})
}
