package pages

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// TestFiguresWereMeasured: the tables of the page on capacity have no figure that does not stand
// in the report of the benchmarks.
func TestFiguresWereMeasured(t *testing.T) {
	page, report := read(t, "docs/capacity.md"), read(t, "bench/README.md")
	figure := regexp.MustCompile(`\b\d+(\.\d+)?\b`)
	measured := figure.FindAllString(report, -1)
	rows := regexp.MustCompile(`(?m)^\| .*\|$`).FindAllString(page, -1)
	found := 0
	for _, row := range rows {
		for _, f := range figure.FindAllString(regexp.MustCompile("`[^`]*`").ReplaceAllString(row, ""), -1) {
			if found++; !slices.Contains(measured, f) {
				t.Errorf("docs/capacity.md: %s is in no figure of bench/README.md: %s", f, row)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d figures were found", found)
	}
}

// TestCloudsCostWhatCapacitySays: the page on clouds reckons with the figures of the page on capacity.
func TestCloudsCostWhatCapacitySays(t *testing.T) {
	page := strings.ReplaceAll(read(t, "docs/cloud.md"), "\n", " ")
	row := regexp.MustCompile(`(?m)^\| gRPC, one descriptor \| Redis \| ([0-9.]+) \| ([0-9.]+) \|$`).FindStringSubmatch(read(t, "docs/capacity.md"))
	if row == nil {
		t.Fatal("docs/capacity.md has no row of one descriptor over gRPC that is counted in Redis")
	}
	front, redis := row[1], row[2]
	headgateUS, redisUS := number(t, front), number(t, redis)
	const pod, managed = 0.04, 0.20 // prices of an hour, in the example
	for _, want := range []string{
		fmt.Sprintf("took %s us of Headgate and %s us of Redis there", front, redis),
		fmt.Sprintf("a million of them take %s s and %s s of a processor", front, redis),
		fmt.Sprintf("cost %s x 0.04 / 3600 + %s x 0.20 / 3600 = %.4f.", front, redis, (headgateUS*pod+redisUS*managed)/3600),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("docs/cloud.md does not say: %s", want)
		}
	}
	const busy = 0.5
	processors := func(rate int, us float64) (text string, whole int) {
		n := float64(rate) * us / 1e6 / busy
		return strconv.FormatFloat(n, 'f', map[bool]int{true: 2, false: 1}[n < 1], 64), int(math.Ceil(n))
	}
	for _, rate := range []int{1_000, 20_000, 60_000, 200_000} {
		headgate, pods := processors(rate, headgateUS)
		counts, servers := processors(rate, redisUS)
		order := `[^|0-9]*`
		if servers > 1 {
			order = strconv.Itoa(servers) + " shards"
		}
		want := fmt.Sprintf(`\| %s \| %s \| %d \| %s \| %s \|`, thousands(rate), regexp.QuoteMeta(headgate), max(pods, 2), regexp.QuoteMeta(counts), order)
		if !regexp.MustCompile(want).MatchString(page) {
			t.Errorf("docs/cloud.md has no row of sizes like %s", want)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// thousands writes n, which is 1,000 or more, as pages do.
func thousands(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }

// TestMetricsExist: pages name no metric that docs/metrics.md does not list.
func TestMetricsExist(t *testing.T) {
	listed := read(t, "docs/metrics.md")
	entries := []string{"headgate_op", "headgate_id", "headgate_check_id", "headgate_estimate", "headgate_ttl"} // of descriptors
	for _, name := range names(t) {
		for _, metric := range regexp.MustCompile("`(headgate_[a-z0-9_]*[a-z])[`{]").FindAllStringSubmatch(read(t, name), -1) {
			if !strings.Contains(listed, "`"+metric[1]+"`") && !slices.Contains(entries, metric[1]) {
				t.Errorf("%s names %s, which is not in docs/metrics.md", name, metric[1])
			}
		}
	}
}

// TestLogLinesExist: the lines of the log that the page on operations explains are texts of
// the program, or the beginnings of some.
func TestLogLinesExist(t *testing.T) {
	_, part, ok := strings.Cut(read(t, "docs/operations.md"), "### What the log says of it\n")
	part, _, ended := strings.Cut(part, "\n## ")
	if !ok || !ended {
		t.Fatal("docs/operations.md has no part on what the log says")
	}
	source := programText(t)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)`.* \\| (?:error|warn|info) \\|.*?(?:\\| `([^`]+)` )?\\|$").FindAllStringSubmatch(part, -1)
	if len(rows) < 8 {
		t.Errorf("%d lines are explained, want 8 at least", len(rows))
	}
	for _, row := range rows {
		for _, line := range row[1:] {
			if !strings.Contains(source, `"`+line) {
				t.Errorf("docs/operations.md explains %q, which the program does not write", line)
			}
		}
	}
}

// programText returns the source of the packages that write to the log, without tests.
func programText(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "internal/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestFlagsExist: pages name no flag that no command has.
func TestFlagsExist(t *testing.T) {
	program, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "completion", "bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	others := []string{"--delete", "--enable-feature"} // of aws and Prometheus
	known := regexp.MustCompile(`--[a-z0-9-]+`).FindAllString(string(out), -1)
	known = append(known, others...)
	for _, name := range names(t) {
		for _, flag := range regexp.MustCompile("`(--[a-z0-9-]+)").FindAllStringSubmatch(read(t, name), -1) {
			if !slices.Contains(known, flag[1]) && !slices.Contains(known, strings.Replace(flag[1], "--no-", "--", 1)) {
				t.Errorf("%s names the flag %s, which no command has", name, flag[1])
			}
		}
	}
}
