package redisstore

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
)

// code returns the script without its comments.
func code() string {
	return regexp.MustCompile(`--[^\n]*`).ReplaceAllString(takeScript.text(), "")
}

// What makes a script run on all relatives of Redis: every key is declared and
// stands in the call as KEYS[n], no library but string, math and table, no
// shebang, no text made from a number but by format.
func TestScriptIsPortable(t *testing.T) {
	if strings.HasPrefix(takeScript.text(), "#!") {
		t.Error("the script has a shebang")
	}
	// An error of a command stops the script, but where it is guessed that a bucket counts in an
	// integer.
	const guess = "redis.pcall('INCRBY', KEYS[s], adds)"
	text := strings.Replace(code(), guess, strings.Replace(guess, "pcall", "call", 1), 1)
	for _, banned := range []string{
		"struct", "cjson", "cmsgpack", "bit", "unpack", "tostring", "loadstring", "setmetatable", "rawset", "_G",
		"pcall", "replicate_commands", "math.random", "os.", "redis.log", "redis.sha1hex", "goto", "//", "%.0f", "EVAL",
	} {
		if strings.Contains(text, banned) {
			t.Errorf("the script uses %s", banned)
		}
	}
	calls := regexp.MustCompile(`redis\.call\(([^\n]*)`).FindAllStringSubmatch(text, -1)
	if len(calls) < 8 {
		t.Fatalf("found only %d calls", len(calls))
	}
	declared := regexp.MustCompile(`^'[A-Z]+', KEYS\[(s|log\.bucket)\][,)]`)
	for _, call := range calls {
		if call[1] != "'TIME')" && !declared.MatchString(call[1]) {
			t.Errorf("redis.call(%s does not name a declared key", call[1])
		}
	}
	if n := strings.Count(text, "KEYS"); n != len(calls)-1 {
		t.Errorf("KEYS stands in %d places, of which %d are calls", n, len(calls)-1)
	}
	if n := strings.Count(text, "redis"); n != len(calls) {
		t.Errorf("redis stands in %d places, of which %d are calls", n, len(calls))
	}
	// Redis itself refuses globals at run time; all branches run in the tests.
	for _, m := range regexp.MustCompile(`(?m)^\s*function\b.*$`).FindAllString(text, -1) {
		t.Errorf("a global function: %s", m)
	}
}

// Every key is written with its time to live in the same command, or has one
// already: a mark in the value says so, a count in its window (INCRBY), or APPEND keeps
// it, and PEXPIRE follows.
func TestScriptNeverLeavesAKeyForGood(t *testing.T) {
	lines := strings.Split(code(), "\n")
	writes := 0
	for i, line := range lines {
		switch {
		case strings.Contains(line, "'INCRBY'"):
			writes++
			if strings.Contains(line, ", adds)") || strings.HasSuffix(line, "format('%d', -each))") {
				continue // what was not there is deleted again: see TestGuessesAreTakenBack
			}
			if strings.TrimSpace(lines[i-1]) != "if not left then" {
				t.Errorf("no time to live: %s", line)
			}
		case strings.Contains(line, "'SET'"):
			writes++
			if strings.HasSuffix(line, ", 'KEEPTTL')") && strings.HasPrefix(strings.TrimSpace(lines[i-1]), "local text = packed or kind == 1") {
				continue
			}
			if !strings.HasSuffix(strings.TrimSpace(line), ", 'PX', ttl)") {
				t.Errorf("no time to live: %s", line)
			}
		case strings.Contains(line, "'APPEND'"):
			writes++
			if !strings.Contains(lines[i+1], "'PEXPIRE'") {
				t.Errorf("no time to live: %s", line)
			}
		}
	}
	if writes < 5 {
		t.Errorf("found only %d writes", writes)
	}
}

// The name of the script changes with its text only.
func TestScriptSHA(t *testing.T) {
	s, _ := openRedis(t)
	if got := command(t, s, "SCRIPT", "LOAD", takeScript.text()); got != takeScript.sha() {
		t.Errorf("Redis calls it %s, we %s", got, takeScript.sha())
	}
}

// A Redis whose scripts cannot write long numbers by %d would count wrongly.
func TestShortNumbers(t *testing.T) {
	server := testserver.Redis(t, testserver.RedisConfig{})
	s := open(t, Options{Addr: rewriting(t, server.Addr, func(answer []byte) []byte {
		return bytes.Replace(answer, []byte("$16\r\n4503599627370496\r\n"), []byte("$11\r\n-2147483648\r\n"), 1)
	})})
	wantReason(t, s, store.Misconfigured, "64 bits")
}
