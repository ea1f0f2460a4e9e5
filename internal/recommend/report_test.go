package recommend_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/recommend"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

func aReport() *recommend.Report {
	return &recommend.Report{HeadRoom: 200, MayHit: 1000, Rows: []recommend.Row{
		{
			Rule: "api.user", Limit: "100 per 1m sliding_window", Quota: 100, Recommended: 120, Requests: 5000, Keys: 250, KeysKnown: 250, OneIn: 1,
			Needs: recommend.Needs{P50: 3, P90: 20, P95: 40, P99: 99, Max: 400}, Needed: 99,
			Now:  &recommend.Effect{Keys: 250, KeysHit: 3, OneIn: 1, Requests: 5000, Denied: 300},
			Then: &recommend.Effect{Keys: 250, KeysHit: 1, OneIn: 1, Requests: 5000, Denied: 1},
		},
		{
			Rule: "api.many", Limit: "10 per 1s token_bucket burst 20", Quota: 10, Burst: 20, Recommended: 5, RecommendedBurst: 10, Requests: 9000, Keys: 80_000, KeysKnown: 10_000, OneIn: 8,
			Now:  &recommend.Effect{Keys: 10_000, OneIn: 8, Requests: 4000, KeysMargin: 300},
			Then: &recommend.Effect{Keys: 5000, KeysHit: 300, OneIn: 16, Requests: 2000, Denied: 1999, KeysMargin: 6716},
		},
		{Rule: "api.log", Limit: "10 per 1d sliding_log", Quota: 10, Why: "a quota of 60000 is too large", Scheduled: true, Requests: 1, Keys: 1, OneIn: 1},
		{Rule: "api.idle", Limit: "10 per 1d fixed_window", Quota: 10, Why: "nothing was asked of it", OneIn: 1},
	}}
}

// TestSampleThatAskedForNothing: keys that were only charged fill the sample, and another one has
// asked.
func TestSampleThatAskedForNothing(t *testing.T) {
	uses := []recommend.Use{
		{Key: 2, At: noon, Hits: 1, Op: store.Charge}, {Key: 4, At: noon, Hits: 1, Op: store.Charge},
		{Key: 6, At: noon, Hits: 1, Op: store.Charge}, {Key: 1, At: noon, Hits: 1},
	}
	seen := demandOf(limit.Must(limit.PerMinute(5)), uses, recommend.Bounds{KeysOfLimit: 2, Keys: 100})
	row := recommend.Row{Requests: seen.Requests, Keys: seen.Keys(), KeysKnown: seen.Sampled(), OneIn: seen.Sample.OneIn()}
	notes := row.Notes(0)
	if want := []string{"one key in 4 was looked at, and none of these asked for anything"}; row.Requests != 1 || !slices.Equal(notes, want) {
		t.Errorf("%d requests: %q, want %q", row.Requests, notes, want)
	}
}

func TestReportText(t *testing.T) {
	var b bytes.Buffer
	if err := aReport().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const want = `
    keys  p50  p90  p95  p99  max  now  keys hit  denied  recommended  keys hit   denied  rule
     250    3   20   40   99  400  100    1.20 %  6.00 %          120   0.400 %  0.020 %  api.user, 100 per 1m sliding_window
  ~80000    0    0    0    0    0   10       0 %     0 %            5    6.00 %  99.95 %  api.many, 10 per 1s token_bucket burst 20
       1    0    0    0    0    0   10         -       -            -         -        -  api.log, 10 per 1d sliding_log

note: api.many, 10 per 1s token_bucket burst 20: one key in 8 was looked at, so that the number of keys is known to 2.00 %, and the largest need may be larger

note: api.many, 10 per 1s token_bucket burst 20: the shares are those of one key in 16; that of keys hit is known to 0.672 %

note: api.many, 10 per 1s token_bucket burst 20: more keys are hit than may be, because its algorithm denies what a sliding window of that quota lets pass

note: api.many, 10 per 1s token_bucket burst 20: the burst is 10 then, in place of 20

note: api.log, 10 per 1d sliding_log: nothing is recommended: a quota of 60000 is too large

note: api.log, 10 per 1d sliding_log: its schedule is not applied: needs are those of all times, and the quota is one without a factor

note: nothing was asked of 1 of 4 limits
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("it is%s\nand not%s", got, want)
	}
}

func TestReportJSON(t *testing.T) {
	text, err := json.Marshal(aReport())
	if err != nil {
		t.Fatal(err)
	}
	var back recommend.Report
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if back.Rows[0].Then.Denied != 1 || back.Rows[1].RecommendedBurst != 10 || back.Rows[2].Then != nil || back.MayHit != 1000 {
		t.Errorf("%+v", back)
	}
}

// failing fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("full")

// Write implements io.Writer.
func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestReportTellsOfFailures(t *testing.T) {
	for _, left := range []int{0, 1000} {
		if err := aReport().WriteText(&failing{left}); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		row  recommend.Row
		want bool
	}{
		{recommend.Row{Quota: 5}, false}, {recommend.Row{Quota: 5, Recommended: 5}, false}, {recommend.Row{Quota: 5, Recommended: 6}, true},
		{recommend.Row{Quota: 5, Burst: 2, Recommended: 5, RecommendedBurst: 2}, false},
	} {
		if got := c.row.Changes(); got != c.want {
			t.Errorf("%+v changes: %v", c.row, got)
		}
	}
	if recommend.BurstOf(limit.Must(limit.Spec{Algorithm: limit.GCRA, Quota: 3, Burst: 7, Period: time.Minute})) != 7 || recommend.BurstOf(limit.Must(limit.PerDay(4))) != 0 {
		t.Error("bursts are not those of the limits")
	}
}
