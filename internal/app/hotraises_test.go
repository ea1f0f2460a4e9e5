package app

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/hotraise"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/testserver"
)

// manyChecks is a call with so many checks of one key.
func manyChecks(n int, key, value string) string {
	one := fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":%q,"value":%q}],"hits":1}]}`, key, value)
	return `{"checks":[` + strings.Repeat(one+",", n-1) + one + "]}"
}

// A key that becomes hot on one node is raised by its rule, on the other node too, once;
// metrics, the log and one event of one node tell of it. Another key stays as it is.
func TestD6HotKeyIsRaisedByItsRule(t *testing.T) {
	redis := testserver.Redis(t, testserver.RedisConfig{})
	s := settings()
	s.Store = config.NewStoreURL(redis.URL())
	s.StoreBudget, s.DenialMemory, s.DenialTime = 10*time.Second, 1000, time.Second
	dir := t.TempDir()
	s.Rules = filepath.Join(dir, "rules.yaml")
	writeFile(t, s.Rules, `domain: d
descriptors:
- {key: user, raise_hot_keys: {by: 50, for: 1h}, rate_limit: {unit: year, requests_per_unit: 100, algorithm: fixed_window, time_zone: UTC}}
`)
	s.AuditKeys, s.AuditSample = "plain", 0
	var logs [2]syncBuffer
	var events [2]string
	var nodes [2]*runner
	for i := range nodes {
		one := s
		one.NodeName = fmt.Sprint("n", i)
		events[i] = filepath.Join(dir, one.NodeName)
		one.AuditFiles = config.NewStoreURL("file://" + events[i] + "?compress=none")
		nodes[i] = runWith(t, one, Options{Build: telemetry.Build{Version: "test"}, Logger: slog.New(slog.NewTextHandler(&logs[i], nil))})
	}
	nodes[0].eventually(t, func() string {
		nodes[0].ask(t, manyChecks(1000, "user", "ann")) // hot at one instant, however slow the machine is
		if _, body := get(t, "http://"+nodes[0].ops+"/metrics"); !strings.Contains(body, "headgate_hot_raises_total 1\n") {
			return "no key is raised"
		}
		return ""
	})
	for _, n := range nodes {
		n.answers(t, 0, "d", "user", "ann", `"limit":150,`)
		n.answers(t, 0, "d", "user", "bob", `"limit":100,`)
		n.shows(t, "/metrics", "headgate_hot_raises 1\n")
	}
	key := descriptor.AppendKey(nil, descriptor.KindRule, "d", []descriptor.Entry{{Key: "user", Value: "ann"}}, 0)
	name := hotraise.KeyOf(key)
	if line := "rule=d.user key_hash=" + hex.EncodeToString(name[:]) + " by_percent=50 until="; strings.Count(logs[0].String(), line) != 1 {
		t.Errorf("the log of the node that raises has no %s:\n%s", line, &logs[0])
	}
	for i, n := range nodes {
		n.end(t)
		if text := eventsIn(t, events[i]); strings.Count(text, `"outcome":"raised"`) != 1-i {
			t.Errorf("events of node %d:\n%s", i, text)
		} else if i == 0 && !strings.Contains(text, `"key":"user:ann","key_hashed":false,"rule":"d.user"`) || i == 0 && !strings.Contains(text, `"raise":50,"until":`) ||
			i == 0 && !strings.Contains(text, `"actor":"raise_hot_keys","reason":"the key is hot"`) {
			t.Errorf("the event lacks something:\n%s", text)
		}
	}
}

// eventsIn returns the events about raises of a directory of files.
func eventsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl*"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, `"outcome":"raise`) {
				kept = append(kept, line)
			}
		}
	}
	return strings.Join(kept, "")
}
