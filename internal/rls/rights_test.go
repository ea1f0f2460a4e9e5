package rls

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/rulefile"
)

const rightsRules = `
domain: d
match: leaf
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 100, name: tokens, algorithm: fixed_window}}
- {key: slot, concurrency: {limit: 1, timeout: 1h, hold: id}}
`

// TestRights: callers without rights are refused, over gRPC by PERMISSION_DENIED and over
// /json by 403, and charged nothing.
func TestRights(t *testing.T) {
	const reserved = " headgate_id=r headgate_estimate=40"
	for _, c := range []struct {
		ask, left string // left of user=u afterwards
		refused   bool
	}{
		{"d: user=u", "59", false},
		{"d: user=u *0", "60", false},
		{"d: user=u @1000/second", "60", true},
		{"headgate.caller: user=u @1000/second", "60", true},
		{"d: user=u | user=u @1000/second", "60", true},
		{"d: user=u @1000/second headgate_op=charge", "60", true},
		{"d: user=u -5", "60", true},
		{"d: user=u -0", "60", false},
		{"d: user=u | user=u -5", "60", true},
		{"d: slot=s id=a -1", "60", false},
		{"d: slot=s id=a -1 | user=u -5", "60", true},
		{"d: user=u headgate_op=charge *9", "51", false},
		{"d: user=u headgate_op=reserve headgate_id=q headgate_estimate=9", "51", false},
		{"d: user=u *7 headgate_op=commit" + reserved, "93", false},
		{"d: user=u headgate_op=cancel" + reserved, "100", false},
		// What is settled could not be taken back.
		{"d: user=u *7 headgate_op=commit" + reserved + " | user=u -5", "60", true},
		{"d: user=u *7 headgate_op=commit" + reserved + " | user=u @1000/second", "60", true},
		{"d: user=u *7 headgate_op=commit" + reserved + " | slot=s id=a -1", "93", false},
	} {
		for _, trusted := range []bool{false, true} {
			now := noon
			door := limiter(t, rightsRules, rulefile.Options{}, false, &now).Door(headgate.DoorOptions{Rights: headgate.Rights{Check: true, Reserve: true, NameLimits: trusted, GiveBack: trusted}})
			s := newService(Options{Checker: door})
			over := NewJSONHandler(Options{Checker: door}, nil)
			if _, err := ask(t, s, parseRequest(t, "d: user=u headgate_op=reserve"+reserved)); err != nil {
				t.Fatal(err)
			}
			body, err := protojson.Marshal(parseRequest(t, c.ask))
			if err != nil {
				t.Fatal(err)
			}
			refused := c.refused && !trusted
			if refused { // first over /json, so that one charge of either would be seen
				w := httptest.NewRecorder()
				over.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(string(body))))
				if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "--caller-limits") {
					t.Errorf("%s: /json: %d, %s", c.ask, w.Code, w.Body)
				}
			}
			_, err = ask(t, s, parseRequest(t, c.ask))
			if got := status.Code(err) == codes.PermissionDenied; got != refused || !refused && err != nil {
				t.Errorf("trusted %v: %s: %v", trusted, c.ask, err)
			}
			if trusted && c.refused {
				continue
			}
			resp, err := ask(t, s, parseRequest(t, "d: user=u *0"))
			if err != nil {
				t.Fatal(err)
			}
			if got := answerText(resp); !strings.Contains(got, " left="+c.left+" ") {
				t.Errorf("trusted %v: %s: %s, want left=%s", trusted, c.ask, got, c.left)
			}
		}
	}
}
