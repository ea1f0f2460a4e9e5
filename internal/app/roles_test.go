package app

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/config"
)

// TestRolesApart: one process that administers, one that serves the dashboard and asks
// the first, and one that decides. None serves what is another's.
func TestRolesApart(t *testing.T) {
	s, token := adminSettings(t)
	s.Roles = "admin"
	admin := startAuth(t, s, quiet())
	if admin["http"] != "" || admin["grpc"] != "" || admin["admin"] == "" || admin["ops"] == "" {
		t.Fatalf("the process that administers serves %v", admin)
	}
	base := "http://" + admin["admin"]
	putUntil(t, http.StatusCreated, func() (int, string) { return putTier(t, http.DefaultClient, base, token) })

	ask := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+adminapi.Prefix+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
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
	// It has no store to look into, and says so rather than that nothing was used.
	if code, text := ask("usage/tenant:acme"); code != http.StatusNotFound || !strings.Contains(text, "decides nothing") {
		t.Errorf("usage without a store: %d %s", code, text)
	}
	// Nothing passes by it, and it says so rather than that nothing passes.
	if code, text := ask("regions"); code != http.StatusOK || !strings.Contains(text, `"onlooker":true`) {
		t.Errorf("regions of a process that does not decide: %d %s", code, text)
	}

	d := settings()
	d.Roles, d.DashboardAddr, d.AdminURLs = "dashboard", "127.0.0.1:0", "http://127.0.0.1:1,"+base
	var log syncBuffer
	dashboard := startAuth(t, d, slog.New(slog.NewTextHandler(&log, nil)))
	if dashboard["http"] != "" || dashboard["admin"] != "" || dashboard["dashboard"] == "" {
		t.Fatalf("the process of the dashboard serves %v", dashboard)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	pages := "http://" + dashboard["dashboard"]
	login, err := browser.Post(pages+"/login", "application/json", strings.NewReader(fmt.Sprintf(`{"token":%q}`, token)))
	if err != nil {
		t.Fatal(err)
	}
	login.Body.Close()
	shown, err := browser.Get(pages + "/api/quotas/tenant:acme")
	if err != nil {
		t.Fatal(err)
	}
	account, err := io.ReadAll(shown.Body)
	shown.Body.Close()
	if err != nil || login.StatusCode != http.StatusOK || shown.StatusCode != http.StatusOK || !strings.Contains(string(account), `"tier":"pro"`) {
		t.Errorf("through the dashboard: %s, %s %s, %v", login.Status, shown.Status, account, err)
	}
	if strings.Contains(log.String(), token) || !strings.Contains(log.String(), "addr=127.0.0.1:1") {
		t.Errorf("the log of the dashboard: %s", log.String())
	}

	one := settings()
	one.Roles, one.OpsAddr, one.GRPCAddr = "decide", "", ""
	decider := startAuth(t, one, quiet())
	if len(decider) != 1 || decider["http"] == "" {
		t.Errorf("the process that decides serves %v", decider)
	}
	if status, body := get(t, "http://"+decider["http"]+"/healthcheck"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}

// TestNodesWithoutDecisions: a process that administers is none of the nodes among which
// limits are divided.
func TestNodesWithoutDecisions(t *testing.T) {
	s := settings()
	p, err := newProcess(&s.Settings, config.Does{Admin: true}, new(keys), Options{Logger: quiet(), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer p.leave()
	if p.counts() || p.stack.fleet.Live() != 1 {
		t.Errorf("counts %t, %d nodes", p.counts(), p.stack.fleet.Live())
	}
}

// TestNobodyHears: a process that does not decide, and whose store is its own memory, offers
// nothing of which no process that decides would hear, and says so.
func TestNobodyHears(t *testing.T) {
	const warning = "can change nothing"
	s, token := adminSettings(t)
	s.Roles, s.Tenants = "admin", config.DatabaseURL{}
	var log syncBuffer
	base := "http://" + startAuth(t, s, slog.New(slog.NewTextHandler(&log, nil)))["admin"]
	if !strings.Contains(log.String(), warning) {
		t.Errorf("the log does not say so: %s", log.String())
	}
	for path, want := range map[string]struct {
		method, body string
		status       int
	}{
		"switches/all": {http.MethodPut, `{"state":"off"}`, http.StatusServiceUnavailable},
		"drill":        {http.MethodGet, "", http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), want.method, base+adminapi.Prefix+path, strings.NewReader(want.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want.status || !strings.Contains(string(text), "hint: ") {
			t.Errorf("%s: %s %s, %v", path, answer.Status, text, err)
		}
	}

	// One that decides hears of both.
	all, _ := adminSettings(t)
	all.Tenants = config.DatabaseURL{}
	var other syncBuffer
	startAuth(t, all, slog.New(slog.NewTextHandler(&other, nil)))
	if strings.Contains(other.String(), warning) {
		t.Errorf("a process that decides: %s", other.String())
	}
}
