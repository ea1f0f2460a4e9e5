package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/view"
)

func TestN6DrillReport(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	o := &drill.Order{
		ID: "1", Fault: drill.ShardDown, Store: "orders", Shard: "10.0.0.7:6379", LastsMS: 120_000, AbortAbove: 0.01, Reason: "rehearsal\x1b[31m", Actor: "ann", BeganAt: began,
		Ended: &drill.Ending{Why: drill.Aborted, By: "n1", At: began.Add(time.Minute), Detail: "3 of 100 requests were errors within 10s, more than 1%"},
	}
	w := drill.Sum(o, began.Add(time.Hour), []drill.Report{
		{ID: "1", Node: "n1", State: drill.Done, Why: drill.Aborted, LastedMS: 12_345, Counts: drill.Counts{Decided: 100, Store: 80, Reserve: 10, Open: 7, Failed: 3, Unchecked: 6, Denied: 4},
			Latency: drill.Latency{P50: 500, P99: 2000, Max: 1900, Buckets: []uint64{0, 0, 0, 50, 0, 50}},
			Away:    []drill.Away{{Name: "store orders 10.0.0.7:6379", Times: 2, ForMS: 12_000, AfterMS: 100, BackMS: 900}, {Name: "database", Times: 1, Still: true}}},
		{ID: "1", Node: "n2", State: drill.Apart, Detail: "no store of this node has a server of that address"},
	})
	var out bytes.Buffer
	if err := writeDrill(&out, &w); err != nil {
		t.Fatal(err)
	}
	const want = `drill shard-down  aborted, n1
begun 2026-05-01T12:00:00Z by ann, for 2m0s, aborted above 1% errors, of store orders, of 10.0.0.7:6379: rehearsal�[31m
3 of 100 requests were errors within 10s, more than 1%

NODE  STATE  LASTED  DECIDED  STORE  RESERVE  LOCAL  OPEN  PASSED  FAILED  UNCHECKED  DENIED  P50    P99  MAX
n1    done   12.3s   100      80     10       0      7     0       3       6          4       500µs  2ms  1.9ms
n2    apart  0s      0        0      0        0      0     0       0       0          0       -      -    -
all                  100      80     10       0      7     0       3       6          4       500µs  2ms  1.9ms

AWAY                        ON  AFTER  TIMES  FOR  BACK
store orders 10.0.0.7:6379  n1  100ms  2      12s  900ms after it
database                    n1  0s     1      0s   not yet
n2: no store of this node has a server of that address
`
	got := out.String()
	if strings.ContainsRune(got, '\x1b') {
		t.Error("what others have written reaches the terminal as it is")
	}
	if strings.Map(printableOrLine, got) != strings.Map(printableOrLine, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for name, c := range map[string]struct {
		reports []drill.Report
		ended   *drill.Ending
		state   string
		code    int
	}{
		"apart":       {[]drill.Report{{ID: "1", Node: "n1", State: drill.Apart}}, nil, "nobody took part", exitNo},
		"no node":     {nil, &drill.Ending{Why: drill.Stopped, By: "ann"}, "nobody took part", exitNo},
		"expired":     {[]drill.Report{{ID: "1", Node: "n1", State: drill.Done}, {ID: "1", Node: "n2", State: drill.Apart}}, nil, "expired", 0},
		"by somebody": {[]drill.Report{{ID: "1", Node: "n1", State: drill.Done}}, &drill.Ending{Why: drill.Stopped, By: "ann"}, "stopped, ann", 0},
		"lost":        {[]drill.Report{{ID: "1", Node: "n1", State: drill.Done}}, &drill.Ending{Why: drill.Lost, By: "n1"}, "lost, n1", exitNo},
		"by damage":   {[]drill.Report{{ID: "1", Node: "n1", State: drill.Done}}, &drill.Ending{Why: drill.Aborted, By: "n1"}, "aborted, n1", exitNo},
	} {
		w := drill.Sum(&drill.Order{ID: "1", Fault: drill.StoreDown, LastsMS: 60_000, BeganAt: began, Ended: c.ended}, began.Add(time.Hour), c.reports)
		var coded *codeError
		if err := unfinished(&w); errors.As(err, &coded) != (c.code != 0) || coded != nil && coded.code != c.code {
			t.Errorf("%s: %v", name, err)
		}
		if got := drillState(&w); got != c.state {
			t.Errorf("%s: %s, want %s", name, got, c.state)
		}
	}
	out.Reset()
	w = drill.Sum(&drill.Order{ID: "2", Fault: drill.StoreDown, LastsMS: 60_000, Actor: "ann", BeganAt: began}, began, nil)
	if err := writeDrill(&out, &w); err != nil || !strings.Contains(out.String(), "under way, 1m0s left") || !strings.Contains(out.String(), "no node has reported yet") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// printableOrLine takes the sign for what is not printable out.
func printableOrLine(r rune) rune {
	if r == '\ufffd' || r == '?' {
		return -1
	}
	return r
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"1%": 0.01, "0.25": 0.25, "100%": 1, "0%": 0, "0": 0} {
		if got, err := parseShare(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "%", "101%", "-1%", "1", "2", "NaN", "one"} {
		if _, err := parseShare(text); err == nil || !strings.Contains(err.Error(), "hint") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestN6TopTellsOfADrill(t *testing.T) {
	s := &snapshot{Overview: &view.Overview{Drill: &view.Drill{Fault: "store-down", Of: "all stores", Actor: "ann", Reason: "May", LeftMS: 61_000, Here: true}}}
	if got := plain(s); !strings.Contains(got, "DRILL store-down of all stores  1m") || !strings.Contains(got, "by ann: May") || strings.Contains(got, "not on this node") {
		t.Errorf("%s", got)
	}
	s.Overview.Drill.Here = false
	if got := plain(s); !strings.Contains(got, "not on this node") {
		t.Errorf("%s", got)
	}
}
