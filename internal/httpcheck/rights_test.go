package httpcheck_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRights: what takes a right is 403 with a hint without it, wherever it stands, and
// charges nothing.
func TestRights(t *testing.T) {
	const late = `{"domain":"api","descriptors":[{"descriptor":"late:l"`
	for _, c := range []struct {
		path, body string
		refused    bool
	}{
		{"/v1/check", late + `}]}`, false},
		{"/v1/check", late + `,"op":"hit"}]}`, false},
		{"/v1/check", late + `,"op":"charge"}]}`, false},
		{"/v1/check", late + `,"op":"refund"}]}`, true},
		{"/v1/check", late + `,"op":"reset"}]}`, true},
		{"/v1/check", late + `,"hits":-1}]}`, true},
		{"/v1/check", `{"checks":[` + late + `}]},` + late + `,"hits":-1}]}]}`, true},
		{"/v1/check", `{"key":"k","limit":1,"window_ms":1000}`, true},
		{"/v1/check", `{"checks":[` + late + `}]},{"key":"k","limit":1,"window_ms":1000,"op":"refund"}]}`, true},
		{"/v1/renew", `{"key":"k","limit":1,"window_ms":1000,"hold":"x"}`, true},
		{"/v1/release", `{"key":"k","limit":1,"window_ms":1000,"hold":"x"}`, true},
		// Whoever knows the hold may renew and release it, and give it back.
		{"/v1/check", `{"domain":"api","hold":"x","descriptors":[{"descriptor":"user:u","op":"release"}]}`, false},
		{"/v1/check", `{"domain":"api","hold":"x","descriptors":[{"descriptor":"user:u","op":"renew"}]}`, false},
		{"/v1/check", `{"domain":"api","hold":"x","descriptors":[{"descriptor":"user:u","op":"refund"}]}`, false},
		{"/v1/check", `{"domain":"api","hold":"x","descriptors":[{"descriptor":"job:j","op":"refund"}]}`, true},
	} {
		for _, trusted := range []bool{true, false} {
			now := time.Now()
			h := guards(t, &now, trusted)
			r := post(t, h, c.path, c.body)
			if refused := r.status == http.StatusForbidden; refused != (c.refused && !trusted) {
				t.Errorf("trusted %v: %s: status %d, %s", trusted, c.body, r.status, r.Detail)
			} else if refused && (!strings.Contains(r.Detail, "not served here") || !strings.Contains(r.Hint, "--caller-limits")) {
				t.Errorf("%s: %q, hint %q", c.body, r.Detail, r.Hint)
			}
			if trusted || !c.refused {
				continue
			}
			if left := ask(t, h, late+`,"hits":0}]}`); is(left.Remaining) != 2 {
				t.Errorf("%s: %d left, want 2", c.body, is(left.Remaining))
			}
		}
	}
}

// TestMatched: an answer says whether any rule or limit applied, so that what passes
// because a domain or a key is misspelt is not taken for what was checked.
func TestMatched(t *testing.T) {
	now := time.Now()
	h := guards(t, &now, true)
	matched := func(path, body string) []bool {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		type one struct{ Matched *bool }
		var got struct {
			one
			Results []one
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Results == nil {
			got.Results = []one{got.one}
		}
		var all []bool
		for _, r := range got.Results {
			if r.Matched == nil {
				t.Fatalf("%s %s: nothing said in %s", path, body, w.Body)
			}
			all = append(all, *r.Matched)
		}
		return all
	}
	check := func(domain, text string) string {
		return `{"domain":"` + domain + `","descriptors":[{"descriptor":"` + text + `"}]}`
	}
	for _, c := range []struct {
		path, body string
		want       []bool
	}{
		{"/v1/check", check("api", "late:l"), []bool{true}},
		{"/v1/check", check("api", "bad:b"), []bool{true}}, // denied
		{"/v1/check", check("api", "lat:l"), []bool{false}},
		{"/v1/check", check("ap", "late:l"), []bool{false}},
		{"/v1/check", `{"key":"k","limit":1,"window_ms":1000}`, []bool{true}},
		{"/v1/reserve", check("api", "late:m"), []bool{true}},
		{"/v1/reserve", check("api", "lat:l"), []bool{false}},
		{"/v1/check", `{"checks":[` + check("api", "late:n") + "," + check("ap", "late:n") + "," + check("api", "lat:n") + `]}`, []bool{true, false, false}},
	} {
		if got := matched(c.path, c.body); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v", c.path, c.body, got, c.want)
		}
	}
}
