package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/inquiry"
	"github.com/headgate/headgate/internal/nodes"
	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/timeline"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

// asked is a node that others can ask.
type asked struct {
	name string
	// perSecond is how many requests it has allowed in each of the last hundred seconds.
	perSecond float64
	// secret seals its events, "" seals none; it has denied so many requests.
	secret string
	denied int
	// silent says that it answers nobody, and gone that it has ended.
	silent, gone bool
	// live is how many nodes it believes there are; 0: as many as tell of themselves.
	live int
}

// askedNodes runs nodes of one Redis, which all tell the first of themselves.
func askedNodes(t *testing.T, now time.Time, list ...asked) []*watching {
	t.Helper()
	shared, err := redisstore.New(redisstore.Options{Addr: testserver.Redis(t, testserver.RedisConfig{}).Addr, Budget: eventually.Patience})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	ctx, quit := context.WithCancel(t.Context())
	t.Cleanup(func() {
		quit()
		done.Wait()
		shared.Close()
	})
	all := make([]*watching, len(list))
	var ends []func()
	for i, n := range list {
		w := &watching{node: view.Identity{Name: n.name}, timeline: timelineOf(now, n.perSecond), events: deniedEvents(t, n.name, n.denied)}
		all[i] = w
		var seal *inquiry.Seal
		if n.secret != "" {
			if seal, err = inquiry.NewSeal([]byte(n.secret)); err != nil {
				t.Fatal(err)
			}
		}
		live := n.live
		if live == 0 {
			live = len(list)
		}
		w.nodes = nodes.NewStates(nodes.Options{
			Board: shared, Live: func() int { return live }, ID: fmt.Sprint("id-", i), Logger: quiet(),
			Self: func() view.Node { return view.Node{Identity: w.node, At: time.Now()} },
		})
		w.inquiry = inquiry.New(inquiry.Options{Boards: shared, Node: n.name, ID: fmt.Sprint("id-", i), Seal: seal, Answer: w.answer, OnError: func(error) {}})
		running, end := context.WithCancel(ctx)
		t.Cleanup(end)
		done.Go(func() { w.nodes.Run(running) })
		if !n.silent {
			done.Go(func() { w.inquiry.Run(running) })
		}
		if n.gone {
			ends = append(ends, end)
		}
	}
	knows := func(there, gone int) func() bool {
		return func() bool {
			f := all[0].nodes.Fleet(time.Now())
			return len(f.Nodes) == there && len(f.Gone) == gone
		}
	}
	eventually.True(t, "all tell of themselves", knows(len(list), 0))
	for _, end := range ends {
		end()
	}
	eventually.True(t, "those that end are gone", knows(len(list)-len(ends), len(ends)))
	return all
}

// timelineOf is one of a hundred seconds up to now.
func timelineOf(now time.Time, perSecond float64) *timeline.Timeline {
	line := timeline.New(now.Add(-100 * time.Second))
	for i := range 100 {
		line.Tell(now.Add(time.Duration(i-99)*time.Second), view.Requests{Allowed: float64(i+1) * perSecond}, view.Latency{P50: 0.001, P99: 0.01})
	}
	return line
}

// deniedEvents remembers so many denials, each of a key of its own.
func deniedEvents(t *testing.T, node string, denied int) *audit.Recorder {
	t.Helper()
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	events := audit.New(audit.Options{Node: node})
	limiter, err := headgate.New(headgate.Options{
		Store: buckets, Recorder: events,
		Rules: testrules.Load(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range denied {
		request := of("user")
		request[0].Descriptors[0].Entries[0].Value, request[0].Descriptors[0].Hits = fmt.Sprintf("%s-%d", node, i), 2
		var responses [1]headgate.Response
		if limiter.Check(t.Context(), request, responses[:]); responses[0].Allowed {
			t.Fatal("two hits of one pass")
		}
	}
	return events
}

// summed is the sum once nobody but those that never answer is late on a busy machine.
func summed(t *testing.T, w *watching, q adminapi.FleetQuestion, answered int) (sum view.FleetTimeline) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d nodes have answered", answered), func() bool {
		sum = w.fleetTimeline(t.Context(), q)
		n := 0
		for i := range sum.Nodes {
			if sum.Nodes[i].Answered {
				n++
			}
		}
		return n == answered
	})
	return sum
}

// The sum is of all nodes that answer, also where two have one name, or of the ones of a name.
func TestFleetTimelineIsOfAllNodes(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	all := askedNodes(t, now, asked{name: "a", perSecond: 1}, asked{name: "b", perSecond: 10}, asked{name: "b", perSecond: 100})
	for _, test := range []struct {
		node  string
		nodes int
		rate  float64
	}{{"", 3, 111}, {"a", 1, 1}, {"b", 2, 110}} {
		sum := summed(t, all[0], adminapi.FleetQuestion{From: now.Add(-time.Minute), To: now, Most: 10, Node: test.node}, test.nodes)
		if sum.Error != "" || len(sum.Nodes) != test.nodes || sum.Step != 15 || len(sum.Points) == 0 || len(sum.Points) > 10 {
			t.Errorf("of %q: %+v", test.node, sum)
		}
		for _, p := range sum.Points {
			if p.Rates.Allowed != test.rate || p.Nodes != test.nodes || !p.Whole {
				t.Errorf("of %q: %+v, want %v per second of %d nodes", test.node, p, test.rate, test.nodes)
			}
		}
	}
	sum := all[0].fleetTimeline(t.Context(), adminapi.FleetQuestion{From: now.Add(-time.Minute), To: now, Most: 10, Node: "nobody"})
	if len(sum.Points) != 0 || len(sum.Nodes) != 1 || sum.Nodes[0].Name != "nobody" || sum.Nodes[0].Answered {
		t.Errorf("of nobody: %+v", sum)
	}
	all[0].timeline = nil // it decides nothing
	sum = summed(t, all[0], adminapi.FleetQuestion{From: now.Add(-time.Minute), To: now, Most: 10}, 2)
	if len(sum.Nodes) != 2 || len(sum.Points) == 0 || sum.Points[0].Rates.Allowed != 110 {
		t.Errorf("asked by a node that decides nothing: %+v", sum)
	}
}

// A sum that is not of all nodes says so, and no step of it passes for whole.
func TestFleetTimelineSaysWhoIsMissing(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	all := askedNodes(t, now, asked{name: "a", perSecond: 1, live: 7}, asked{name: "b", perSecond: 10})
	q := adminapi.FleetQuestion{From: now.Add(-time.Minute), To: now, Most: 10}
	sum := summed(t, all[0], q, 2)
	if !strings.Contains(sum.Error, "2 of 7 live nodes tell of themselves") || len(sum.Points) == 0 {
		t.Errorf("%+v", sum)
	}
	for _, p := range sum.Points {
		if p.Whole || p.Rates.Allowed != 11 {
			t.Errorf("%+v", p)
		}
	}
	// What one node has answered is whole, however many there are.
	q.Node = "b"
	if sum = summed(t, all[0], q, 1); sum.Error != "" || len(sum.Points) == 0 || !sum.Points[0].Whole {
		t.Errorf("of b alone: %+v", sum)
	}
}

// A node that was there is missing in the sum of the time before it went.
func TestFleetTimelineSaysWhoIsGone(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	all := askedNodes(t, now, asked{name: "a", perSecond: 1}, asked{name: "b", perSecond: 10, gone: true})
	sum := summed(t, all[0], adminapi.FleetQuestion{From: now.Add(-time.Minute), To: now, Most: 10}, 1)
	if len(sum.Points) == 0 || sum.Points[0].Whole || sum.Points[0].Rates.Allowed != 1 || len(sum.Nodes) != 2 {
		t.Fatalf("%+v", sum)
	}
	if n := sum.Nodes[1]; n.Name != "b" || n.GoneAt.IsZero() || n.Answered {
		t.Errorf("%+v", n)
	}
}

// An answer that is none of this version is told of, and the others count.
func TestFleetTimelineOfAnotherVersion(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	all := askedNodes(t, now, asked{name: "a", perSecond: 1}, asked{name: "b", perSecond: 10, silent: true}, asked{name: "c", perSecond: 100})
	var mu sync.Mutex
	var heard []string
	other := inquiry.New(inquiry.Options{
		Boards: all[1].inquiry.Boards, Node: "b", ID: "another", OnError: func(error) {},
		Answer: func(q inquiry.Question) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, q.Node)
			return []byte("headgate timeline answer 2\n"), nil
		},
	})
	ctx, quit := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { other.Run(ctx) })
	defer done.Wait()
	defer quit()
	q := adminapi.FleetQuestion{From: now.Add(-time.Minute), To: now, Most: 10}
	eventually.True(t, "the others are added up", func() bool {
		sum := all[0].fleetTimeline(t.Context(), q)
		return strings.Contains(sum.Error, `node "b": unpack a timeline`) && len(sum.Points) > 0 && sum.Points[0].Rates.Allowed == 101 && !sum.Points[0].Whole
	})
	q.Node = "b"
	eventually.True(t, "b alone is asked", func() bool {
		return strings.Contains(all[0].fleetTimeline(t.Context(), q).Error, `node "b": unpack a timeline`)
	})
	mu.Lock()
	defer mu.Unlock()
	if heard[0] != "" || heard[len(heard)-1] != "b" {
		t.Errorf("asked of %q, want all nodes and then b", heard)
	}
}

// Of a fleet with a secret the sum has only what who shares it has sealed: who can write to the store adds
// nothing to it. The others are named, and answered by those that share one.
func TestFleetTimelineIsSealed(t *testing.T) {
	now := time.Now().Truncate(time.Minute)
	all := askedNodes(t, now, asked{name: "a", perSecond: 1, secret: "ours"}, asked{name: "b", perSecond: 10, secret: "ours"},
		asked{name: "c", perSecond: 100, secret: "theirs"}, asked{name: "d", perSecond: 1000})
	q := adminapi.FleetQuestion{From: now.Add(-time.Minute), To: now, Most: 10}
	for asks, want := range []struct {
		answered int
		rate     float64
		unread   bool
	}{{2, 11, true}, {2, 11, true}, {1, 100, true}, {4, 1111, false}} {
		sum := summed(t, all[asks], q, want.answered)
		if asks == 0 && !strings.HasPrefix(sum.Error, `node "c", node "d": `) {
			t.Errorf("%q does not name who is missing", sum.Error)
		}
		if told := strings.Contains(sum.Error, inquiry.ErrUnread.Error()); told != want.unread || len(sum.Points) == 0 {
			t.Errorf("asked by %s: %+v", all[asks].node.Name, sum)
		}
		for _, p := range sum.Points {
			if p.Rates.Allowed != want.rate || p.Whole == want.unread {
				t.Errorf("asked by %s: %+v, want %v per second", all[asks].node.Name, p, want.rate)
			}
		}
	}
}

func TestListed(t *testing.T) {
	for want, names := range map[string][]string{
		`node "a"`: {"a"}, `node "a", node "b"`: {"b", "a"}, `node "a", node "b", node "c"`: {"c", "b", "a"}, `node "a", node "b", node "c" and 1 more`: {"d", "c", "b", "a"},
	} {
		if got := listed(names); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// eventsSince asks for all events since an instant.
func eventsSince(at time.Time) adminapi.EventsQuestion {
	return adminapi.EventsQuestion{Filter: view.EventFilter{Since: at.UnixMilli()}}
}

// Events are told to nodes of one secret; of the others it is said that they are not known.
func TestEventsOfOtherNodes(t *testing.T) {
	all := askedNodes(t, time.Now(), asked{name: "a", secret: "ours"}, asked{name: "b", secret: "ours", denied: 2}, asked{name: "b", secret: "ours", denied: 1},
		asked{name: "c", secret: "theirs", denied: 1}, asked{name: "d", denied: 1})
	var told []rulereview.NodeEvents
	ask := func(since time.Time) {
		eventually.True(t, "those of one secret have answered", func() bool {
			told = all[0].otherEvents(t.Context(), eventsSince(since))
			return len(told) == 4 && told[0].Unknown == "" && told[1].Unknown == ""
		})
	}
	ask(time.Now().Add(-time.Hour))
	if told[0].Node != "b" || told[1].Node != "b" || told[2].Node != "c" || told[3].Node != "d" {
		t.Fatalf("%+v", told)
	}
	counts := []int{len(told[0].Events), len(told[1].Events)}
	if slices.Sort(counts); !slices.Equal(counts, []int{1, 2}) || told[0].Events[0].KeyHashed || !strings.Contains(told[0].Events[0].Key, "b-") {
		t.Errorf("of b: %+v", told[:2])
	}
	for _, n := range told[2:] {
		if n.Unknown == "" || len(n.Events) != 0 {
			t.Errorf("%+v", n)
		}
	}
	ask(time.Now().Add(time.Hour))
	if len(told[0].Events)+len(told[1].Events) != 0 {
		t.Errorf("of an hour to come: %+v", told[:2])
	}
	all[0].inquiry = inquiry.New(inquiry.Options{Boards: all[0].inquiry.Boards, Node: "a", ID: "id-0", Answer: all[0].answer, OnError: func(error) {}})
	for _, n := range all[0].otherEvents(t.Context(), eventsSince(time.Now().Add(-time.Hour))) {
		if !strings.Contains(n.Unknown, "only with one --audit-hash-key on all of them") || len(n.Events) != 0 {
			t.Errorf("without a secret: %+v", n)
		}
	}
}

// A node that does not answer is named; of the others each is asked for its part of the events that
// a review has room for.
func TestEventsThatNobodyAnswersAbout(t *testing.T) {
	all := askedNodes(t, time.Now(), asked{name: "a", secret: "ours"}, asked{name: "b", secret: "ours", silent: true})
	var mu sync.Mutex
	var heard []inquiry.Question
	other := inquiry.New(inquiry.Options{
		Boards: all[1].inquiry.Boards, Node: "b", ID: "id-1", Seal: all[0].inquiry.Seal, OnError: func(error) {},
		Answer: func(q inquiry.Question) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, q)
			return nil, fmt.Errorf("not today")
		},
	})
	ctx, quit := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { other.Run(ctx) })
	defer done.Wait()
	defer quit()
	since := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	eventually.True(t, "b is asked", func() bool {
		told := all[0].otherEvents(t.Context(), eventsSince(since))
		if len(told) != 1 || told[0].Unknown != "it has not answered" {
			t.Fatalf("%+v", told)
		}
		mu.Lock()
		defer mu.Unlock()
		return len(heard) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	var body eventsBody
	if err := json.Unmarshal(heard[0].Body, &body); err != nil || !body.Since.Equal(since) || body.Most != rulereview.MaxEvents/2 || heard[0].Parts != inquiry.PartsFor(1) {
		t.Errorf("%+v, %+v: %v", heard[0], body, err)
	}
}

// What no node of this version asks is refused, and what it asks is not.
func TestQuestionsThatAreRefused(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	w := &watching{timeline: timelineOf(now, 1), events: deniedEvents(t, "a", 3)}
	from, to := now.Add(-time.Minute).Format(time.RFC3339), now.Format(time.RFC3339)
	for _, test := range []struct {
		kind, body string
		fine       bool
	}{
		{timelineQuestion, fmt.Sprintf(`{"from":%q,"to":%q,"most":1}`, from, to), true},
		{timelineQuestion, fmt.Sprintf(`{"from":%q,"to":%q,"most":%d}`, from, from, timeline.MaxSummed), true},
		{timelineQuestion, fmt.Sprintf(`{"from":%q,"to":%q,"most":0}`, from, to), false},
		{timelineQuestion, fmt.Sprintf(`{"from":%q,"to":%q,"most":%d}`, from, to, timeline.MaxSummed+1), false},
		{timelineQuestion, fmt.Sprintf(`{"from":%q,"to":%q,"most":1}`, to, from), false},
		{timelineQuestion, `{"from":"yesterday","most":1}`, false},
		{eventsQuestion, fmt.Sprintf(`{"since":%q,"most":1}`, from), true},
		{eventsQuestion, fmt.Sprintf(`{"since":%q,"most":%d}`, from, rulereview.MaxEvents), true},
		{eventsQuestion, fmt.Sprintf(`{"since":%q,"most":0}`, from), false},
		{eventsQuestion, fmt.Sprintf(`{"since":%q,"most":%d}`, from, rulereview.MaxEvents+1), false},
		{eventsQuestion, `[]`, false},
		{"secrets", `{}`, false},
	} {
		q := inquiry.Question{Kind: test.kind, Body: json.RawMessage(test.body), Sealed: test.kind == eventsQuestion}
		if _, err := w.answer(q); (err == nil) != test.fine {
			t.Errorf("%s %s: %v", test.kind, test.body, err)
		}
		if q.Sealed = false; test.kind == eventsQuestion {
			if _, err := w.answer(q); err == nil {
				t.Errorf("%s %s: events are told to who has no secret", test.kind, test.body)
			}
		}
	}
}

// Events have no more room than there is: the latest are told.
func TestEventsAreBounded(t *testing.T) {
	w := &watching{events: deniedEvents(t, "a", 50)}
	body := eventsBody{Since: time.Now().Add(-time.Hour), Most: 40}
	whole := 0 // bytes
	for _, test := range []struct {
		room        func() int
		least, most int
	}{{func() int { return 1 << 20 }, 40, 40}, {func() int { return whole }, 40, 40}, {func() int { return whole - 1 }, 1, 39}, {func() int { return 1000 }, 1, 39}} {
		data, err := w.answerEvents(body, test.room())
		if err != nil || len(data) > test.room() {
			t.Fatalf("%d bytes in a room of %d: %v", len(data), test.room(), err)
		}
		told := readEvents(&inquiry.Answer{Node: "a", Body: data})
		if n := len(told.Events); !told.Cut || told.Unknown != "" || n < test.least || n > test.most || !strings.Contains(told.Events[0].Key, "a-49") {
			t.Errorf("in a room of %d: %d events, cut %t, %s", test.room(), n, told.Cut, told.Unknown)
		}
		whole = max(whole, len(data))
	}
	if told := readEvents(&inquiry.Answer{Node: "a", Body: []byte("no events")}); told.Unknown == "" || told.Events != nil {
		t.Errorf("what are no events: %+v", told)
	}
}

// Nodes ask each other where they have one Redis, and answer where they decide. The secret is what a
// file has, whether or not its last line ends.
func TestWhoAsksOtherNodes(t *testing.T) {
	const secret = "a secret of all nodes, of 32 bytes or more"
	redis := testserver.Redis(t, testserver.RedisConfig{})
	watch := func(url, key string, decides bool) (*watching, error) {
		s := shared()
		s.Store = config.NewStoreURL(url)
		s.AuditHashKey = filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(s.AuditHashKey, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		if key == "" {
			s.AuditHashKey += ".absent"
		}
		w := &watching{process: &process{settings: &s, does: config.Does{Decide: decides}, stack: openTestStack(t, s), logger: quiet()}}
		return w, w.watchInquiries()
	}
	var seals []*inquiry.Seal
	for _, key := range []string{secret, secret + "\n", secret + "\r\n"} {
		w, err := watch(redis.URL(), key, true)
		if err != nil || w.inquiry == nil || len(w.process.tasks) != 1 {
			t.Fatalf("%+v: %v", w, err)
		}
		seals = append(seals, w.inquiry.Seal)
		if text, err := seals[0].Open(w.inquiry.Seal.Close([]byte("text"), "p"), "p"); string(text) != "text" || err != nil {
			t.Errorf("with the file %q: %q, %v", key, text, err)
		}
	}
	if w, err := watch(redis.URL(), secret, false); err != nil || w.inquiry == nil || len(w.process.tasks) != 0 {
		t.Errorf("a process that decides nothing: %+v, %v", w, err)
	}
	if w, err := watch("memory://", secret, true); err != nil || w.inquiry != nil || len(w.process.tasks) != 0 {
		t.Errorf("without a Redis: %+v, %v", w, err)
	}
	if _, err := watch(redis.URL(), "", true); err == nil || !strings.HasPrefix(err.Error(), "--audit-hash-key: ") {
		t.Errorf("without the file: %v", err)
	}
}
