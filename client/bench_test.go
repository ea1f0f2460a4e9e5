package client

import (
	"io"
	"net/http"
	"testing"

	"github.com/headgate/headgate/internal/alloctest"
)

// still is a RoundTripper that costs nothing: it answers the same every time.
type still struct{ resp *http.Response }

func (s still) RoundTrip(*http.Request) (*http.Response, error) { return s.resp, nil }

// still answers, by what their servers tell.
var stillAnswers = []struct {
	name, header string
}{
	{"silent", "Date: Tue, 23 Jan 2024 08:53:38 GMT\nContent-Type: application/json"},
	{"draft8", "Date: Tue, 23 Jan 2024 08:53:38 GMT\nRateLimit-Policy: \"default\";q=100;w=60, \"writes\";q=20;w=60\nRateLimit: \"writes\";r=17;t=42\n" +
		"X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 17\nX-RateLimit-Reset: 1706000060"},
	{"draft6", "RateLimit-Policy: 100;w=60, 20;w=60\nRateLimit-Limit: 20\nRateLimit-Remaining: 17\nRateLimit-Reset: 42"},
	{"x", "Date: Tue, 23 Jan 2024 08:53:38 GMT\nX-RateLimit-Limit: 20\nX-RateLimit-Remaining: 17\nX-RateLimit-Reset: 1706000060"},
}

func stillAnswer(lines string) still {
	return still{&http.Response{StatusCode: 200, Header: header(lines), Body: io.NopCloser(nil)}}
}

func newRequest(t testing.TB) *http.Request {
	t.Helper()
	req, err := http.NewRequest("GET", "https://api.test/v1/things", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	return req
}

// BenchmarkTransport measures what a Transport adds to a request that costs
// nothing itself; "bare" is that request alone.
func BenchmarkTransport(b *testing.B) {
	run := func(name string, rt http.RoundTripper) {
		b.Run(name, func(b *testing.B) {
			req := newRequest(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rt.RoundTrip(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("bare", stillAnswer(stillAnswers[0].header))
	for _, a := range stillAnswers {
		run(a.name, &Transport{Base: stillAnswer(a.header), PaceBelow: -1})
	}
}

// TestAllocs: a request whose server tells nothing is passed on without
// allocating; telling costs a few small allocations at most.
func TestAllocs(t *testing.T) {
	for i, a := range stillAnswers {
		rt, req := &Transport{Base: stillAnswer(a.header), PaceBelow: -1}, newRequest(t)
		got := alloctest.PerRun(200, func() {
			if _, err := rt.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		})
		if most := map[bool]float64{true: 0, false: 2}[i == 0]; got > most {
			t.Errorf("%s: %v allocations, want at most %v", a.name, got, most)
		}
	}
}
