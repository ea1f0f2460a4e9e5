package adminapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/view"
)

const explained = `{"domain":"api","descriptors":[{"entries":[{"key":"tenant","value":"acme"}],"hits":2},{"descriptor":"tenant:b"}],"attributes":{"content_length":"5"}}`

// eventLog is a remembered list of events whose keys are all in words. It has no bound of its
// own: tests add few.
type eventLog struct {
	mu        sync.Mutex
	events    []view.Event // the oldest first
	followers map[*logFollower]bool
}

type logFollower struct {
	log  *eventLog
	f    view.EventFilter
	next chan view.Event
	mu   sync.Mutex
	lost uint64
}

func eventID(i int) string { return fmt.Sprintf("01890000-0000-7000-8000-%012d", i) }

// anEvent is a denial, by its number.
func anEvent(i int) view.Event {
	return view.Event{
		Schema: view.EventSchema, TS: int64(i), EventID: eventID(i), Node: "one", Domain: "api", Key: fmt.Sprint("tenant:", i), Rule: "api.tenant",
		Limit: 10, Used: 10, Hits: 1, Outcome: "denied", ClientIP: "192.0.2.7", UserAgent: "curl", SampleRate: 1,
	}
}

// hashOf is the hash of a key of these tests.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:identity.HashLength]
}

func (l *eventLog) add(e view.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	for f := range l.followers {
		if !f.f.Matches(&e, hashOf(e.Key)) {
			continue
		}
		select {
		case f.next <- e:
		default:
			f.mu.Lock()
			f.lost++
			f.mu.Unlock()
		}
	}
}

func (l *eventLog) Recent(f view.EventFilter, n int, cursor string) (view.Events, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := len(l.events)
	if cursor != "" {
		var err error
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 || from > len(l.events) {
			return view.Events{}, errors.New("no cursor")
		}
	}
	page := view.Events{Events: []view.Event{}}
	for i := from - 1; i >= 0; i-- {
		if !f.Matches(&l.events[i], hashOf(l.events[i].Key)) {
			continue
		}
		if page.Events = append(page.Events, l.events[i]); len(page.Events) == n {
			page.NextCursor = strconv.Itoa(i)
			break
		}
	}
	return page, nil
}

func (l *eventLog) Event(id string) (view.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.events, func(e view.Event) bool { return e.EventID == id })
	if i < 0 {
		return view.Event{}, false
	}
	return l.events[i], true
}

func (l *eventLog) Redact(e view.Event) view.Event {
	e.Key, e.KeyHashed, e.ClientIP, e.UserAgent = hashOf(e.Key), true, "", ""
	return e
}

func (l *eventLog) follow(f view.EventFilter) (Follower, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	follower := &logFollower{log: l, f: f, next: make(chan view.Event, 4)}
	if l.followers == nil {
		l.followers = map[*logFollower]bool{}
	}
	l.followers[follower] = true
	return follower, nil
}

func (l *eventLog) following() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.followers)
}

func (f *logFollower) Next(ctx context.Context) (view.Event, uint64, error) {
	select {
	case e := <-f.next:
		f.mu.Lock()
		defer f.mu.Unlock()
		lost := f.lost
		f.lost = 0
		return e, lost, nil
	case <-ctx.Done():
		return view.Event{}, 0, ctx.Err()
	}
}

func (f *logFollower) Close() {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	delete(f.log.followers, f)
}

var named = []view.TopKey{{Rule: "api.tenant", Hash: "hash", Key: "tenant:acme", Total: 7, Denied: 2}}

// testWatch is what a node shows that has everything.
func testWatch() *Watch {
	events := &eventLog{}
	for i := range 5 {
		events.add(anEvent(i))
	}
	return &Watch{
		Overview: func() view.Overview {
			return view.Overview{Node: view.Identity{Name: "one"}, Shards: []view.Shard{}, Rules: []view.Rule{{ID: "api.tenant"}}, Tiers: []view.Tier{}, Switches: []view.Switch{}, Audit: view.Audit{Sinks: []view.AuditSink{}}}
		},
		Timeline: func(from, to time.Time, most int) view.Timeline {
			return view.Timeline{Step: int64(to.Sub(from)/time.Second) / int64(most), Points: []view.TimelinePoint{{At: from, Known: 1}}}
		},
		FleetTimeline: func(_ context.Context, q FleetQuestion) view.FleetTimeline {
			return view.FleetTimeline{Step: int64(q.To.Sub(q.From)/time.Second) / int64(q.Most), Points: []view.FleetPoint{{At: q.From, Nodes: 1}}, Nodes: []view.TimelineNode{{Name: cmp.Or(q.Node, "one")}}}
		},
		TopKeys: func(q KeyQuestion) view.TopKeys {
			list := view.TopKeys{By: q.By, Keys: slices.Clone(named[:min(q.Most, 1)]), Nodes: 1}
			if q.Fleet {
				list.Nodes = 2
			}
			if q.Node != "" && q.Node != "one" {
				list.Nodes = 0
			}
			if q.Rule != "" && q.Rule != "api.tenant" {
				list.Keys = []view.TopKey{}
			}
			return list
		},
		HotRaises: func() view.HotRaises { return view.HotRaises{Raises: []view.HotRaise{{Rule: "api.tenant", Raise: 20}}} },
		Fleet: func() view.Fleet {
			return view.Fleet{Live: 2, Nodes: []view.Node{{Identity: view.Identity{Name: "one"}, Self: true, TopTotal: named, TopDenied: named}}}
		},
		Accuracy: func() view.Accuracy {
			return view.Accuracy{Share: 0.01, Rules: []view.RuleAccuracy{{Rule: "api.tenant"}}}
		},
		Regions: func() view.Regions {
			return view.Regions{
				Node: "one", Region: "virginia", Peers: []view.RegionPeer{{Name: "home", Kind: "home", State: view.PeerSilent, Why: "it has never answered", Heard: -1}},
				Rules:  []view.RegionRule{{Rule: "api.tenant", Regions: "leased", Peer: "home", State: view.RuleCutOff, Limits: []view.RegionLimit{{Limit: "100 per minute", Home: 90, Reserve: 5, Others: 5}}}},
				Told:   []view.RegionTold{{Region: "frankfurt", State: view.PeerSilent, Why: "its store has never answered", Heard: -1, LagBound: 10}},
				Shared: []view.SharedRule{{Rule: "api.plan", Limits: []view.SharedLimit{{Limit: "100 per minute", Floor: 1, Most: 200}}, Unheard: 3, To: "frankfurt"}},
			}
		},
		Settings: func() view.Settings {
			return view.Settings{Command: "headgate serve", Settings: []view.Setting{{Name: "store", Value: "memory://", From: view.FromEnvironment, Variables: []string{"HEADGATE_STORE"}}}}
		},
		DualRun: func() view.DualRun {
			return view.DualRun{
				Of: "old:8081", Verdict: "look", Causes: []view.DualRunCause{{Cause: "window", Count: 1}},
				Places:   []view.DualRunPlace{{Domain: "api", Keys: "user", Cause: "window", Count: 1}},
				Examples: []view.DualRunExample{{Cause: "window", Domain: "api", Keys: "user", Hash: "h", Decides: true}},
			}
		},
		Explain: func(_ context.Context, r headgate.Request) (view.Explanation, error) {
			if r.Domain == "away" {
				return view.Explanation{}, errors.New("the store is away")
			}
			e := view.Explanation{Domain: r.Domain, Allowed: true, Descriptors: []view.ExplainedDescriptor{}}
			for _, d := range r.Descriptors {
				e.Descriptors = append(e.Descriptors, view.ExplainedDescriptor{
					Descriptor: descriptor.Format(d.Entries), Hits: d.Hits, Steps: []view.ExplainStep{}, Limits: []view.ExplainedLimit{},
				})
			}
			return e, nil
		},
		Events:      events,
		Follow:      events.follow,
		OtherEvents: func(context.Context, EventsQuestion) []rulereview.NodeEvents { return nil },
	}
}

// hiding changes what the node shows.
func hiding(edit func(*Watch)) func(*Options) {
	return func(o *Options) { edit(o.Watch) }
}

// withoutDatabase is a process without tenants.
func withoutDatabase(o *Options) { o.Accounts, o.Tiers = nil, nil }

// TestNamesAreForThoseWhoMaySeeThem: the scope read sees no key and no address, in no
// route, and finds nothing by them.
func TestNamesAreForThoseWhoMaySeeThem(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	secrets := []string{"tenant:acme", "tenant:3", "192.0.2.7", "curl"}
	for _, path := range []string{"keys", "keys?by=denied&fleet=true", "events", "events/" + eventID(3), "fleet", "overview", "events?key=" + hashOf("tenant:3")} {
		for scope, sees := range map[Scope]bool{Read: false, Write: true, Admin: true} {
			text := string(s.want(s.do(scope, "GET", path, ""), 200).body)
			saw := slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) })
			if want := sees && path != "fleet" && path != "overview"; saw != want {
				t.Errorf("%s %s: %s", scope, path, text)
			}
			if strings.HasPrefix(path, "events") && !strings.Contains(text, eventID(3)) {
				t.Errorf("%s %s: %s", scope, path, text)
			}
		}
	}
	var me meView
	s.want(s.do(Read, "GET", "me", ""), 200).json(t, &me)
	if me != (meView{"test-read", "read", false}) {
		t.Errorf("%+v", me)
	}
	s.want(s.do(Write, "GET", "me", ""), 200).json(t, &me)
	if me != (meView{"test-write", "write", true}) {
		t.Errorf("%+v", me)
	}
	// A part of a name is as good as the name, to who may ask for many parts.
	s.want(s.do(Read, "GET", "events?key=tenant", ""), 400)
	s.want(s.do(Read, "GET", "events/live?key=tenant", ""), 400)
	whole := anEvent(9)
	whole.Key = "tenant:" + strings.Repeat("x", 22)
	s.handler.options.Watch.Events.(*eventLog).add(whole)
	var page view.Events
	s.want(s.do(Read, "GET", "events?key="+strings.Repeat("x", 22), ""), 200).json(t, &page)
	if len(page.Events) != 0 {
		t.Errorf("found by a part of 22 letters: %+v", page)
	}
	s.want(s.do(Write, "GET", "events?key="+strings.Repeat("x", 22), ""), 200).json(t, &page)
	if len(page.Events) != 1 {
		t.Errorf("found by who may see names: %+v", page)
	}
}

func TestEventsInPages(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	var seen []string
	cursor := ""
	for range 10 {
		var page view.Events
		s.want(s.do(Write, "GET", "events?limit=2&cursor="+cursor, ""), 200).json(t, &page)
		for _, e := range page.Events {
			seen = append(seen, e.EventID)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if want := []string{eventID(4), eventID(3), eventID(2), eventID(1), eventID(0)}; !slices.Equal(seen, want) {
		t.Errorf("%v", seen)
	}
	s.want(s.do(Read, "GET", "events/"+eventID(77), ""), 404)
	s.want(s.do(Read, "GET", "events/%00", ""), 400)
}

// A timeline is of the hour before now, in 300 steps, unless the question says something else.
func TestTimeline(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	for query, step := range map[string]int64{
		"": 12, "?points=60": 60, "?points=2000&from=2026-11-28T00:00:00Z&to=2026-11-29T00:00:00%2B00:00": 43, "?to=2026-11-28T00:00:00Z": 12,
		"?from=2026-11-28T18:00:00Z&to=2026-11-28T18:00:00Z": 0,
	} {
		var got view.Timeline
		s.want(s.do(Read, "GET", "timeline"+query, ""), 200).json(t, &got)
		if got.Step != step || len(got.Points) != 1 {
			t.Errorf("%q: %+v", query, got)
		}
	}
}

// That of all nodes is asked for as that of one is, and names the node that is asked about.
func TestFleetTimeline(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	for query, want := range map[string]view.TimelineNode{"?points=60": {Name: "one"}, "?node=gate-2&points=60": {Name: "gate-2"}} {
		var got view.FleetTimeline
		s.want(s.do(Read, "GET", "fleet/timeline"+query, ""), 200).json(t, &got)
		if got.Step != 60 || len(got.Points) != 1 || len(got.Nodes) != 1 || got.Nodes[0] != want {
			t.Errorf("%q: %+v", query, got)
		}
	}
}

// The other nodes are asked for a few at one time: each has a turn while it asks, and who has none in time is
// told when to ask again.
func TestQuestionsToNodesTakeTurns(t *testing.T) {
	held := 0
	n := node{Options: &Options{Watch: &Watch{}}, asking: make(turns, maxAsking)}
	n.Watch.FleetTimeline = func(context.Context, FleetQuestion) view.FleetTimeline {
		held = len(n.asking)
		return view.FleetTimeline{}
	}
	ask := func(ctx context.Context) error {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, Prefix+"fleet/timeline", nil)
		_, err := n.fleetTimeline(&call{request: r})
		return err
	}
	if err := ask(t.Context()); err != nil || held != 1 || len(n.asking) != 0 {
		t.Errorf("%v; %d turns are held while it asks, and %d afterwards", err, held, len(n.asking))
	}
	for range maxAsking {
		n.asking <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var bad *problem
	if err := ask(ctx); !errors.As(err, &bad) || bad.Status != http.StatusServiceUnavailable {
		t.Errorf("without a turn: %v", err)
	}
}

// Who has no turn is told so while the connection still takes an answer.
func TestTurnsAreNotWaitedForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		full := make(turns)
		_, bad := full.ask(t.Context())
		if waited := time.Since(begun); bad == nil || bad.Status != http.StatusServiceUnavailable || waited != turnTimeout {
			t.Errorf("%v after %v", bad, waited)
		}
	})
	const connection = 15 * time.Second // of app
	if askTimeout > connection-time.Second {
		t.Errorf("a question may take %v, and its connection has %v", askTimeout, connection)
	}
}

// Of a node that is not known of there are no keys.
func TestKeysOfANode(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	for query, nodes := range map[string]int{"": 1, "?fleet=true": 2, "?node=one": 1, "?node=nobody": 0} {
		var got view.TopKeys
		if s.want(s.do(Read, "GET", "keys"+query, ""), 200).json(t, &got); got.Nodes != nodes {
			t.Errorf("%q: %+v", query, got)
		}
	}
}

// TestBadQuestionsAboutANode: each is refused with the field named.
func TestBadQuestionsAboutANode(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	long := strings.Repeat("x", maxFilter+1)
	for path, field := range map[string]string{
		"keys?by=hits": "by", "keys?by=": "by", "keys?limit=0": "limit", "keys?limit=1001": "limit", "keys?limit=": "limit", "keys?fleet=1": "fleet",
		"keys?rule=" + long: "rule", "keys?rule=%ff": "rule", "keys?by=total&by=denied": "by",
		"events?limit=1001": "limit", "events?limit=-1": "limit", "events?outcome=nothing": "outcome", "events?cursor=x": "cursor", "events?cursor=%00": "cursor",
		"events?cursor=" + long: "cursor", "events?domain=%ff": "domain", "events?key=" + long: "key",
		"events/" + long: "event", "live?topics=": "topics", "live?topics=overview,x": "topics", "live?topics=,": "topics", "live?topics=overview&topics=keys": "topics",
		"events/live?outcome=x": "outcome", "events/live?rule=" + long: "rule", "events/live?cursor=1": "cursor", "overview?x=1": "x", "me?x=1": "x",
		"timeline?from=": "from", "timeline?from=yesterday": "from", "timeline?to=2026-13-01T00:00:00Z": "to", "timeline?points=0": "points", "timeline?points=2001": "points",
		"timeline?from=2026-11-28T18:00:01Z&to=2026-11-28T18:00:00Z": "from", "timeline?step=1": "step",
		"fleet/timeline?from=yesterday": "from", "fleet/timeline?points=1001": "points", "fleet/timeline?node=" + long: "node", "keys?node=one&fleet=true": "node", "keys?node=%ff": "node",
	} {
		var p problem
		if s.want(s.do(Write, "GET", path, ""), 400).json(t, &p); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%.40s: %+v", path, p)
		}
	}
}

func TestExplain(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	var e view.Explanation
	s.want(s.do(Read, "POST", "explain", explained), 200).json(t, &e)
	if len(e.Descriptors) != 2 || e.Descriptors[0].Descriptor != "tenant:acme" || e.Descriptors[0].Hits != 2 || e.Descriptors[1].Descriptor != "tenant:b" || e.Descriptors[1].Hits != 1 {
		t.Errorf("%+v", e)
	}
	const one = `"descriptors":[{"descriptor":"a:b"}]`
	for body, want := range map[string]string{
		`{` + one + `}`:                                                                                           "422 domain",
		`{"domain":"",` + one + `}`:                                                                               "422 domain",
		`{"domain":"d","descriptors":[{"hits":1}]}`:                                                               "422 descriptors[0].entries",
		`{"domain":"d"}`:                                                                                          "422 descriptors",
		`{"domain":"d","descriptors":[]}`:                                                                         "422 descriptors",
		`{"domain":"d","descriptors":[{"entries":[],"hits":-1}]}`:                                                 "422 descriptors[0].hits",
		`{"domain":"d","descriptors":[{"entries":[],"hits":1.5}]}`:                                                "422 descriptors[0].hits",
		`{"domain":"d","descriptors":[{"entries":[],"hits":1e30}]}`:                                               "422 descriptors[0].hits",
		`{"domain":"d","descriptors":[{"entries":[],"hits":9007199254740993}]}`:                                   "422 descriptors[0].hits",
		`{"domain":"d","descriptors":[{"descriptor":"nothing"}]}`:                                                 "422 descriptors[0].descriptor",
		`{"domain":"d","descriptors":[{"descriptor":"a:b","entries":[]}]}`:                                        "422 descriptors[0].descriptor",
		`{"domain":"d","descriptors":[{"entries":[{"value":"x"}]}]}`:                                              "422 descriptors[0].entries",
		`{"domain":"d","descriptors":[{"entries":[` + strings.Repeat(`{"key":"k"},`, 32) + `{"key":"k"}]}]}`:      "422 descriptors[0].entries",
		`{"domain":"d","descriptors":[` + strings.Repeat(`{"descriptor":"a:b"},`, 100) + `{"descriptor":"a:b"}]}`: "422 descriptors",
		`{"domain":"d",` + one + `,"attributes":{` + manyFields(33) + `}}`:                                        "422 attributes",
		`{"domain":"d",` + one + `,"attributes":["x"]}`:                                                           "422 attributes",
		`{"domain":"d",` + one + `,"limit":5}`:                                                                    "400 body",
		`{"domain":"` + "\xff" + `",` + one + `}`:                                                                 "400 body",
		`{"domain":"d",` + one + `} x`:                                                                            "400 body",
	} {
		var p problem
		if r := s.do(Read, "POST", "explain", body); r.status/100 != 4 {
			t.Errorf("%.80s: %d", body, r.status)
		} else if r.json(t, &p); len(p.Errors) != 1 || fmt.Sprint(r.status, " ", p.Errors[0].Field) != want {
			t.Errorf("%.80s: %d %+v, want %s", body, r.status, p.Errors, want)
		}
	}
	r := s.want(s.do(Read, "POST", "explain", `{"domain":"away",`+one+`}`), 503)
	if strings.Contains(string(r.body), "database") || !strings.Contains(s.reported(), "explain a request: the store is away") {
		t.Errorf("%s %s", r.body, s.reported())
	}
	for range maxLookups {
		s.handler.lookups <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	busy := &call{request: httptest.NewRequestWithContext(ctx, "POST", "/", http.NoBody), body: []byte(explained)}
	var bad *problem
	if _, err := (node{s.handler.options, s.handler.lookups, nil}).explain(busy); !errors.As(err, &bad) || bad.Status != 503 || !strings.Contains(bad.Detail, "usage or for explanations") {
		t.Errorf("while others look: %v", err)
	}
}

func manyFields(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"a%d":"b"`, i)
	}
	return strings.Join(list, ",")
}

// TestNothingToShow: routes of what a process does not have say so.
func TestNothingToShow(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase, func(o *Options) { o.Watch = nil })
	for _, path := range []string{"overview", "timeline", "fleet/timeline", "keys", "fleet", "hot-raises", "accuracy", "dual-run", "events", "events/" + eventID(1), "live", "live?topics=keys", "events/live"} {
		if r := s.want(s.do(Write, "GET", path, ""), 404); !strings.Contains(string(r.body), "this process does not have") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	s.want(s.do(Write, "POST", "explain", explained), 404)
	s = newTestServerOn(t, nil, withoutDatabase, hiding(func(w *Watch) { w.TopKeys, w.Follow = nil, nil }))
	for path, status := range map[string]int{"live": 200, "live?topics=keys": 404, "live?topics=keys,fleet": 404, "live?topics=fleet": 200, "keys": 404, "events": 200, "events/live": 404} {
		s.want(s.do(Write, "GET", path, ""), status)
	}
}

// TestWithoutDatabase: what needs one says that there is none, and to whom to turn; the
// rest works.
func TestWithoutDatabase(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	for _, way := range routes() {
		e := examples[way.id]
		if way.signed || way.local && way.path != "tiers" {
			continue
		}
		r := s.send(way.method, examplePath(way.path)+e.query, e.body, "Authorization", "Bearer "+s.tokens[Admin], "Content-Type", e.kind(&way))
		if s.want(r, 503); !strings.Contains(string(r.body), "this process has no database of tenants; hint: --tenants URL") || r.header.Get("Retry-After") != "" {
			t.Errorf("%s: %s", way.id, r.body)
		}
	}
	for _, path := range []string{"me", "overview", "rules", "usage/tenant:acme", "candidates", "openapi.json"} {
		s.want(s.do(Read, "GET", path, ""), 200)
	}
	for _, r := range []testReply{s.do(Read, "HEAD", "live", ""), s.do(Read, "HEAD", "events/live", "")} {
		if r.status != 200 || r.header.Get("Content-Type") != streamType {
			t.Errorf("HEAD: %+v", r)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("New without tokens")
	}
}
