package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// runDoctor runs `headgate store doctor` and returns its exit code and output.
func runDoctor(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	// A busy machine answers late; that is not what is tested.
	args = append([]string{"store", "doctor", "--timeout=5s", "--budget=5s"}, args...)
	code = Run(args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

func TestStoreDoctor(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{Password: "hunter2"})
	memcached := testserver.Memcached(t, testserver.MemcachedConfig{})
	free := fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	for name, tt := range map[string]struct {
		url  string
		code int
		want []string
	}{
		"redis": {"redis://:hunter2@" + server.Addr + "/2", exitOK, []string{
			"redis://" + server.Addr + "/2\n", "\n" + server.Addr + "\n  ok       connect      connected\n",
			"  ok       scripts ", "\nproblems: 0, warnings: 0\n",
		}},
		"no password": {"redis://" + server.Addr, exitNo, []string{"  problem  auth ", "hint: give a password", "\nproblems: 1"}},
		"nobody":      {"redis://" + free, exitNo, []string{"  problem  connect ", "hint: is Redis running there?"}},
		"memcached":   {memcached.URL(), exitOK, []string{"  ok       swap ", "  warning  clock "}},
		"memory":      {"memory://", exitOK, []string{"  ok       memory "}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, err := runDoctor("--store", tt.url)
			if code != tt.code || err != "" || strings.Contains(out, "hunter2") {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.code, out, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			code, out, _ = runDoctor("--json", "--store", tt.url)
			var answer struct {
				Store  string
				OK     *bool
				Checks []struct{ Name, Status, Found string }
			}
			if err := json.Unmarshal([]byte(out), &answer); err != nil || code != tt.code || answer.OK == nil || *answer.OK != (code == exitOK) {
				t.Errorf("exit code %d, %v\n%s", code, err, out)
			}
			for _, c := range answer.Checks {
				if c.Name == "" || c.Status == "" || c.Found == "" {
					t.Errorf("an empty field: %+v", c)
				}
			}
		})
	}
}

func TestStoreDoctorUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--store", "mysql://h"}, {"--store", "redis://"}, {"--store", "memcached://h/1"}, {"--store", "redis+sentinel://h"}, {},
	} {
		code, out, err := runDoctor(args...)
		if code != exitUsage || out != "" || !strings.Contains(err, "headgate: hint: ") {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, err)
		}
	}
}
