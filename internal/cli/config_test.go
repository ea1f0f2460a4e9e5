package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/envoyenv"
	"github.com/headgate/headgate/internal/manual"
)

// out runs a command and returns what it prints; it must end with a code.
func out(t *testing.T, want int, args ...string) string {
	t.Helper()
	stdout, stderr := outs(t, want, args...)
	return stdout + stderr
}

// outs is out with what went to standard output and what to standard error.
func outs(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var one, other bytes.Buffer
	if code := Run(args, nil, &one, &other); code != want {
		t.Fatalf("%q ends with %d, want %d: %s", args, code, want, other.String())
	}
	return one.String(), other.String()
}

// TestSamplesAreTrue holds that the samples in the tree are those of the settings that there
// are, and that each default in them would do.
func TestSamplesAreTrue(t *testing.T) {
	for command, name := range map[string]string{"serve": "headgate.sample.yaml", "proxy": "headgate-proxy.sample.yaml"} {
		t.Run(command, func(t *testing.T) {
			path := filepath.Join("..", "..", "deploy", name)
			got := out(t, exitOK, "config", "sample", command)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(kept) != got {
				t.Errorf("%s is not what `headgate config sample %s` prints; hint: go test ./internal/cli -run TestSamplesAreTrue -update", path, command)
			}
			if *update {
				return
			}
			given, n := withDefaults(t, command, got)
			file := filepath.Join(t.TempDir(), "settings.yaml")
			if err := os.WriteFile(file, []byte(given), 0o600); err != nil {
				t.Fatal(err)
			}
			line := []string{"config", "check", command, "--config", file}
			if command == "proxy" {
				line = append(line, "--to", "http://127.0.0.1:9000", "--rules", "rules.yaml")
			}
			said := out(t, exitOK, line...)
			if command == "proxy" {
				n += 2
			}
			if want := fmt.Sprintf("ok: %d of ", n); !strings.HasPrefix(said, want) || n < 30 {
				t.Errorf("%s, want %s", said, want)
			}
		})
	}
}

// withDefaults is a sample in which each setting that has a default is given, and how many.
func withDefaults(t *testing.T, command, sample string) (given string, n int) {
	t.Helper()
	parser, err := newParser(&stdio{}, envoyenv.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Children {
		if node.Name != command {
			continue
		}
		for _, f := range manual.Settings(node) {
			if f.Default != "" {
				sample = strings.Replace(sample, "\n#"+f.Name+": ", "\n"+f.Name+": ", 1)
				n++
			}
		}
	}
	return sample, n
}

// TestConfigPrintIsAFile holds that what is printed says the same when it is read again, and
// that it shows no secret, whether it came by flag, environment or file.
func TestConfigPrintIsAFile(t *testing.T) {
	t.Setenv("HEADGATE_TENANTS", "postgres://u:geheim1@h/db?password=geheim2")
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("audit-kafka: kafka://u:geheim3@h:9092/events\nlog-level: warn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A variable that is no setting, as the tests have one, is told apart from the file.
	t.Setenv("HEADGATE_OTHER", "geheim5")
	first, told := outs(t, exitOK, "config", "print", "--config", file, "--store", "redis://u:geheim4@h:6379/0", "--http-addr", ":1")
	if strings.Contains(first+told, "geheim") {
		t.Errorf("a secret is shown:\n%s", first)
	}
	for _, line := range []string{"log-level: warn # file", "http-addr: :1 # command line", "grpc-addr: :8081"} {
		if !strings.Contains(first, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, first)
		}
	}
	if !regexp.MustCompile(`(?m)^tenants: .* # HEADGATE_TENANTS$`).MatchString(first) {
		t.Errorf("where tenants come from is not told:\n%s", first)
	}
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	origins := regexp.MustCompile(` # .*`)
	second, _ := outs(t, exitOK, "config", "print", "--config", file)
	if a, b := origins.ReplaceAllString(first, ""), origins.ReplaceAllString(second, ""); a != b {
		t.Errorf("read again it is\n%s\nand was\n%s", b, a)
	}
}

// TestConfigCheck holds that the answer is the one that the command would give.
func TestConfigCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("http-addr: :8080\nlog-levle: info\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitOK, "ok: 0 of "},
		{[]string{"serve", "--http-addr", ":1", "--shadow"}, exitOK, "ok: 2 of "},
		{[]string{"proxy", "--to", "http://127.0.0.1:9000", "--rules", "rules.yaml"}, exitOK, "of headgate proxy are given"},
		{[]string{"ratelimit"}, exitOK, "of headgate ratelimit are given"},
		{[]string{"--config", file}, exitNo, `log-levle`},
		{[]string{"--store", "redis://u:geheim@h:6379/x", "--nodes", "-3"}, exitNo, "--nodes"},
		{[]string{"proxy"}, exitNo, "--to"},
		{[]string{"version"}, exitUsage, `"version" has no file of settings`},
	} {
		said := out(t, c.code, append([]string{"config", "check"}, c.args...)...)
		if !strings.Contains(said, c.want) || strings.Contains(said, "geheim") {
			t.Errorf("%q: %s, want %q", c.args, said, c.want)
		}
	}
}
