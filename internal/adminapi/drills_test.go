package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/drill"
)

// oneDrill is the drill of a fleet of no nodes.
type oneDrill struct {
	mu    sync.Mutex
	order *drill.Order
	err   error
}

func (d *oneDrill) Check(o *drill.Order) error {
	if o.Store == "nope" {
		return &drill.FieldError{Field: "store", Problem: "there is none"}
	}
	return nil
}

func (d *oneDrill) Begin(_ context.Context, o *drill.Order) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	if d.order.UnderWay(time.Now()) {
		return drill.ErrUnderWay
	}
	d.order = o
	return nil
}

func (d *oneDrill) Stop(_ context.Context, actor string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil || !d.order.UnderWay(time.Now()) {
		return false, d.err
	}
	d.order.Ended = &drill.Ending{Why: drill.Stopped, By: actor, At: time.Now()}
	return true, nil
}

func (d *oneDrill) Show(context.Context) (drill.Whole, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return drill.Sum(d.order, time.Now(), nil), d.err
}

func TestN6DrillRoutes(t *testing.T) {
	drills := new(oneDrill)
	s := newTestServer(t, sqliteDSN(t))
	db := s.db
	s = newTestServerOn(t, db, func(o *Options) { o.Drills = drills })
	shown := func(scope Scope) (w drill.Whole) {
		t.Helper()
		if err := json.Unmarshal(s.want(s.do(scope, "GET", "drill", ""), 200).body, &w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	if w := shown(Read); w.Order != nil || w.UnderWay {
		t.Errorf("%+v", w)
	}
	const good = `{"fault":"store-slow","store":"orders","lasts_ms":60000,"abort_above":0.5,"reason":"rehearsal"}`
	for _, scope := range []Scope{Read, Write} {
		s.want(s.do(scope, "POST", "drill", good), 403)
		s.want(s.do(scope, "DELETE", "drill", ""), 403)
	}
	s.want(s.do(Admin, "DELETE", "drill", ""), 404)
	for body, field := range map[string]string{
		`{}`:                    "fault",
		`{"fault":"sun-spots"}`: "fault",
		`{"fault":"store-down","lasts_ms":3600001}`:              "lasts_ms",
		`{"fault":"store-down","lasts_ms":0}`:                    "lasts_ms",
		`{"fault":"store-down","abort_above":2}`:                 "abort_above",
		`{"fault":"store-down","delay_ms":5}`:                    "delay_ms",
		`{"fault":"clock-skew","skew_ms":0}`:                     "skew_ms",
		`{"fault":"store-down","node":"n1"}`:                     "node",
		`{"fault":"shard-down"}`:                                 "shard",
		`{"fault":"database-down","store":"x"}`:                  "store",
		`{"fault":"store-down","store":"nope"}`:                  "store",
		`{"fault":"store-down","reason":"` + "\u202e" + `evil"}`: "reason",
	} {
		if a := s.want(s.do(Admin, "POST", "drill", body), 422); !strings.Contains(string(a.body), `"`+field+`"`) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	s.want(s.do(Admin, "POST", "drill", `{"fault":"store-down","more":1}`), 400)
	s.want(s.do(Admin, "POST", "drill", good), 201)
	w := shown(Read)
	if o := w.Order; !w.UnderWay || o.Fault != drill.StoreSlow || o.Delay() != drill.DefaultDelay || o.Lasts() != time.Minute || o.AbortAbove != 0.5 || o.Actor != "test-admin" || o.Store != "orders" {
		t.Errorf("%+v", w.Order)
	}
	if a := s.want(s.do(Admin, "POST", "drill", good), 409); !strings.Contains(string(a.body), "hint") {
		t.Errorf("%s", a.body)
	}
	s.want(s.do(Admin, "DELETE", "drill", ""), 204)
	if w := shown(Read); w.UnderWay || w.Order.Ended.By != "test-admin" {
		t.Errorf("%+v", w.Order)
	}
	s.want(s.do(Admin, "POST", "drill", `{"fault":"clock-skew","node":"n1"}`), 201)
	if o := shown(Read).Order; o.Fault != drill.ClockSkew || o.Skew() != drill.DefaultSkew || o.Node != "n1" {
		t.Errorf("%+v", o)
	}
	s.want(s.do(Admin, "DELETE", "drill", ""), 204)
	changes, err := db.Changes(t.Context(), 0, 10)
	if err != nil || len(changes) != 4 || !strings.Contains(changes[0].After, `"begin drill"`) || !strings.Contains(changes[1].After, `"end drill"`) || changes[0].Actor != "test-admin" {
		t.Errorf("the log of changes: %+v, %v", changes, err)
	}
	drills.err = errors.New("the store is away")
	for _, method := range []string{"GET", "DELETE"} {
		s.want(s.do(Admin, method, "drill", ""), 503)
	}
	s.want(s.do(Admin, "POST", "drill", good), 503)
}

// What cannot be noted in the log of changes is not begun; what lasts can be ended all the same.
func TestN6DrillWithoutTheLogOfChanges(t *testing.T) {
	drills := new(oneDrill)
	s := newTestServerOn(t, nil, func(o *Options) { o.Drills = drills })
	s.want(s.do(Admin, "POST", "drill", `{"fault":"store-down"}`), 503)
	if drills.order != nil {
		t.Error("it was begun")
	}
	drills.order = &drill.Order{ID: "1", Fault: drill.StoreDown, LastsMS: 60_000, BeganAt: time.Now()}
	s.want(s.do(Admin, "DELETE", "drill", ""), 204)
	if drills.order.Ended == nil {
		t.Error("it was not ended")
	}
	s = newTestServerOn(t, nil, func(o *Options) { o.Accounts = nil; o.Drills = new(oneDrill) })
	s.want(s.do(Admin, "POST", "drill", `{"fault":"store-down"}`), 201)
	s = newTestServerOn(t, nil, func(o *Options) { o.Drills = nil })
	for _, method := range []string{"GET", "POST", "DELETE"} {
		s.want(s.do(Admin, method, "drill", map[string]string{"POST": `{"fault":"store-down"}`}[method]), 404)
	}
}
