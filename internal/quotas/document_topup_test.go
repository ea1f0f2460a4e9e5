package quotas

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var (
	noon   = time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)
	friday = noon.Add(5 * 24 * time.Hour)
)

func sold(id string, hits int64) tenant.TopUp {
	return tenant.TopUp{ID: id, Hits: hits, Term: tenant.Term{From: noon, Until: friday}}
}

func parsed(t testing.TB, text string) Document {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestI5TopUpsOfDocuments: a document without top_ups leaves those that are there, one
// with an empty list takes them away, any other list takes their place.
func TestI5TopUpsOfDocuments(t *testing.T) {
	for text, want := range map[string][]tenant.TopUp{
		`{"tier":"pro"}`:                {sold("a", 5)},
		`{"tier":"pro","top_ups":null}`: {sold("a", 5)},
		`{"tier":"pro","top_ups":[]}`:   {},
		`{"top_ups":[{"id":"b","descriptor":"default","hits":7,"effective_at":"2026-11-22T12:00:00Z","expires_at":"2026-11-27T12:00:00Z"}]}`: {sold("b", 7)},
	} {
		r := sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}, TopUps: []tenant.TopUp{sold("a", 5)}}
		d := parsed(t, text)
		if err := d.Record(&r, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(r.TopUps, want) {
			t.Errorf("%s: %+v, want %+v", text, r.TopUps, want)
		}
	}
	// What is to be taken away is written so.
	none, err := json.Marshal(parsed(t, `{"top_ups":[]}`))
	if err != nil || string(none) != `{"top_ups":[]}` {
		t.Errorf("an empty list is written as %s, %v", none, err)
	}
}

// TestI5TopUpsAreFilled: what may be left out is that of the top-up which is there, so
// that a document which is sent twice grants nothing twice.
func TestI5TopUpsAreFilled(t *testing.T) {
	text := `{"top_ups":[
		{"descriptor":"default","hits":5,"expires_at":"2026-11-27T12:00:00Z"},
		{"descriptor":"default","hits":5,"expires_at":"2026-11-27T12:00:00Z"},
		{"id":"inv-7","descriptor":"op:x","hits":9,"expires_at":"2026-11-27T12:00:00Z"}]}`
	r := sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}}
	put := func(text string, now time.Time) {
		d := parsed(t, text)
		d = d.Filled(r.TopUps, now)
		if err := d.Record(&r, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(text, noon.Add(1500*time.Nanosecond))
	first := r.TopUps
	if len(first) != 3 || len(first[0].ID) != 32 || first[0].ID == first[1].ID || first[2].ID != "inv-7" || !first[2].Term.From.Equal(noon.Add(time.Microsecond)) {
		t.Fatalf("%+v", first)
	}
	put(text, noon.Add(time.Hour))
	if !reflect.DeepEqual(r.TopUps, first) {
		t.Errorf("the second time %+v, want %+v", r.TopUps, first)
	}
	put(strings.ReplaceAll(text, `"hits":9`, `"hits":10`), noon.Add(time.Hour))
	if got := r.TopUps[2]; got.Hits != 10 || !got.Term.From.Equal(first[2].Term.From) {
		t.Errorf("more hits: %+v", got)
	}
	put(strings.ReplaceAll(text, `"hits":5`, `"hits":6`), noon.Add(time.Hour))
	if got := r.TopUps[0]; got.ID == first[0].ID || !got.Term.From.Equal(noon.Add(time.Hour)) {
		t.Errorf("another one without an id: %+v", got)
	}
	d := parsed(t, text)
	if d.Filled(nil, noon); d.TopUps[0].ID != "" || d.TopUps[0].EffectiveAt != nil {
		t.Error("Filled changes the document")
	}
	if d := (Document{Tier: "pro"}).Filled(first, noon); d.TopUps != nil {
		t.Error("a document without top_ups has some now")
	}
	if d := parsed(t, `{"top_ups":[]}`); d.Filled(first, noon).TopUps == nil {
		t.Error("an empty list is none now")
	}
}

func TestTopUpsAreRefusedByField(t *testing.T) {
	const times = `"effective_at":"2026-11-22T12:00:00Z","expires_at":"2026-11-27T12:00:00Z"`
	one := func(fields string) string { return `{"top_ups":[` + fields + `]}` }
	for text, want := range map[string]string{
		one(`{"id":"a","descriptor":"orders","hits":1,` + times + `}`):                                                                      "top_ups[0].descriptor: ",
		one(`{"descriptor":"default","hits":1,` + times + `}`):                                                                              "top_ups[0].id: ",
		one(`{"id":"a b","descriptor":"default","hits":1,` + times + `}`):                                                                   `top_ups[0].id: id "a b"`,
		one(`{"id":"a","descriptor":"default",` + times + `}`):                                                                              "top_ups[0].hits: not a whole number from 1",
		one(`{"id":"a","descriptor":"default","hits":0,` + times + `}`):                                                                     "top_ups[0].hits: not a whole number from 1",
		one(`{"id":"a","descriptor":"default","hits":1125899906842625,` + times + `}`):                                                      "top_ups[0].hits: not a whole number from 1",
		one(`{"id":"a","descriptor":"default","hits":"1",` + times + `}`):                                                                   "top_ups[0].hits: text is not a whole number",
		one(`{"id":"a","descriptor":"default","hits":1,"expires_at":"2026-11-27T12:00:00Z"}`):                                               "top_ups[0].effective_at: missing",
		one(`{"id":"a","descriptor":"default","hits":1,"effective_at":"2026-11-22T12:00:00Z"}`):                                             "top_ups[0].expires_at: missing",
		one(`{"id":"a","descriptor":"default","hits":1,"effective_at":"1999-12-31T23:59:59Z","expires_at":"2026-11-27T12:00:00Z"}`):         "top_ups[0].effective_at: before 2000-01-01",
		one(`{"id":"a","descriptor":"default","hits":1,"effective_at":"2026-11-22T12:00:00Z","expires_at":"2026-11-22T12:00:00.0000009Z"}`): "top_ups[0].expires_at: it is not after effective_at, which is 2026-11-22T12:00:00Z",
		one(`{"id":"a","descriptor":"default","hits":1,"effective_at":"2026-11-22T12:00:00Z","expires_at":"2027-11-22T12:00:00.000001Z"}`):  "top_ups[0].expires_at: more than 365 days after",
		one(`{"id":"a","descriptor":"default","hits":1,` + times + `},{"id":"a","descriptor":"op:x","hits":1,` + times + `}`):               "top_ups[1].id: a second one",
		one(strings.Repeat(`{"id":"a"},`, tenant.MaxTopUps) + `{"id":"a"}`):                                                                 "top_ups: 257 of them",
		one(`{"id":"a","description":""}`):                                                                                                  "top_ups[0].description: no such field",
	} {
		r := sqltenant.Record{Subject: tenant.Subject{Key: "tenant", Value: "acme"}, TopUps: []tenant.TopUp{sold("z", 1)}}
		d, err := Parse([]byte(text))
		if err == nil {
			err = d.Record(&r, nil)
		}
		var field *FieldError
		if !errors.As(err, &field) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
		if len(r.TopUps) != 1 || r.TopUps[0] != sold("z", 1) {
			t.Errorf("%.80s: left %+v", text, r.TopUps)
		}
	}
}
