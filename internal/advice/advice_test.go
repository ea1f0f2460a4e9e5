package advice_test

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/advice"
	"github.com/headgate/headgate/internal/recommend"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
)

const (
	shopRules = `
domain: shop
match: path
descriptors:
  - {key: free, rate_limit: {unlimited: true}}
  - key: cart
    limits: [{unit: minute, requests_per_unit: 3}, {unit: hour, requests_per_unit: 3}, {unit: day, requests_per_unit: 0}]
  - {key: idle, rate_limit: {unit: minute, requests_per_unit: 3}, schedule: [{cron: "0 22 * * *", for: 8h, factor: 3}]}
  - {key: log, rate_limit: {unit: day, requests_per_unit: 3, algorithm: sliding_log}}
`
	head = "time,descriptor,hits\n"
	rows = head + "2026-11-22T12:00:00Z,cart:1,1\n2026-11-22T12:00:01Z,cart:1,1\n2026-11-22T12:00:01Z,free:1,1\n2026-11-22T12:02:00Z,cart:1,1\n"
)

// options are those of the rules and of readings that have these texts, one after the other.
func options(t *testing.T, texts ...string) advice.Options {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "rules.yaml", Data: []byte(shopRules)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	access := &replay.Access{Domain: "shop"}
	input := replay.Input{
		Name: "rows.csv", Again: true,
		Open: func() (io.ReadCloser, error) {
			text := texts[0]
			if len(texts) > 1 {
				texts = texts[1:]
			}
			return io.NopCloser(strings.NewReader(text)), nil
		},
		Decoder: func() (replay.Decoder, error) { return access.Decoder(replay.CSV) },
	}
	return advice.Options{Source: replay.Options{Candidate: set, Inputs: []replay.Input{input}}, Wish: recommend.DefaultWish}
}

func run(t *testing.T, o advice.Options) *advice.Result {
	t.Helper()
	r, err := advice.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRun: each limit has what was asked of it, and a rule gets candidates for all its limits where
// one of them should be another.
func TestRun(t *testing.T) {
	r := run(t, options(t, rows))
	type told struct {
		rule                    string
		requests, needed, quota int64
		why                     string
	}
	var got []told
	for i := range r.Rows {
		row := &r.Rows[i]
		got = append(got, told{row.Rule, row.Requests, row.Needed, row.Recommended, row.Why})
	}
	want := []told{
		{"shop.cart", 3, 2, 3, ""}, {"shop.cart", 3, 3, 4, ""}, {"shop.cart", 3, 0, 0, recommend.ErrDeniesAll.Error()},
		{"shop.idle", 0, 0, 0, recommend.ErrNothing.Error()}, {"shop.log", 0, 0, 0, recommend.ErrNothing.Error()},
	}
	if !slices.Equal(got, want) {
		t.Errorf("told is %+v, not %+v", got, want)
	}
	if !r.Rows[3].Scheduled || r.Rows[4].Scheduled {
		t.Error("of five limits the fourth has a schedule")
	}
	if row := &r.Rows[2]; row.Now == nil || row.Now.Denied != 3 || row.Then != nil {
		t.Errorf("a limit of 0: now %+v, then %+v", row.Now, row.Then)
	}
	list := r.Wanted()
	if len(list) != 1 || list[0].Rule != "shop.cart" {
		t.Fatalf("wanted are %+v", list)
	}
	var quotas []int64
	for _, l := range list[0].Limits {
		quotas = append(quotas, l.Quota)
	}
	if !slices.Equal(quotas, []int64{3, 4, 0}) {
		t.Errorf("candidates have quotas %d", quotas)
	}
}

// TestRunOfSomeRules leaves out the others, and refuses what is none.
func TestRunOfSomeRules(t *testing.T) {
	o := options(t, rows)
	o.Rules = []string{"shop.idle", "shop.free"}
	if r := run(t, o); len(r.Rows) != 1 || r.Rows[0].Rule != "shop.idle" || r.Matched != 4 || len(r.Wanted()) != 0 {
		t.Errorf("%+v", r.Rows)
	}
	o.Rules = append(o.Rules, "shop.nothing")
	if _, err := advice.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `"shop.nothing"`) {
		t.Errorf("%v", err)
	}
}

// TestRunOnWhatGrows: what an input has got between the two readings is left out.
func TestRunOnWhatGrows(t *testing.T) {
	r := run(t, options(t, rows, rows+strings.Repeat("2026-11-22T12:02:01Z,cart:1,1\n", 5)))
	if row := &r.Rows[0]; row.Requests != 3 || row.Now.Requests != 3 || row.Now.Denied != 0 || row.Then.Requests != 3 {
		t.Errorf("%+v, now %+v, then %+v", row, row.Now, row.Then)
	}
}

// TestRunOnNothing proves nothing.
func TestRunOnNothing(t *testing.T) {
	if r := run(t, options(t, head+"2026-11-22T12:00:00Z,nobody:1,1\n")); r.Requests != 1 || r.Matched != 0 || r.Rows[0].Now != nil {
		t.Errorf("%+v", r.Asked)
	}
}

// TestRunSaysWhatCannotBe: a quota that the algorithm does not take is none.
func TestRunSaysWhatCannotBe(t *testing.T) {
	r := run(t, options(t, head+"2026-11-22T12:00:00Z,log:1,20000\n"))
	if row := &r.Rows[4]; row.Needed != 20_000 || row.Recommended != 0 || !strings.HasPrefix(row.Why, "a quota of 24000: ") || strings.Contains(row.Why, "hint") || row.Now.Denied != 1 {
		t.Errorf("%+v", row)
	}
	if l := limit.MaxLogQuota; l >= 24_000 {
		t.Errorf("a log takes %d", l)
	}
}

func TestResultJSON(t *testing.T) {
	text, err := json.Marshal(run(t, options(t, rows)))
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Requests int64 `json:"requests"`
		Limits   []struct {
			Rule        string `json:"rule"`
			Recommended int64  `json:"recommended"`
		} `json:"limits"`
	}
	if err := json.Unmarshal(text, &back); err != nil || back.Requests != 4 || len(back.Limits) != 5 || back.Limits[1].Recommended != 4 {
		t.Errorf("%v in %s", err, text)
	}
}
