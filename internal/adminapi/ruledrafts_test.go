package adminapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// testDrafts tries texts beside testRules, which are a rule file.
func testDrafts(t testing.TB) Drafts {
	t.Helper()
	source, err := rulesource.New(rulesource.Options{Fed: true, Apply: func(*rules.Set) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Load(); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Put([]rulefile.File{{Name: "rules.yaml", Data: []byte(testRules)}}); err != nil {
		t.Fatal(err)
	}
	return tenantsource.Drafts{Source: source}
}

// review asks for a review.
func (s *testServer) review(b reviewBody) (v reviewView) {
	s.t.Helper()
	body, err := json.Marshal(b)
	if err != nil {
		s.t.Fatal(err)
	}
	s.want(s.do(Admin, "POST", "rules/review", string(body)), 200).json(s.t, &v)
	return v
}

// testRuleReview: what a text would change is said, with its place where it is wrong, and nothing is
// changed by that.
func testRuleReview(t *testing.T, s *testServer) {
	v := s.review(reviewBody{Document: "orders.yaml", Text: orderRules})
	if len(v.Problems) != 0 || v.Changes.All == 0 || !strings.Contains(v.Diff, "\n+domain: orders\n") || v.Tests != nil || v.Effect == nil {
		t.Errorf("%+v", v)
	}
	s.want(s.do(Read, "GET", "rules/documents/orders.yaml", ""), 404)
	v = s.review(reviewBody{Document: "orders.yaml", Text: strings.Replace(orderRules, "minute", "fortnight", 1)})
	if len(v.Problems) != 1 || v.Problems[0].Line != 4 || v.Problems[0].Column == 0 || v.Problems[0].File != "" || v.Changes != nil || v.Effect != nil {
		t.Errorf("%+v", v)
	}
	v = s.review(reviewBody{Document: "login.yaml", Text: "domain: x\nmatch: path\ndescriptors:\n  - {key: path, value: /login, rate_limit: {unit: minute, requests_per_unit: 5}}\n"})
	if len(v.Problems) != 0 || len(v.Warnings) == 0 || v.Warnings[0].Line != 4 {
		t.Errorf("%+v", v)
	}
	// A domain that the files have is theirs.
	if v = s.review(reviewBody{Document: "api.yaml", Text: "domain: api\ndescriptors: [{key: x, rate_limit: {unit: day, requests_per_unit: 1}}]"}); len(v.Problems) != 1 {
		t.Errorf("%+v", v)
	}
	tests := "rules: [x]\ndomain: orders\ntests:\n  - name: five a minute\n    steps:\n      - {descriptors: ['user:ann'], times: 6, want: {allowed: true}}\n"
	if v = s.review(reviewBody{Document: "orders.yaml", Text: orderRules, Tests: tests}); v.Tests == nil || v.Tests.Run != 1 || v.Tests.Failed != 1 || v.Tests.Failures[0].Line != 6 {
		t.Errorf("%+v", v.Tests)
	}
	if v = s.review(reviewBody{Document: "orders.yaml", Text: orderRules, Tests: strings.Replace(tests, "times: 6", "times: 5", 1)}); v.Tests.Failed != 0 {
		t.Errorf("%+v", v.Tests)
	}
	if v = s.review(reviewBody{Document: "orders.yaml", Text: orderRules, Tests: "tests: ["}); len(v.TestProblems) == 0 || v.Changes == nil {
		t.Errorf("%+v", v)
	}
	testFileReview(t, s)
}

// testFileReview: rule files are shown and reviewed, and there is no way to write them.
func testFileReview(t *testing.T, s *testServer) {
	var files filesPage
	s.want(s.do(Read, "GET", "rules/files", ""), 200).json(t, &files)
	if len(files.Files) != 1 || files.Files[0] != (fileView{"rules.yaml", len(testRules)}) {
		t.Errorf("%+v", files)
	}
	if r := s.want(s.do(Read, "GET", "rules/files/rules.yaml", ""), 200); string(r.body) != testRules {
		t.Errorf("%s", r.body)
	}
	s.want(s.do(Read, "GET", "rules/files/%2Fetc%2Fpasswd", ""), 404)
	s.want(s.do(Admin, "PUT", "rules/files/rules.yaml", testRules), 405)
	v := s.review(reviewBody{File: "rules.yaml", Text: strings.Replace(testRules, "requests_per_unit: 30", "requests_per_unit: 3", 1)})
	if len(v.Problems) != 0 || v.Changes.All != 1 || v.Changes.List[0].Kind != "changed" || v.Changes.List[0].Subject != "api.tenant.endpoint_GET /v1/search" {
		t.Errorf("%+v %+v", v, v.Changes)
	}
	if v := s.review(reviewBody{File: "rules.yaml", Text: testRules}); v.Changes.All != 0 || v.Diff != "" {
		t.Errorf("%+v", v)
	}
	for _, bad := range []struct{ body, field string }{
		{`{"file":"other.yaml","text":"domain: x"}`, "file"}, {`{"text":"domain: x"}`, "document"}, {`{"file":"a","document":"b","text":"domain: x"}`, "document"},
		{`{"document":"../x","text":"domain: x"}`, "document"}, {`{"document":"x","text":" "}`, "text"}, {`{"document":"x","text":"a\u0000"}`, "text"},
		{`{"document":"x","text":"` + strings.Repeat("#", sqltenant.MaxDocument+1) + `"}`, "text"},
		{`{"document":"x","text":"domain: x","tests":"` + strings.Repeat("#", sqltenant.MaxDocument+1) + `"}`, "tests"},
	} {
		s.wantField(s.do(Admin, "POST", "rules/review", bad.body), 422, bad.field)
	}
	// Aliases that would grow without end are an error like others.
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("%c: &%[1]c [%s]\n", 'b'+i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", 'a'+i), 9), ", "))
	}
	if v := s.review(reviewBody{Document: "bomb.yaml", Text: bomb + "domain: bomb\n"}); len(v.Problems) == 0 {
		t.Errorf("%+v", v)
	}
}

// TestReviewEffect: requests of the last hour are decided anew by both sets of rules, what was before
// is not looked at, and a process that remembers nothing says so.
func TestReviewEffect(t *testing.T) {
	db, err := sqltenant.Open(t.Context(), sqliteDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	log := &eventLog{}
	s := newTestServerOn(t, db, func(o *Options) { o.Watch.Events = log })
	end := s.clock()
	for i := range 14 {
		e := anEvent(i)
		e.TS = end.Add(-rulereview.Lookback/2).UnixMilli() + int64(i)
		if i < 4 {
			e.TS = end.Add(-2 * rulereview.Lookback).UnixMilli()
		}
		e.Key, e.Outcome, e.Allowed = "tenant:acme,endpoint:GET /v1/search", "allowed", true
		e.Descriptors = []view.EventDescriptor{{Entries: e.Key, Hits: 1}}
		log.add(e)
	}
	v := s.review(reviewBody{File: "rules.yaml", Text: strings.Replace(testRules, "requests_per_unit: 30", "requests_per_unit: 3", 1)})
	e := v.Effect
	if e == nil || e.Unknown != "" || e.Requests != 10 || e.DeniedBefore != 0 || e.NewlyDenied != 7 || e.NewlyAllowed != 0 || e.Cut {
		t.Fatalf("%+v", e)
	}
	if len(e.Rules) != 1 || e.Rules[0].NewlyDenied != 7 || !strings.HasPrefix(e.Rules[0].Rule, "api.tenant.endpoint") || e.From.IsZero() {
		t.Errorf("%+v", e)
	}
	s.handler.options.Watch.Events = nil
	if v := s.review(reviewBody{File: "rules.yaml", Text: testRules}); v.Effect != nil {
		t.Errorf("%+v", v.Effect)
	}
}

// testRuleVersions: what a document was made is there with its reason, also after it was taken out, and
// can be put again only in the version that was seen.
func testRuleVersions(t *testing.T, s *testServer) {
	const path = "rules/documents/orders.yaml"
	first := s.want(s.do(Admin, "PUT", path+"?reason=a+first+one", orderRules), 201)
	s.want(s.do(Admin, "PUT", "rules/documents/other.yaml", strings.Replace(orderRules, "orders", "other", 1)), 201)
	s.want(s.do(Admin, "PUT", path, orderRules+"# more\n", "If-Match", first.header.Get("ETag")), 200)
	s.want(s.do(Admin, "PUT", path+"?reason=late", orderRules+"# late\n", "If-Match", first.header.Get("ETag")), 412)
	s.want(s.do(Admin, "DELETE", path, ""), 204)
	var p versionsPage
	s.want(s.do(Read, "GET", path+"/versions", ""), 200).json(t, &p)
	if len(p.Versions) != 3 || p.Versions[0].Bytes != 0 || p.Versions[1].Bytes != len(orderRules)+len("# more\n") || p.Versions[2].Reason != "a first one" || p.Versions[2].Actor != "test-admin" || p.NextBefore != 0 {
		t.Errorf("%+v", p)
	}
	oldest := fmt.Sprint(p.Versions[2].Version)
	if r := s.want(s.do(Read, "GET", path+"/versions/"+oldest, ""), 200); string(r.body) != orderRules {
		t.Errorf("%s", r.body)
	}
	s.want(s.do(Read, "GET", path+"/versions/"+fmt.Sprint(p.Versions[0].Version), ""), 404)
	s.want(s.do(Read, "GET", "rules/documents/other.yaml/versions/"+oldest, ""), 404)
	s.wantField(s.do(Read, "GET", path+"/versions/0", ""), 422, "version")
	s.want(s.do(Read, "GET", path+"/versions?limit=2", ""), 200).json(t, &p)
	next := p.NextBefore
	if len(p.Versions) != 2 || next == 0 {
		t.Errorf("%+v", p)
	}
	p = versionsPage{}
	s.want(s.do(Read, "GET", fmt.Sprint(path, "/versions?limit=2&before=", next), ""), 200).json(t, &p)
	if len(p.Versions) != 1 || fmt.Sprint(p.Versions[0].Version) != oldest || p.NextBefore != 0 {
		t.Errorf("%+v", p)
	}
	s.wantField(s.do(Admin, "PUT", path+"?reason=a%0Ab", orderRules), 422, reasonField)
	s.wantField(s.do(Admin, "PUT", path+"?reason="+strings.Repeat("x", sqltenant.MaxReason+1), orderRules), 422, reasonField)
	if _, err := s.db.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
