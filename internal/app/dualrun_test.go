package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/dualrun"
	waits "github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/view"
)

// TestDualRun: beside a service that has another unit, another kind of window and another way
// to count denied hits, each of the three is found, where it is and why, and nothing else in
// thousands of calls. What callers get is what the old service says.
func TestDualRun(t *testing.T) {
	dir := t.TempDir()
	with := func(name, unit, algorithm, denied string) config.Serve {
		s := settings()
		s.Rules = filepath.Join(dir, name)
		writeFile(t, s.Rules, `
domain: d
descriptors:
- {key: same, rate_limit: {unit: year, requests_per_unit: 20, algorithm: fixed_window}}
- {key: unit, rate_limit: {unit: `+unit+`, requests_per_unit: 5, algorithm: fixed_window}}
- {key: window, rate_limit: {unit: year, requests_per_unit: 5, `+algorithm+`}}
- {key: counts, rate_limit: {unit: year, requests_per_unit: 5, algorithm: fixed_window, count_denied: `+denied+`}}
`)
		return s
	}
	before := startAuth(t, with("old.yaml", "day", "algorithm: fixed_window", "false"), quiet())
	s := with("new.yaml", "year", "algorithm: gcra, burst: 1", "true")
	s.DualRun.DualRun = config.NewStoreURL("grpc://" + before["grpc"])
	var log syncBuffer
	at, stop := startUntil(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	conn, err := grpc.NewClient(at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, calls := rlsv3.NewRateLimitServiceClient(conn), 0
	ask := func(key, value string, hits uint32) rlsv3.RateLimitResponse_Code {
		t.Helper()
		calls++
		ctx := metadata.AppendToOutgoingContext(t.Context(), callers.TokenHeader, "hgct_secret")
		m, err := client.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "d", HitsAddend: hits, Descriptors: []*ratelimitv3.RateLimitDescriptor{
			{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return m.GetOverallCode()
	}
	report := func() (r dualrun.Report, text string) {
		t.Helper()
		status, text := get(t, "http://"+at["ops"]+"/dual-run")
		if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return r, text
	}
	compared := func() {
		t.Helper()
		waits.True(t, "all answers are compared", func() bool { r, _ := report(); return r.Compared == uint64(calls) })
	}
	for i := range 3000 {
		ask("same", fmt.Sprint("user", i%100), 1)
	}
	ask("unit", "secret-user", 1)
	for range 2 {
		if got := ask("window", "secret-user", 1); got != rlsv3.RateLimitResponse_OK {
			t.Errorf("the answer is not that of the old service: %v", got)
		}
	}
	ask("counts", "secret-user", 6)
	compared() // the rules of this process decide beside the answer, and so in any order
	if got := ask("counts", "secret-user", 1); got != rlsv3.RateLimitResponse_OK {
		t.Errorf("the answer is not that of the old service: %v", got)
	}
	compared()
	r, text := report()
	if r.Different != 2 || r.DifferentInPart != 1 || len(r.Places) != 3 || r.Skipped+r.OldFailed+r.OwnFailed != 0 {
		t.Errorf("%s", text)
	}
	for _, want := range []view.DualRunPlace{{Domain: "d", Keys: "unit", Cause: string(dualrun.Limit), Count: 1}, {Domain: "d", Keys: "window", Cause: string(dualrun.Window), Count: 1}, {Domain: "d", Keys: "counts", Cause: string(dualrun.Counts), Count: 1}} {
		if !strings.Contains(fmt.Sprint(r.Places), fmt.Sprint(want)) {
			t.Errorf("%+v is not among %+v", want, r.Places)
		}
	}
	if r.Verdict != dualrun.Look || r.OldDenied != 1000+1 || r.OwnDenied != 1000+3 {
		t.Errorf("%s: %d and %d were denied", r.Verdict, r.OldDenied, r.OwnDenied)
	}
	_, metrics := get(t, "http://"+at["ops"]+"/metrics")
	for _, want := range []string{`headgate_dual_run_differences_total{cause="limit"} 1`, `headgate_dual_run_different_total 2`, fmt.Sprint(`headgate_dual_run_compared_total `, calls)} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in the metrics", want)
		}
	}
	stop()
	waits.True(t, "the verdict is in the log", func() bool { return strings.Contains(log.String(), `msg="the dual run has ended" verdict=look`) })
	if strings.Contains(log.String()+text, "secret") {
		t.Errorf("a value is in %s\n%s", text, log.String())
	}
}

// Without a dual run there is no report of one, and what cannot be asked is refused at the start.
func TestNoDualRun(t *testing.T) {
	at := startAuth(t, settings(), quiet())
	if status, text := get(t, "http://"+at["ops"]+"/dual-run"); status != http.StatusNotFound || !strings.Contains(text, "--dual-run") {
		t.Errorf("%d %s", status, text)
	}
	s := settings()
	s.DualRun.DualRun = config.NewStoreURL("grpc://old:8081?word=hunter2")
	if err := Run(context.Background(), s, Options{Logger: quiet()}); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "--dual-run: ") {
		t.Errorf("%v", err)
	}
}
