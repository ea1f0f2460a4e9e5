package adminapi

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/tenantsource"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const advisedRules = `domain: shop
match: path
descriptors:
  - key: cart # as they come
    rate_limit: {unit: minute, requests_per_unit: 3}
  - key: tried
    rate_limit: {unit: minute, requests_per_unit: 3}
    candidate:
      rate_limit: {unit: minute, requests_per_unit: 4}
`

// inForce is a Limiter of rules alone.
type inForce struct{ set *rules.Set }

func (f *inForce) Rules() *rules.Set { return f.set }

// newAdvisingServer has advisedRules as a file, orderRules as a document, and remembers events in the log.
func newAdvisingServer(t *testing.T) (*testServer, *eventLog) {
	t.Helper()
	db, err := sqltenant.Open(t.Context(), sqliteDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	force := &inForce{}
	source, err := rulesource.New(rulesource.Options{Fed: true, Apply: func(set *rules.Set) { force.set = set }})
	if err != nil {
		t.Fatal(err)
	}
	if err := source.Load(); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Put([]rulefile.File{{Name: "rules.yaml", Data: []byte(advisedRules)}}); err != nil {
		t.Fatal(err)
	}
	source.SetDocuments([]rulefile.File{{Name: "database:orders.yaml", Data: []byte(orderRules)}}, nil)
	log := &eventLog{}
	s := newTestServerOn(t, db, func(o *Options) {
		o.Watch.Events, o.Watch.OtherEvents, o.Limiter, o.Drafts, o.Tenants = log, nil, force, tenantsource.Drafts{Source: source}, nil
	})
	s.want(s.do(Admin, "PUT", "rules/documents/orders.yaml", orderRules), 201)
	return s, log
}

// recalledOf returns events of keys, of which the first asks once, the second twice and so on, in the half hour before now.
func recalledOf(s *testServer, domain, key string, keys int) (list []view.Event) {
	at := s.clock().Add(-rulereview.Lookback / 2).UnixMilli()
	for i := range keys {
		for range i + 1 {
			e := anEvent(len(list))
			e.TS, e.Domain, e.Rule, e.Outcome, e.Allowed = at, domain, domain+"."+key, "allowed", true
			e.EventID = fmt.Sprintf("%s.%s-%d", domain, key, len(list))
			e.Key = fmt.Sprintf("%s:%d", key, i)
			e.Descriptors = []view.EventDescriptor{{Entries: e.Key, Hits: 1}}
			list = append(list, e)
		}
	}
	return list
}

// advise asks for a recommendation.
func (s *testServer) advise(body string) (v adviceView) {
	s.t.Helper()
	s.want(s.do(Admin, "POST", "rules/recommend", body), 200).json(s.t, &v)
	return v
}

// What is recommended is what the command says of the same events, down to the text with the candidate, and nothing is changed by it.
func TestRecommendAsTheCommand(t *testing.T) {
	s, log := newAdvisingServer(t)
	dir := t.TempDir()
	var lines strings.Builder
	encoder := json.NewEncoder(&lines)
	for _, e := range recalledOf(s, "shop", "cart", 8) {
		log.add(e)
		if err := encoder.Encode(&e); err != nil {
			t.Fatal(err)
		}
	}
	old := anEvent(0) // of two hours ago: nobody remembers it for this
	old.TS, old.Domain, old.Allowed = s.clock().Add(-2*rulereview.Lookback).UnixMilli(), "shop", true
	old.Descriptors = []view.EventDescriptor{{Entries: "cart:0", Hits: 90}}
	log.events = slices.Insert(log.events, 0, old)
	v := s.advise(`{"rule":"shop.cart","head_room_thousandths":500,"may_hit_thousandths_of_percent":13000}`)

	paths := map[string]string{"rules.yaml": advisedRules, "events.jsonl": lines.String()}
	for name, text := range paths {
		paths[name] = filepath.Join(dir, name)
		if err := os.WriteFile(paths[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	tried := filepath.Join(dir, "tried.yaml")
	command := exec.Command(binary, "recommend", "--rules", paths["rules.yaml"], "--events", paths["events.jsonl"], "--rule", "shop.cart", "--head-room", "50%", "--may-hit", "13%", "--json", "--out", tried)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, command.Args)
	}
	var said adviceView
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(tried)
	if err != nil {
		t.Fatal(err)
	}
	// 8 keys, of which one may be hit: 7, and a half more.
	if v.Unknown != "" || v.Requests != 36 || len(v.Rows) != 1 || v.Rows[0].Recommended != 11 || v.Rows[0].Needs.P50 != 4 || v.Rows[0].Now.KeysHit != 5 || v.Rows[0].Then.KeysHit != 0 {
		t.Errorf("%+v", v)
	}
	if !reflect.DeepEqual(v.Report, said.Report) || v.Requests != said.Requests || !v.From.Equal(said.From) || !v.Until.Equal(said.Until) {
		t.Errorf("%+v\nand the command says %+v", v, said)
	}
	if v.Draft == nil || v.Draft.Text != string(text) || v.Draft.File != "rules.yaml" || v.Draft.Document != "" || len(v.Nodes) != 1 || v.Nodes[0].Events != 36 {
		t.Errorf("%+v of %+v, and the command has written:\n%s", v.Draft, v.Nodes, text)
	}
	var files filesPage
	s.want(s.do(Read, "GET", "rules/files", ""), 200).json(t, &files)
	if len(files.Files) != 1 || files.Files[0].Bytes != len(advisedRules) {
		t.Errorf("%+v", files)
	}
}

// The draft of a rule in the database is its document, which can be put back in the version that it is of.
func TestRecommendForADocument(t *testing.T) {
	s, log := newAdvisingServer(t)
	for _, e := range recalledOf(s, "orders", "user", 20) {
		log.add(e)
	}
	v := s.advise(`{"rule":"orders.user"}`)
	want := orderRules + "    candidate:\n      rate_limit: {unit: minute, requests_per_unit: 24}\n"
	if v.HeadRoom != 200 || v.MayHit != 1000 || v.Draft == nil || v.Draft.Document != "orders.yaml" || v.Draft.File != "" || v.Draft.Version != 1 || v.Draft.Text != want {
		t.Fatalf("%+v %+v", v, v.Draft)
	}
	if r := s.review(reviewBody{Document: "orders.yaml", Text: v.Draft.Text}); len(r.Problems) != 0 {
		t.Errorf("%+v", r.Problems)
	}
	s.want(s.do(Admin, "PUT", "rules/documents/orders.yaml", v.Draft.Text, "If-Match", `"1"`), 200)
	// Now it has a candidate, and is left alone.
	if v = s.advise(`{"rule":"orders.user"}`); v.Draft != nil || v.NoDraft == "" || v.Rows[0].Recommended != 24 {
		t.Errorf("%+v", v)
	}
}

// Where nothing can be told it is said why, as the command has it.
func TestRecommendTooFew(t *testing.T) {
	s, log := newAdvisingServer(t)
	if v := s.advise(`{"rule":"shop.cart"}`); v.Unknown != "there is no request in what was recorded" || len(v.Rows) != 0 || v.Draft != nil {
		t.Errorf("%+v", v)
	}
	for _, e := range recalledOf(s, "elsewhere", "cart", 3) {
		log.add(e)
	}
	if v := s.advise(`{"rule":"shop.cart"}`); v.Unknown != "no rule is for any of the requests" || v.Draft != nil || v.Nodes[0].Events != 6 {
		t.Errorf("%+v", v)
	}
	for _, e := range recalledOf(s, "shop", "tried", 6) {
		log.add(e)
	}
	if v := s.advise(`{"rule":"shop.cart"}`); v.Unknown != "" || v.Rows[0].Recommended != 0 || v.Rows[0].Why == "" || v.Draft != nil || v.NoDraft != "" {
		t.Errorf("%+v", v)
	}
	if v := s.advise(`{"rule":"shop.tried"}`); v.Rows[0].Recommended == 0 || v.Draft != nil || !strings.Contains(v.NoDraft, "has a candidate already") {
		t.Errorf("%+v", v)
	}
	// A sample says less than there was, so nobody is told a limit by it who has not asked for that.
	sampled := recalledOf(s, "shop", "cart", 1)[0]
	sampled.SampleRate, sampled.EventID = 10, "sampled"
	log.add(sampled)
	if v := s.advise(`{"rule":"shop.cart"}`); !v.Lacking || v.Unknown != "events are a sample, so that limits would count less than there was" || v.Draft != nil {
		t.Errorf("%+v", v)
	}
	if v := s.advise(`{"rule":"shop.cart","partial":true}`); v.Unknown != "" || v.Lacking || len(v.Notes) == 0 || v.Rows[0].Recommended == 0 {
		t.Errorf("%+v", v)
	}
}

// A question that is none is an error at its field, and only admins may ask.
func TestRecommendHostile(t *testing.T) {
	s, _ := newAdvisingServer(t)
	for _, bad := range []struct{ body, field string }{
		{`{}`, "rule"}, {`{"rule":"` + strings.Repeat("x", maxAdvisedRule+1) + `"}`, "rule"},
		{`{"rule":"shop.cart","head_room_thousandths":-1}`, "head_room_thousandths"}, {`{"rule":"shop.cart","head_room_thousandths":9001}`, "head_room_thousandths"},
		{`{"rule":"shop.cart","may_hit_thousandths_of_percent":-1}`, "may_hit_thousandths_of_percent"}, {`{"rule":"shop.cart","may_hit_thousandths_of_percent":50001}`, "may_hit_thousandths_of_percent"},
	} {
		s.wantField(s.do(Admin, "POST", "rules/recommend", bad.body), 422, bad.field)
	}
	for body, status := range map[string]int{
		`{"rule":"shop.gone"}`: 404, `{"rule":"\u0000"}`: 404, `{"rule":"../../etc/passwd"}`: 404, `{"rule":"shop.cart","head_room_thousandths":1.5}`: 400, `{"rule":["shop.cart"]}`: 400,
		`{"rule":"shop.cart","other":1}`: 400, `{`: 400, `{"rule":"` + strings.Repeat("x", maxAdviceBody) + `"}`: 413,
	} {
		if r := s.do(Admin, "POST", "rules/recommend", body); r.status != status {
			t.Errorf("%.60s: %d, not %d: %s", body, r.status, status, r.body)
		}
	}
	for _, scope := range []Scope{Read, Write} {
		s.want(s.do(scope, "POST", "rules/recommend", `{"rule":"shop.cart"}`), 403)
	}
	s.handler.options.Watch.Events = nil
	if r := s.do(Admin, "POST", "rules/recommend", `{"rule":"shop.cart"}`); r.status != 404 {
		t.Errorf("%d: %s", r.status, r.body)
	}
}

// A review during which the database is reached is one of the document that is there.
func TestReviewOfADatabaseReachedMeanwhile(t *testing.T) {
	s, _ := newAdvisingServer(t)
	reach, asked := s.handler.options.Accounts, 0
	s.handler.options.Accounts = func() Accounts {
		if asked++; asked == 1 {
			return nil
		}
		return reach()
	}
	if r := s.review(reviewBody{Document: "orders.yaml", Text: orderRules}); len(r.Problems) != 0 || r.Diff != "" || asked < 2 {
		t.Errorf("%+v; the database was asked for %d times", r, asked)
	}
}
