package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/testserver"
)

// region is a process that reads a replica, and writes to a primary.
type region struct {
	*runner
	admin, token string
}

// does asks the admin API about an account, and returns the status and the body.
func (r *region) does(t *testing.T, method, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.admin+adminapi.Prefix+"quotas/tenant:acme", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// sets gives acme a quota through the admin API, and reads there at once what it has.
func (r *region) sets(t *testing.T, quota int) {
	t.Helper()
	body := fmt.Sprintf(`{"overrides": [{"descriptor": "default", "requests_per_unit": %d, "unit": "minute"}]}`, quota)
	putUntil(t, http.StatusOK, func() (int, string) {
		status, text := r.does(t, http.MethodPut, body)
		if status == http.StatusCreated {
			status = http.StatusOK
		}
		return status, text
	})
	if status, text := r.does(t, http.MethodGet, ""); status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"requests_per_unit":%d`, quota)) {
		t.Errorf("what was set is not read: %d %s", status, text)
	}
}

var lagSeconds = regexp.MustCompile(`(?m)^headgate_tenant_replica_lag_seconds (\S+)$`)

// lags waits until the lag of the replica that metrics show is above 0.
func (r *region) lags(t *testing.T) {
	t.Helper()
	r.eventually(t, func() string {
		_, text := get(t, "http://"+r.ops+"/metrics")
		found := lagSeconds.FindStringSubmatch(text)
		if found == nil {
			return "no lag in the metrics"
		}
		if lag, err := strconv.ParseFloat(found[1], 64); err != nil || lag <= 0 {
			return "the lag is " + found[1]
		}
		return ""
	})
}

// A process of a region decides by the replica of that region, shows how far it is, and
// goes on without it, and without the primary; what is set through it is read there at once.
func TestRegionReadsItsReplica(t *testing.T) {
	primary := testserver.Postgres(t)
	replica := primary.Replica()
	s := tenantSettings(t)
	s.Tenants, s.TenantsReplica = databaseAt(primary.DSN), databaseAt(replica.DSN)
	s.TenantsFile = filepath.Join(t.TempDir(), "accounts.jsonl")
	s.AdminAddr, s.AdminTokens = "127.0.0.1:0", filepath.Join(t.TempDir(), "tokens.yaml")
	token, lines, err := adminapi.NewToken("ann", adminapi.Write, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.AdminTokens, "tokens:\n"+lines)
	var log syncBuffer
	start := func() *region {
		ended := make(chan error, 1)
		at, stop := startRun(t, func(ctx context.Context, o Options) error {
			err := Run(ctx, s, o)
			ended <- err
			return err
		}, slog.New(slog.NewTextHandler(&log, nil)))
		return &region{&runner{http: at["http"], ops: at["ops"], stop: stop, ended: ended}, at["admin"], token}
	}
	r := start() // it makes the tables, which come to the replica
	r.sets(t, 7)
	r.counts(t, "acme", 7)
	r.shows(t, "/metrics", "headgate_tenant_replica_up 1", "headgate_tenant_replica_lag_seconds 0\n", "headgate_tenant_replica_receiving 1",
		"headgate_tenant_primary_opened 1", "headgate_tenant_replica_primary 0")
	r.shows(t, "/readyz", `"ready": true`, `"degraded": false`, `"lag_s": 0`, `"primary_opened": true`)

	replica.PauseReplay()
	r.sets(t, 8)
	r.lags(t)
	r.shows(t, "/metrics", "headgate_tenant_replica_paused 1", "headgate_tenant_version 1")
	r.counts(t, "acme", 7)
	replica.ResumeReplay()
	r.counts(t, "acme", 8)

	replica.Kill()
	r.shows(t, "/metrics", "headgate_tenant_replica_up 0")
	r.shows(t, "/readyz", `"ready": true`, `"degraded": true`)
	r.sets(t, 9) // by the primary
	r.counts(t, "acme", 8)
	r.lags(t) // what was read grows older
	replica.Restart()
	r.counts(t, "acme", 9)

	primary.Kill()
	if status, text := r.does(t, http.MethodPut, `{"tier": "pro"}`); status < http.StatusInternalServerError {
		t.Errorf("a change without the primary: %d %s", status, text)
	}
	r.shows(t, "/metrics", "headgate_tenant_replica_up 1", "headgate_tenant_replica_receiving 0")
	r.lags(t)
	r.counts(t, "acme", 9)
	r.end(t)

	// With the primary away a process starts by the replica; with both away, by what was kept.
	r = start()
	r.counts(t, "acme", 9)
	r.shows(t, "/readyz", `"ready": true`, `"degraded": false`, `"primary_opened": false`)
	r.end(t)
	replica.Kill()
	r = start()
	r.counts(t, "acme", 9)
	r.shows(t, "/readyz", `"ready": true`, `"degraded": true`, `"from_file": true`)
	r.shows(t, "/metrics", "headgate_tenant_snapshot_from_file 1", "headgate_tenant_replica_up 0", "headgate_tenant_replica_lag_seconds -1")

	// Both come back, and what was changed meanwhile.
	primary.Restart()
	replica.Restart()
	putAccount(t, primary.DSN, "acme", 10)
	r.counts(t, "acme", 10)
	r.sets(t, 11)
	r.counts(t, "acme", 11)
	r.end(t)
	if text := log.String(); strings.Contains(text, "not-a-real-secret") {
		t.Errorf("a password is in the log:\n%s", text)
	}
	if text := log.String(); !strings.Contains(text, "nothing can be changed through this process") {
		t.Errorf("the log does not say that the primary is away:\n%s", text)
	}
}
