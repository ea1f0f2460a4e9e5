package memcachestore

import (
	"bufio"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limit"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"memcached://h", "memcached://h:11211"},
		{"memcached://h:1", "memcached://h:1"},
		{"MEMCACHED://h:1/", "memcached://h:1"},
		{"memcached://a,b:2,[::1]:3,[::2]", "memcached://a:11211,b:2,[::1]:3,[::2]:11211"},
		{"memcached://user:p%40ss@h:1?prefix=x:", "memcached://h:1"},
		{"memcached:///run/m.sock", "memcached:///run/m.sock"},
	} {
		o, err := ParseURL(tt.url)
		if err != nil || o.String() != tt.want {
			t.Errorf("%s: %v, %v, want %s", tt.url, o, err, tt.want)
		}
	}
	o, err := ParseURL("memcached://user:p%40ss@h:1?prefix=x:")
	if err != nil || o.Username != "user" || o.Password != "p@ss" || o.Prefix != "x:" {
		t.Errorf("%q %q %q %v", o.Username, o.Password, o.Prefix, err)
	}
	for _, bad := range []string{
		"", "memcached://", "memcached:///", "redis://h", "memcached://h:0", "memcached://h:99999", "memcached://h:x",
		"memcached://a,,b", "memcached://a,a", "memcached://h/0", "memcached://h?db=1", "memcached://h?prefix=a&prefix=b",
		"memcached://u:hunter2%@h", "memcached://u:hunter2@", "memcached://a b:1", "memcached://h?%zz",
	} {
		o, err := ParseURL(bad)
		if err == nil {
			t.Errorf("%q was taken: %v", bad, o)
		} else if !strings.Contains(err.Error(), "hint: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestOptions(t *testing.T) {
	good := []string{"h:1"}
	for name, o := range map[string]Options{
		"no server":         {},
		"path not absolute": {Servers: []string{"m.sock"}},
		"long prefix":       {Servers: good, Prefix: strings.Repeat("x", MaxPrefix+1)},
		"prefix of words":   {Servers: good, Prefix: "a b"},
		"password of lines": {Servers: good, Password: "a\r\nflush_all"},
		"negative budget":   {Servers: good, Budget: -1},
		"many connections":  {Servers: good, MaxConns: MaxConns + 1},
		"negative calls":    {Servers: good, MaxInFlight: -1},
		"many servers":      {Servers: make([]string, MaxServers+1)},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range []string{"", "\x00", "a", "a b", "a\r\n", strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20) + "y"} {
		name, _ := nameOf(strings.Repeat("p", MaxPrefix), []byte(key))
		if len(name) > 250 || !isWord(name) || seen[name] {
			t.Errorf("key %.10q: name %q", key, name)
		}
		seen[name] = true
	}
}

func TestExpiry(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	const day = 24 * time.Hour
	for _, tt := range []struct {
		lifetime time.Duration
		want     int64
	}{
		{time.Microsecond, 3},
		{time.Second, 3},
		{time.Second + time.Microsecond, 4},
		{30*day - 2*time.Second, 30 * 24 * 3600},
		// A longer time would be taken for an instant, so that it is one.
		{30*day - 2*time.Second + 1, now.Unix() + 30*24*3600 + 1 + 3600},
		{400 * day, now.Unix() + 400*24*3600 + 2 + 3600},
		{math.MaxInt64 - 2*time.Second, math.MaxInt32},
	} {
		if got := expiry(tt.lifetime, now); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.lifetime, got, tt.want)
		}
	}
}

func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := limit.State{Kind: rapid.SampledFrom([]uint8{kindFixedWindow, kindSlidingWindow}).Draw(rt, "kind")}
		s.A, s.B = rapid.Int64().Draw(rt, "a"), rapid.Int64().Draw(rt, "b")
		s.Per = limit.Must(limit.Spec{
			Quota: 1, Period: rapid.SampledFrom([]time.Duration{time.Second, 1500 * time.Millisecond, time.Hour, 4097 * time.Microsecond}).Draw(rt, "period"),
		}).Per()
		if s.Kind == kindSlidingWindow {
			s.C = rapid.Int64().Draw(rt, "c")
		}
		text := string(appendState(nil, s))
		if got := parseState(text); !sameState(got, s) || len(text) > maxValue {
			rt.Fatalf("%+v became %q and %+v", s, text, got)
		}
	})
}

// The tallies of as many limits as there may be, with the longest numbers, are a value
// that is read again.
func TestTalliesFitAValue(t *testing.T) {
	s := limit.State{Kind: limit.KindTallies}
	for range 8 * 10 {
		s.Wide = append(s.Wide, math.MinInt64)
	}
	text := string(appendState(nil, s))
	if got := parseState(text); !sameState(got, s) || len(text) > maxValue {
		t.Errorf("%d bytes became %+v", len(text), got)
	}
}

func TestReadItem(t *testing.T) {
	for answer, want := range map[string]string{
		"END\r\n":                                 "",
		"VALUE k 0 7 5\r\n2 10 20\r\nEND\r\n":     "",
		"VALUE k 0 0 5\r\n\r\nEND\r\n":            "",
		"VALUE other 0 7 5\r\n2 10 20\r\nEND\r\n": "not one of memcached",
		"VALUE k 0 7\r\n2 10 20\r\nEND\r\n":       "not one of memcached",
		"VALUE k 0 -7 5\r\n2 10 20\r\nEND\r\n":    "not one of memcached",
		"VALUE k 0 7 x\r\n2 10 20\r\nEND\r\n":     "not one of memcached",
		"VALUE k 0 7 0\r\n2 10 20\r\nEND\r\n":     "no compare-and-swap",
		"VALUE k 0 9999 5\r\n":                    "too long",
		"VALUE k 0 6 5\r\n2 10 20\r\nEND\r\n":     "without its end",
		"VALUE k 0 7 5\r\n2 10 20\r\nENDE\r\n":    "after a value",
		"VALUE k 0 7 5\r\n2 1":                    "EOF",
		"SERVER_ERROR out of memory\r\n":          "SERVER_ERROR out of memory",
		"CLIENT_ERROR bad\r\n":                    "CLIENT_ERROR bad",
		"ERROR\r\n":                               "ERROR",
		"END\n":                                   "not one of memcached",
		strings.Repeat("x", 2*lineBytes):          "no end of line",
		"":                                        "EOF",
	} {
		_, err := readItem(bufio.NewReaderSize(strings.NewReader(answer), lineBytes), "k")
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: %v, want %q", answer, err, want)
		}
	}
}

// FuzzAnswers: whatever a server says, the parser ends without a panic, and an
// item that it finds is one that may be swapped.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"END\r\n", "VALUE k 0 7 5\r\n2 10 20\r\nEND\r\n", "VALUE k 0 14 9\r\n1 10 20 -30 40\r\nEND\r\nSTORED\r\n",
		"SERVER_ERROR x\r\n", "STORED\r\n", "EXISTS\r\nNOT_FOUND\r\n", "VALUE k 0 1024 5\r\n", "VALUE k 0 8 5\r\n12 10 20\r\nEND\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		it, err := readItem(bufio.NewReaderSize(strings.NewReader(answer), lineBytes), "k")
		isTallies := it.state.Kind == limit.KindTallies
		if err == nil && it.found && (it.cas == 0 || it.state.Kind > kindFixedWindow && !isTallies || (it.state.Wide != nil) != isTallies) {
			t.Errorf("%q: %+v", answer, it)
		}
		if err != nil && it.state.Kind != 0 {
			t.Errorf("%q: %+v and %v", answer, it, err)
		}
		got, err := readOutcome(bufio.NewReaderSize(strings.NewReader(answer), lineBytes))
		if (err == nil) != (got == stored || got == conflict) {
			t.Errorf("%q: %v, %v", answer, got, err)
		}
	})
}
