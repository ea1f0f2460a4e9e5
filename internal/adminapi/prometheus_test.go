package adminapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/promhistory"
	"github.com/headgate/headgate/internal/view"
)

// asks is a History that notes what it is asked.
type asks struct {
	got *promhistory.Question
}

func (a asks) Read(_ context.Context, q promhistory.Question) (view.PrometheusTimeline, error) {
	*a.got = q
	return view.PrometheusTimeline{Step: 300, Points: []view.PrometheusPoint{}}, nil
}

// The range, the steps and the node of a question are those that are asked for.
func TestPrometheusTimeline(t *testing.T) {
	var q promhistory.Question
	s := newTestServerOn(t, nil, withoutDatabase, hiding(func(w *Watch) { w.Prometheus = asks{&q} }))
	var there view.Prometheus
	if s.want(s.do(Read, "GET", "prometheus", ""), 200).json(t, &there); !there.Configured {
		t.Error("the Prometheus that is configured is not told of")
	}
	s.want(s.do(Read, "GET", "prometheus/timeline?from=2026-08-28T00:00:00Z&to=2026-11-26T00:00:00Z&points=750&node=gate-1", ""), 200)
	if q.To.Sub(q.From).Hours() != 90*24 || q.Most != 750 || q.Node != "gate-1" {
		t.Errorf("%+v", q)
	}
	for query, field := range map[string]string{
		"points=1001": "points", "node=%ff": "node", "from=2025-01-01T00:00:00Z&to=2026-11-26T00:00:00Z": "from", "step=1": "step",
	} {
		var p problem
		if s.want(s.do(Read, "GET", "prometheus/timeline?"+query, ""), 400).json(t, &p); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// What is wrong with Prometheus is told to whoever asks.
func TestPrometheusTrouble(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter)
		status int
		want   string
	}{
		"refused": {func(w http.ResponseWriter) { w.WriteHeader(401) }, 502, "--prometheus-token-file"},
		"knows no such": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`))
		}, 404, "does it scrape /metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.answer(w) }))
			defer server.Close()
			u, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			reader := promhistory.New(promhistory.Options{URL: u})
			defer reader.Close()
			s := newTestServerOn(t, nil, withoutDatabase, hiding(func(w *Watch) { w.Prometheus = reader }))
			if r := s.want(s.do(Read, "GET", "prometheus/timeline", ""), tt.status); !strings.Contains(string(r.body), tt.want) {
				t.Errorf("%s", r.body)
			}
		})
	}
}

// busy is a History that is asked by others.
type busy struct{}

func (busy) Read(context.Context, promhistory.Question) (view.PrometheusTimeline, error) {
	return view.PrometheusTimeline{}, &promhistory.Trouble{Kind: promhistory.Busy}
}

// Who asks while others do is told when to ask again.
func TestPrometheusIsAskedByOthers(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase, hiding(func(w *Watch) { w.Prometheus = busy{} }))
	if r := s.want(s.do(Read, "GET", "prometheus/timeline", ""), 503); r.header.Get("Retry-After") == "" {
		t.Errorf("%v", r.header)
	}
}

// Without a setting there is no Prometheus, and the answer says which one it takes.
func TestNoPrometheus(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	var there view.Prometheus
	if s.want(s.do(Read, "GET", "prometheus", ""), 200).json(t, &there); there.Configured {
		t.Error("a Prometheus that is not configured is told of")
	}
	if r := s.want(s.do(Read, "GET", "prometheus/timeline", ""), 404); !strings.Contains(string(r.body), "--prometheus-url") {
		t.Errorf("%s", r.body)
	}
}
