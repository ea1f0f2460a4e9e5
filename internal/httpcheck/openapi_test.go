package httpcheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/openapi/openapitest"
	"github.com/headgate/headgate/internal/rls"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

const hintUpdate = "hint: go test ./internal/httpcheck -run TestOpenAPI -update"

// TestOpenAPI: the committed document is the one that is served.
func TestOpenAPI(t *testing.T) {
	w := httptest.NewRecorder()
	documented(t).ServeHTTP(w, httptest.NewRequest(http.MethodGet, documentPath, nil))
	if *update {
		if err := os.WriteFile("openapi.json", w.Body.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != mediaJSON || !bytes.Equal(w.Body.Bytes(), committed) {
		t.Errorf("%d, %d bytes, not those of openapi.json; %s", w.Code, w.Body.Len(), hintUpdate)
	}
	if refs := openapitest.Load("openapi.json").Dangling(); len(refs) > 0 {
		t.Errorf("there is no %q", refs)
	}
	w = httptest.NewRecorder()
	documented(t).ServeHTTP(w, httptest.NewRequest(http.MethodPost, documentPath, nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d", w.Code)
	}
}

// documented returns a handler of all paths, with rules of many kinds.
func documented(t *testing.T) http.Handler {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
- {key: user, rate_limit: {unit: year, requests_per_unit: 3, name: three}, soft_limit: {at: 50%, action: degrade, header: X-Mode, value: low}}
- {key: flight, concurrency: 1}
- {key: many, limits: [{requests_per_unit: 100, unit: second}, {requests_per_unit: 1000, unit: hour}]}
- {key: free, rate_limit: {unlimited: true}}
- {key: queue, rate_limit: {unit: second, requests_per_unit: 5, algorithm: leaky_queue, max_delay: 1s}}
`)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buckets.Close() })
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHandler(Options{
		Checker: limiter,
		JSON:    rls.NewJSONHandler(rls.Options{Checker: limiter}, nil),
		Explain: explain.Handler(limiter),
		Parts:   []openapi.Part{rls.DescribeJSON(), explain.Describe()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestAnswersAreDocumented: bodies that are accepted are of the form that the document has, those
// that are refused are not, and so are all answers.
func TestAnswersAreDocumented(t *testing.T) {
	d, h := openapitest.Load("openapi.json"), documented(t)
	ask := func(path, body string, want int) (answer map[string]any) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", mediaJSON)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
		}
		shape := d.Answer(path, "post", w.Code, w.Header().Get("Content-Type"))
		if shape == nil {
			t.Fatalf("%s: the document has no answer %d of %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		for _, problem := range d.Conforms(answer, shape, "the answer to "+path) {
			t.Errorf("%s\n%s", problem, w.Body)
		}
		var sent any
		if json.Unmarshal([]byte(body), &sent) == nil {
			problems := d.Conforms(sent, d.Body(path, "post"), "body")
			if accepted := want < 400 || want == 429; accepted != (len(problems) == 0) {
				t.Errorf("%s %s is answered by %d, but by the document: %v", path, body, want, problems)
			}
		}
		return answer
	}
	user := func(more string) string {
		return `{"domain":"api","descriptors":[{"descriptor":"user:u"}]` + more + `}`
	}
	for range 3 {
		ask("/v1/check", user(""), 200)
	}
	ask("/v1/check", user(""), 429)
	ask("/v1/check", `{"domain":"api","descriptors":[{"entries":[{"key":"many","value":"u"}],"hits":-2}],"client_ip":"192.0.2.1","user_agent":"a"}`, 200)
	ask("/v1/check", `{"domain":"api","descriptors":[{"descriptor":"flight:u"}],"hold":"h"}`, 200)
	ask("/v1/check", `{"domain":"api","descriptors":[{"descriptor":"flight:u"}],"hold":true}`, 429)
	ask("/v1/renew", `{"domain":"api","descriptors":[{"descriptor":"flight:u"}],"hold":"h","in_flight_ms":5}`, 200)
	ask("/v1/release", `{"domain":"api","descriptors":[{"descriptor":"flight:u"}],"hold":"h"}`, 200)
	ask("/v1/check", `{"domain":"api","descriptors":[{"descriptor":"queue:u"},{"descriptor":"free:u"},{"descriptor":"other:u"}],"id":"1"}`, 200)
	ask("/v1/check", `{"domain":"api","descriptors":[{"descriptor":"queue:u","hits":2},{"descriptor":"free:u"},{"descriptor":"other:u"}],"id":"2"}`, 200)
	ask("/v1/check", `{"key":"k","limit":2,"window_ms":1000,"hits":1,"algorithm":"token_bucket","burst":4,"op":"hit","id":"x"}`, 200)
	ask("/v1/check", `{"key":"k","limit":0,"window_ms":1000}`, 429)
	ask("/v1/check", `{"checks":[`+user("")+`,{"key":"k","limit":2,"window_ms":1000}]}`, 200)
	ask("/ratelimit/check", `{"key":"plain","limit":1,"window_ms":1000}`, 200)
	ask("/ratelimit/check", `{"key":"plain","limit":1,"window_ms":1000}`, 200)
	made := ask("/v1/reserve", `{"domain":"api","descriptors":[{"descriptor":"many:r","hits":5}],"id":"r","ttl_ms":1000}`, 200)
	reservation, _ := json.Marshal(made["reservation"])
	ask("/v1/commit", fmt.Sprintf(`{"reservation":%s,"hits":[3]}`, reservation), 200)
	ask("/v1/commit", fmt.Sprintf(`{"reservation":%s,"hits":3}`, reservation), 200)
	ask("/v1/cancel", fmt.Sprintf(`{"reservation":%s}`, reservation), 200)
	ask("/v1/reserve", `{"domain":"api","descriptors":[{"descriptor":"user:u"}]}`, 429)
	for path, bodies := range map[string][]string{
		"/v1/check":        {`{}`, `[]`, user(`,"nothing":1`), user(`,"id":7`), user(`,"hold":false`), user(`,"key":"k"`), `{"key":"k","limit":-1,"window_ms":1}`, `{"key":"k","limit":1,"window_ms":0}`, `{"key":"k","limit":1}`, `{"key":"k","limit":1,"window_ms":1,"algorithm":"ban"}`, `{"domain":"api","descriptors":[{"descriptor":"user:u","hits":0.5}]}`},
		"/ratelimit/check": {`{}`, `{"key":"k","limit":1,"window_ms":1,"op":"hit"}`, user("")},
		"/v1/reserve":      {user(`,"ttl_ms":5`), user(`,"id":7`)},
		"/v1/commit":       {`{}`, `{"reservation":7}`, `{"reservation":"x","hits":-1}`},
		"/v1/cancel":       {`{}`, fmt.Sprintf(`{"reservation":%s,"hits":1}`, reservation)},
	} {
		for _, body := range bodies {
			if body != "[]" { // no object, so no members to tell of
				ask(path, body, 400)
			}
		}
	}
}

// TestDocumentHasTheMembers: every member that the document has of a body is read, and the tables
// of docs/check-api.md and the document have the same.
func TestDocumentHasTheMembers(t *testing.T) {
	d := openapitest.Load("openapi.json")
	members := func(names ...string) (all []string) {
		for _, name := range names {
			properties, _ := openapitest.Dig(map[string]any(d), "components", "schemas", name, "properties").(map[string]any)
			for member := range properties {
				all = append(all, member)
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	for table, names := range map[string][]string{"a check": {"RuleCheck", "KeyCheck", "RuleInFlight", "KeyInFlight"}, "a descriptor": {"Descriptor"}, "an answer": {"Decision"}} {
		want := membersIn(t, table)
		slices.Sort(want)
		got := slices.DeleteFunc(members(names...), func(name string) bool { return name == "reservation" || name == "expires_at" })
		if !slices.Equal(got, want) {
			t.Errorf("of %s the document has %q, docs/check-api.md %q", table, got, want)
		}
	}
	for _, name := range members("RuleCheck", "KeyCheck", "RuleInFlight", "KeyInFlight") {
		d := decoder{limits: newCallerLimits()}
		if err := d.decode(`{"` + name + `":{}}`); err != nil && strings.Contains(err.What, "unknown member") {
			t.Errorf("%s is not read", name)
		}
	}
}
