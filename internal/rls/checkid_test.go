package rls

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/rulefile"
)

// F2: a call that is repeated by its id gets the first answer. The entry is in no key and
// is not matched.
func TestF2IDs(t *testing.T) {
	for _, sc := range []serviceScript{
		{name: "an entry", rules: reserveRules, steps: []step{
			{0, "d: user=u headgate_check_id=1 *30", "OK: OK tokens 100/hour left=70 reset=3570"},
			{0, "d: user=u *50", "OK: OK tokens 100/hour left=20 reset=3570"},
			{10 * time.Second, "d: user=u headgate_check_id=1 *30", "OK: OK tokens 100/hour left=70 reset=3560"},
			{10 * time.Second, "d: headgate_check_id=1 user=u *30", "OK: OK tokens 100/hour left=70 reset=3560"},
			{10 * time.Second, "d: user=v headgate_check_id=1 *30", "OK: OK tokens 100/hour left=70 reset=3560"},
			{20 * time.Second, "d: user=u headgate_check_id=2 *30", "OVER: OVER tokens 100/hour left=0 reset=3550"},
			{21 * time.Second, "d: user=u headgate_check_id=2 *30", "OVER: OVER tokens 100/hour left=0 reset=3549"},
			{time.Minute, "d: user=u headgate_check_id=1 *30", "OVER: OVER tokens 100/hour left=0 reset=3510"},
		}},
		{name: "beside others", rules: reserveRules, steps: []step{
			{0, "d: user=u headgate_check_id=1 | calls=c headgate_check_id=1", "OK: OK tokens 100/hour left=99 reset=3570 | OK calls 3/hour left=2 reset=3570"},
			{0, "d: user=u headgate_check_id=1 | calls=c", "OK: OK tokens 100/hour left=99 reset=3570 | OK calls 3/hour left=2 reset=3570"},
			{0, "d: user=u | calls=c", "OK: OK tokens 100/hour left=98 reset=3570 | OK calls 3/hour left=1 reset=3570"},
			{0, "d: user=u headgate_check_id= | calls=c", "OK: OK tokens 100/hour left=97 reset=3570 | OK calls 3/hour left=0 reset=3570"},
		}},
		{name: "refunds and overrides", rules: reserveRules, steps: []step{
			{0, "d: user=u *50", "OK: OK tokens 100/hour left=50 reset=3570"},
			{0, "d: user=u headgate_check_id=1 -20", "OK: OK tokens 100/hour left=70 reset=3570"},
			{0, "d: user=u headgate_check_id=1 -20", "OK: OK tokens 100/hour left=70 reset=3570"},
			{0, "d: user=u *0", "OK: OK tokens 100/hour left=70 reset=3570"},
			{0, "d: user=w headgate_check_id=1 @5/hour", "OK: OK  5/hour left=4 reset=7170"},
			{0, "d: user=w headgate_check_id=1 @5/hour", "OK: OK  5/hour left=4 reset=7170"},
		}},
	} {
		t.Run(sc.name, func(t *testing.T) { runScript(t, sc) })
	}
}

// The header of a call says the same, over gRPC and at /json.
func TestF2IDInHeader(t *testing.T) {
	now := noon
	o := Options{Checker: limiter(t, reserveRules, rulefile.Options{}, false, &now)}
	s := newService(o)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(checkIDHeader, "1"))
	for range 3 {
		resp, err := askIn(ctx, t, s, parseRequest(t, "d: user=u"))
		if err != nil || !strings.Contains(answerText(resp), " left=99 ") {
			t.Errorf("%v, %v", answerText(resp), err)
		}
	}
	resp, err := askIn(ctx, t, s, parseRequest(t, "d: user=u headgate_check_id=1"))
	if err != nil || !strings.Contains(answerText(resp), " left=99 ") {
		t.Errorf("an entry that says the same: %v, %v", answerText(resp), err)
	}
	h := NewJSONHandler(o, nil)
	post := func(body string, ids ...string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body))
		for _, id := range ids {
			r.Header.Add("Headgate-Check-Id", id)
		}
		h.ServeHTTP(w, r)
		return w
	}
	const user, left = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`, `"limitRemaining":99`
	if w := post(user, "1"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), left) {
		t.Errorf("/json: %d %s", w.Code, w.Body)
	}
	const entry = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"},{"key":"headgate_check_id","value":"1"}]}]}`
	if w := post(entry); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), left) {
		t.Errorf("/json: %d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		body string
		ids  []string
		want int
	}{
		{strings.Replace(user, `"descriptors"`, `"hitsAddend":5,"descriptors"`, 1), []string{"1"}, http.StatusConflict},
		{entry, []string{"2"}, http.StatusBadRequest}, {user, []string{"1", "2"}, http.StatusBadRequest},
		{user, []string{strings.Repeat("x", 257)}, http.StatusBadRequest}, {user, []string{strings.Repeat("x", 256)}, http.StatusOK},
	} {
		if w := post(c.body, c.ids...); w.Code != c.want {
			t.Errorf("%s with %.20q: %d %s", c.body, c.ids, w.Code, w.Body)
		}
	}
}

func TestF2BadIDs(t *testing.T) {
	now := noon
	s := newService(Options{Checker: limiter(t, reserveRules, rulefile.Options{}, false, &now), Now: func() time.Time { return now }})
	if _, err := ask(t, s, parseRequest(t, "d: user=u headgate_check_id=1")); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]codes.Code{
		"d: user=u headgate_check_id=1 *2":                                                             codes.AlreadyExists,
		"d: user=u headgate_check_id=1 -1":                                                             codes.AlreadyExists,
		"d: user=u headgate_check_id=1 | calls=c headgate_check_id=2":                                  codes.InvalidArgument,
		"d: headgate_check_id=1":                                                                       codes.InvalidArgument,
		"d: user=u | headgate_check_id=1":                                                              codes.InvalidArgument,
		"d: user=u headgate_check_id=" + strings.Repeat("x", 257):                                      codes.InvalidArgument,
		"d: user=u headgate_check_id=1 headgate_op=reserve headgate_id=a headgate_estimate=1":          codes.InvalidArgument,
		"d: user=u headgate_op=commit headgate_id=a headgate_estimate=1 | calls=c headgate_check_id=1": codes.InvalidArgument,
	} {
		if _, err := ask(t, s, parseRequest(t, request)); status.Code(err) != want {
			t.Errorf("%.80s: %v, want %v", request, err, want)
		}
	}
	if resp, err := ask(t, s, parseRequest(t, "d: user=u *0 | calls=c *0")); err != nil || answerText(resp) != "OK: OK tokens 100/hour left=99 reset=3570 | OK calls 3/hour left=3 reset=3570" {
		t.Errorf("after that: %s, %v", answerText(resp), err)
	}
	plain := newService(Options{Checker: script(func(context.Context, *headgate.Request, *headgate.Response) error { return nil })})
	if _, err := ask(t, plain, parseRequest(t, "d: user=u headgate_check_id=1")); status.Code(err) != codes.Unimplemented {
		t.Errorf("without a Repeater: %v", err)
	}
}
