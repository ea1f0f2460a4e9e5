package adminapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/openapi/openapitest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/webhook"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var billingKey = identity.NewSecret(strings.Repeat("b", 32))

// withBilling lets s take events.
func withBilling(s *testServer) *testServer {
	s.handler.options.Billing = []identity.Secret{billingKey}
	return s
}

// bill sends an event, signed.
func (s *testServer) bill(body string) testReply {
	s.t.Helper()
	return s.send("POST", billingPath, body, webhook.SignatureHeader, webhook.Sign([]identity.Secret{billingKey}, []byte(body), s.clock()))
}

// event is the text of an event at so many minutes after noon.
func event(id string, minutes int, more string) string {
	at := time.Date(2026, 11, 22, 12, minutes, 0, 0, time.UTC).Format(time.RFC3339)
	return fmt.Sprintf(`{"id":%q,"at":%q,"subject":"tenant:acme",%s}`, id, at, more)
}

func (s *testServer) account(name string) (v struct {
	Tier    string
	Account struct {
		Tier      string
		Tiers     []any
		Overrides []struct {
			Descriptor      string
			RequestsPerUnit int64 `json:"requests_per_unit"`
		}
	}
	Version int64
}) {
	s.t.Helper()
	s.want(s.do(Read, "GET", "quotas/"+name, ""), 200).json(s.t, &v)
	return v
}

func TestBillingOnSQLite(t *testing.T) { testBilling(t, sqliteDSN(t)) }

func TestBillingOnPostgres(t *testing.T) {
	testBilling(t, testserver.PostgresDatabase(t))
}

// testBilling: events change tiers, quotas and top-ups; one that comes again changes
// nothing more, also after a restart, and one that comes late does not undo a later one.
func testBilling(t *testing.T, dsn string) {
	s := withBilling(newTestServer(t, dsn))
	did := func(s *testServer, body string, changed bool) {
		t.Helper()
		var v billingView
		s.want(s.bill(body), 200).json(t, &v)
		if v.Changed != changed || v.Name != "tenant:acme" || v.Version == 0 && changed {
			t.Errorf("%s: %+v", body, v)
		}
	}
	s.mu.Lock()
	s.now = s.now.Add(time.Hour)
	s.mu.Unlock()
	pro, free := event("e1", 1, `"type":"tier.set","tier":"pro"`), event("e2", 2, `"type":"tier.set","tier":"free"`)
	did(s, pro, true)
	if a := s.account("tenant:acme"); a.Tier != "pro" {
		t.Errorf("%+v", a)
	}
	did(s, pro, false)
	did(s, free, true)
	did(s, pro, false) // it comes late
	if a := s.account("tenant:acme"); a.Tier != "free" || len(a.Account.Tiers) != 0 {
		t.Errorf("%+v", a)
	}
	trial := strings.Replace(event("e3", 3, `"type":"tier.set","tier":"enterprise"`), "{", `{"expires_at":"2026-11-22T13:30:00Z",`, 1)
	did(s, trial, true)
	if a := s.account("tenant:acme"); a.Tier != "enterprise" {
		t.Errorf("%+v", a)
	}

	orders := `"type":"quota.set","quota":{"descriptor":"endpoint:POST /v1/orders","requests_per_unit":%d,"unit":"minute"}`
	did(s, event("e4", 4, fmt.Sprintf(orders, 70)), true)
	did(s, event("e6", 6, fmt.Sprintf(orders, 90)), true)
	did(s, event("e5", 5, fmt.Sprintf(orders, 80)), false)
	did(s, event("e7", 6, `"type":"quota.set","quota":{"descriptor":"default","unlimited":true}`), true)
	a := s.account("tenant:acme")
	if len(a.Account.Overrides) != 2 || a.Account.Overrides[1].RequestsPerUnit != 90 {
		t.Errorf("%+v", a.Account)
	}

	topUp := strings.Replace(event("inv_1", 5, `"type":"top_up.add","top_up":{"descriptor":"default","hits":5000}`), "{", `{"expires_at":"2026-12-22T00:00:00Z",`, 1)
	did(s, topUp, true)
	did(s, topUp, false)

	again := withBilling(newTestServer(t, dsn)) // after a restart
	again.now = s.now
	for _, body := range []string{pro, free, trial, topUp, event("e5", 5, fmt.Sprintf(orders, 80)), event("e6", 6, fmt.Sprintf(orders, 90))} {
		did(again, body, false)
	}
	r, err := s.db.Get(t.Context(), tenant.Subject{Key: "tenant", Value: "acme"})
	if err != nil || len(r.TopUps) != 1 || r.TopUps[0].ID != "inv_1" || r.TopUps[0].Hits != 5000 {
		t.Errorf("%+v, %v", r.TopUps, err)
	}
	entries, err := s.db.Changes(t.Context(), 0, 100)
	if err != nil || len(entries) != 7 || entries[0].Actor != "billing:e1" || entries[6].Actor != "billing:inv_1" {
		t.Errorf("%d changes, %v", len(entries), err)
	}
	for body, want := range map[string]int{
		event("e8", 2, `"type":"tier.set","tier":"enterprise"`): 409,
		event("e9", 6, fmt.Sprintf(orders, 91)):                 409,
		strings.Replace(topUp, "5000", "5001", 1):               409,
	} {
		s.want(s.bill(body), want)
	}
	// What an operator has set counts too, and tokens are no signature.
	s.want(s.do(Admin, "PUT", "quotas/tenant:acme", `{"tier":"pro"}`), 200)
	s.want(s.do(Admin, "POST", billingPath, pro), 401)
}

// TestBillingInAnyOrder: whatever order events come in, and however often, the account
// is the same.
func TestBillingInAnyOrder(t *testing.T) {
	now := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes-60) * time.Minute) }
	tiers := []string{"free", "pro", "enterprise"}
	for round := range 500 {
		random := rand.New(rand.NewPCG(1, uint64(round)))
		type step struct {
			edit func(*sqltenant.Record) (bool, error)
			term tenant.Term
			tier string
		}
		var steps []step
		for i := range 6 {
			term := tenant.Term{From: at(i * 20)} // some begin later than now
			if random.IntN(3) == 0 {
				term.Until = term.From.Add(time.Duration(1+random.IntN(90)) * time.Minute)
			}
			a := tenant.Assignment{Tier: tiers[random.IntN(3)], Term: term}
			steps = append(steps, step{setTier(a, now), term, a.Tier})
		}
		var r sqltenant.Record
		for _, n := range append(random.Perm(6), random.Perm(6)...) {
			if _, err := steps[n].edit(&r); err != nil {
				t.Fatal(err)
			}
		}
		for minute := range 240 {
			instant, want := now.Add(time.Duration(minute)*time.Minute), ""
			for _, s := range steps { // the last that has begun and not ended
				if !s.term.From.After(instant) && (s.term.Until.IsZero() || s.term.Until.After(instant)) {
					want = s.tier
				}
			}
			got, from := "", time.Time{}
			for _, a := range r.Tiers {
				if !a.Term.From.After(instant) && (a.Term.Until.IsZero() || a.Term.Until.After(instant)) && a.Term.From.After(from) {
					got, from = a.Tier, a.Term.From
				}
			}
			if got != want {
				t.Fatalf("round %d, minute %d: %q, want %q of %+v", round, minute, got, want, r.Tiers)
			}
		}
	}
}

// TestTopUpsMakeRoom: those that have ended go when there is no room for another one.
func TestTopUpsMakeRoom(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	topUp := func(i int, until time.Duration) tenant.TopUp {
		return tenant.TopUp{ID: fmt.Sprint(i), Hits: 1, Term: tenant.Term{From: now.Add(-time.Hour), Until: now.Add(until)}}
	}
	var r sqltenant.Record
	for i := range tenant.MaxTopUps {
		until := time.Hour
		if i < 3 {
			until = 0
		}
		r.TopUps = append(r.TopUps, topUp(i, until))
	}
	if changed, err := addTopUp(topUp(1, 0), now)(&r); changed || err != nil {
		t.Errorf("one that is there: %v, %v", changed, err)
	}
	if changed, err := addTopUp(topUp(1000, 0), now)(&r); changed || err != nil {
		t.Errorf("one that has ended: %v, %v", changed, err)
	}
	for i := range 3 {
		if changed, err := addTopUp(topUp(2000+i, time.Hour), now)(&r); !changed || err != nil {
			t.Fatalf("%v, %v", changed, err)
		}
	}
	if changed, err := addTopUp(topUp(3000, time.Hour), now)(&r); changed || err == nil {
		t.Errorf("one too many: %v, %v", changed, err)
	}
}

func TestBillingRefuses(t *testing.T) {
	s := withBilling(newTestServer(t, sqliteDSN(t)))
	good := event("e1", 1, `"type":"tier.set","tier":"pro"`)
	for _, c := range []struct {
		body  string
		field string
	}{
		{`{`, "body"},
		{`[]`, "body"},
		{good + good, "body"},
		{strings.Replace(good, "tier.set", "tier.unset", 1), "type"},
		{event("e1", 1, `"type":"gone"`), "type"},
		{event("", 1, `"type":"tier.set","tier":"pro"`), "id"},
		{event("a b", 1, `"type":"tier.set","tier":"pro"`), "id"},
		{event(strings.Repeat("x", 65), 1, `"type":"tier.set","tier":"pro"`), "id"},
		{`{"id":"e1","subject":"tenant:acme","type":"tier.set","tier":"pro"}`, "at"},
		{`{"id":"e1","subject":"tenant:acme","type":"tier.set","tier":"pro","at":"yesterday"}`, "at"},
		{strings.Replace(good, "{", `{"subject":"tenant:other",`, 1), "subject"},
		{strings.Replace(good, `"subject"`, `"SUBJECT"`, 1), "SUBJECT"},
		{strings.Replace(good, "tenant:acme", "tenant:acme ", 1), "subject"},
		{strings.Replace(good, "tenant:acme", "", 1), "subject"},
		{strings.Replace(good, "tenant:acme", "hash:x", 1), "subject"},
		{strings.Replace(good, "{", `{"expires_at":"2026-11-22T12:01:00Z",`, 1), "expires_at"},
		{event("e1", 1, `"type":"tier.set"`), "tier"},
		{event("e1", 1, `"type":"tier.set","tier":"gold"`), "tier"},
		{event("e1", 1, `"type":"tier.set","tier":"pro","quota":{}`), "quota"},
		{event("e1", 1, `"type":"tier.set","tier":"pro","top_up":{}`), "top_up"},
		{event("e1", 1, `"type":"tier.set","tier":"pro","plan":"x"`), "plan"},
		{event("e1", 1, `"type":"quota.set","quota":{"descriptor":"default","requests_per_unit":1,"unit":"fortnight"}`), "quota.unit"},
		{event("e1", 1, `"type":"quota.set","quota":{"descriptor":"default","limits":[{"requests_per_unit":1,"unit":"hour"},{"requests_per_unit":1,"unit":"fortnight"}]}`), "quota.limits[1].unit"},
		{event("e1", 1, `"type":"quota.set","quota":{"descriptor":"default"}`), "quota.requests_per_unit"},
		{event("e1", 1, `"type":"quota.set","quota":{"descriptor":"default","unlimited":true,"expires_at":"2027-01-01T00:00:00Z"}`), "quota"},
		{event("e1", 1, `"type":"quota.set","quota":{"descriptor":"api_key:sk_live_1","requests_per_unit":1,"unit":"hour"}`), "quota.descriptor"},
		{event("e1", 1, `"type":"top_up.add","top_up":{"descriptor":"default","hits":1}`), "expires_at"},
		{strings.Replace(event("e1", 1, `"type":"top_up.add","top_up":{"descriptor":"api_key:sk_live_1","hits":1}`), "{", `{"expires_at":"2026-12-01T00:00:00Z",`, 1), "top_up.descriptor"},
		{strings.Replace(event("e1", 1, `"type":"top_up.add","top_up":{"descriptor":"default","hits":0}`), "{", `{"expires_at":"2026-12-01T00:00:00Z",`, 1), "top_up.hits"},
		{strings.Replace(event("e1", 1, `"type":"top_up.add","top_up":{"descriptor":"x","hits":1}`), "{", `{"expires_at":"2026-12-01T00:00:00Z",`, 1), "top_up.descriptor"},
	} {
		r := s.bill(c.body)
		var p problem
		r.json(t, &p)
		if r.status != 400 && r.status != 422 || len(p.Errors) != 1 || p.Errors[0].Field != c.field {
			t.Errorf("%s: %d: %s; want %s", c.body, r.status, r.body, c.field)
		}
	}
	if entries, err := s.db.Changes(t.Context(), 0, 10); err != nil || len(entries) != 0 {
		t.Errorf("%d changes, %v", len(entries), err)
	}
}

// TestBillingSignature: nothing but a fresh signature of the very body is believed.
func TestBillingSignature(t *testing.T) {
	s := newTestServer(t, sqliteDSN(t))
	body := event("e1", 1, `"type":"tier.set","tier":"pro"`)
	keys := []identity.Secret{billingKey}
	s.want(s.do(Admin, "POST", billingPath, body), 404) // it is off
	s.want(s.bill(body), 401)
	withBilling(s)
	for name, header := range map[string]string{
		"none":       "",
		"another":    webhook.Sign([]identity.Secret{identity.NewSecret(strings.Repeat("x", 32))}, []byte(body), s.clock()),
		"other body": webhook.Sign(keys, []byte(body+" "), s.clock()),
		"old":        webhook.Sign(keys, []byte(body), s.clock().Add(-6*time.Minute)),
		"of later":   webhook.Sign(keys, []byte(body), s.clock().Add(6*time.Minute)),
	} {
		r := s.send("POST", billingPath, body, "Authorization", "Bearer "+s.tokens[Admin], webhook.SignatureHeader, header)
		if r.status != 401 || strings.Contains(string(r.body), billingKey.Reveal()) {
			t.Errorf("%s: %d: %s", name, r.status, r.body)
		}
	}
	s.want(s.send("GET", billingPath, "", webhook.SignatureHeader, webhook.Sign(keys, nil, s.clock())), 405)
	s.want(s.send("GET", "quotas", "", webhook.SignatureHeader, webhook.Sign(keys, nil, s.clock())), 401)
	large := event("e1", 1, `"type":"tier.set","tier":"pro","x":"`+strings.Repeat("x", maxSmallBody)+`"`)
	s.want(s.bill(large), 413)
	s.want(s.send("POST", billingPath, large), 413)
	s.want(s.bill(body), 200)
	for range failuresPerSecond {
		s.step = 0
		s.want(s.send("POST", billingPath, body), 401)
	}
	s.want(s.send("POST", billingPath, body), 429)
	s.want(s.bill(body), 200)
}

// FuzzBilling: a body is refused, or what it does to an account can be kept.
func FuzzBilling(f *testing.F) {
	f.Add(event("e1", 1, `"type":"tier.set","tier":"pro"`))
	f.Add(event("e1", 1, `"type":"quota.set","quota":{"descriptor":"default","requests_per_unit":7,"unit":"minute"}`))
	f.Add(`{"id":"a","at":"0000-01-01T00:00:00Z","subject":"tenant:a","type":"quota.set","quota":{"descriptor":"default","requests_per_unit":0,"unit":"minute"}}`)
	f.Add(`{"id":"a","at":"2026-11-22T12:01:00Z","expires_at":"2026-12-01T00:00:00Z","subject":"tenant:a","type":"top_up.add","top_up":{"descriptor":"default","hits":1}}`)
	tiers, err := tenant.NewTiers([]tenant.Tier{{Name: "free"}, {Name: "pro"}}, "")
	if err != nil {
		f.Fatal(err)
	}
	now := time.Date(2026, 11, 22, 12, 2, 0, 0, time.UTC)
	o := &Options{Tiers: func() *tenant.Tiers { return tiers }}
	f.Fuzz(func(t *testing.T, text string) {
		var e billingEvent
		if decodeBody([]byte(text), &e) != nil {
			return
		}
		name, edit, bad := e.read(o, now)
		if bad != nil {
			if bad.Status != http.StatusUnprocessableEntity || len(bad.Errors) != 1 {
				t.Errorf("%+v", bad)
			}
			return
		}
		r := sqltenant.Record{Subject: name.Subject}
		if _, err := edit(&r); err != nil {
			t.Error(err)
		}
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if changed, err := edit(&r); changed || err != nil {
			t.Errorf("again: %v, %v", changed, err)
		}
	})
}

// TestBillingIsDocumented: the document asks for a signature there, and for no token.
func TestBillingIsDocumented(t *testing.T) {
	var document map[string]any
	if err := json.Unmarshal(openAPI(routes()), &document); err != nil {
		t.Fatal(err)
	}
	operation := openapitest.Dig(document, "paths", Prefix+billingPath, "post")
	if openapitest.Dig(operation, "security") == nil || openapitest.Dig(operation, "x-scope") != nil || openapitest.Dig(document, "components", "securitySchemes", "signature") == nil {
		t.Errorf("%v", operation)
	}
}
