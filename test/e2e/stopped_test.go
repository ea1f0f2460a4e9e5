package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// A node that is stopped for a while finds requests when it goes on whose callers have
// given up long ago. It charges nothing for them.
//
//promise:stopped-node-charges-nothing
func TestAStoppedNodeChargesNothingForWhoIsGone(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig{})
	rules := writeRules(t, "domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: day, requests_per_unit: 1000}}\n")
	n := startNode(t, "--rules", rules, "--store", redis.URL(), "--store-budget", "1s")
	const body = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}],"hits":%d}]}`
	// The first request also says that all is well.
	if a, err := n.check(fmt.Sprintf(body, 1)); err != nil || a.Remaining != 999 {
		t.Fatalf("%+v %v", a, err)
	}
	if err := n.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stat := fmt.Sprintf("/proc/%d/stat", n.process.PID())
	if _, err := os.Stat(stat); err != nil {
		t.Skip("nobody tells here when the process has stopped: ", err)
	}
	if err := n.process.Poll(func() error {
		text, err := os.ReadFile(stat)
		if err == nil && !strings.Contains(string(text), ") T ") {
			err = fmt.Errorf("still running: %s", text)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const abandoned = 40
	ctx, giveUp := context.WithTimeout(t.Context(), 3*time.Second)
	defer giveUp()
	var asking sync.WaitGroup
	for range abandoned {
		asking.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://headgate/v1/check", strings.NewReader(fmt.Sprintf(body, 1)))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := n.client.Do(r); err == nil {
				resp.Body.Close()
				t.Error("a stopped node answers")
			}
		})
	}
	asking.Wait()
	if err := n.process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := n.process.Poll(func() error {
		a, err := n.check(fmt.Sprintf(body, 0))
		if left = a.Remaining; err == nil && a.Degraded != "" {
			err = fmt.Errorf("degraded: %s", a.Degraded)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// That a caller has gone is heard by another goroutine, which a busy machine may keep
	// from running.
	if 999-left > abandoned/10 {
		t.Errorf("%d of %d requests were charged whose callers had gone", 999-left, abandoned)
	}
}
