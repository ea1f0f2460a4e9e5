package adminapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/topkeys"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// told is one event of a stream, or a comment.
type told struct{ event, id, data, comment string }

// reader reads a stream.
type reader struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Reader
}

// open opens a stream.
func (s *testServer) open(scope Scope, path string) *reader {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+Prefix+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.tokens[scope])
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != streamType || resp.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("%s: %d %v", path, resp.StatusCode, resp.Header)
	}
	r := &reader{s.t, resp.Body, bufio.NewReader(resp.Body)}
	s.t.Cleanup(func() { resp.Body.Close() })
	if first, err := r.next(); err != nil || first != (told{}) {
		s.t.Fatalf("the head: %+v, %v", first, err)
	}
	return r
}

// next returns what comes next; an error at the end of the stream.
func (r *reader) next() (e told, err error) {
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "":
			if e.comment = value; line == "\n" || value != "" {
				if value != "" {
					_, err = r.lines.ReadString('\n')
				}
				return e, err
			}
		case "event":
			e.event = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "retry":
		default:
			r.t.Errorf("a line %q", line)
		}
	}
}

// must is next where there has to be more.
func (r *reader) must() told {
	r.t.Helper()
	e, err := r.next()
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func TestLiveTopics(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	for scope, names := range map[Scope]bool{Read: false, Write: true} {
		r := s.open(scope, "live")
		var o view.Overview
		var k view.BothTopKeys
		var f view.Fleet
		for i, want := range []struct {
			event string
			into  any
		}{{"overview", &o}, {"keys", &k}, {"fleet", &f}} {
			e := r.must()
			if e.event != want.event || e.id != fmt.Sprint(i+1) {
				t.Errorf("%+v", e)
			}
			if err := json.Unmarshal([]byte(e.data), want.into); err != nil {
				t.Errorf("%s: %v", e.data, err)
			}
		}
		if o.Node.Name != "one" || k.Total.Nodes != 2 || k.Denied.By != "denied" || f.Live != 2 || f.Nodes[0].TopTotal[0].Key != "" {
			t.Errorf("%+v %+v %+v", o, k, f)
		}
		if k.Total.Keys[0].Hash != "hash" || (k.Total.Keys[0].Key != "") != names {
			t.Errorf("%s: %+v", scope, k)
		}
	}
	if named[0].Key == "" {
		t.Error("what was shown was changed")
	}
}

func TestLiveEvents(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase)
	log := s.handler.options.Watch.Events.(*eventLog)
	all, one := s.open(Write, "events/live"), s.open(Read, "events/live?key="+hashOf("tenant:7")+"&outcome=over")
	for f := range log.followers {
		f.mu.Lock()
		f.lost = 3
		f.mu.Unlock()
	}
	log.add(anEvent(6))
	log.add(anEvent(7))
	for _, want := range []told{{event: "dropped", data: `{"dropped":3}`}, {event: "decision", id: eventID(6)}, {event: "decision", id: eventID(7)}} {
		got := all.must()
		if want.data == "" {
			if !strings.Contains(got.data, `"key":"tenant:`) || !strings.Contains(got.data, "192.0.2.7") {
				t.Errorf("%+v", got)
			}
			got.data = ""
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	one.must() // dropped
	var e view.Event
	if got := one.must(); got.id != eventID(7) || json.Unmarshal([]byte(got.data), &e) != nil || e.Key != hashOf("tenant:7") || e.ClientIP != "" {
		t.Errorf("%+v", got)
	}
}

// inMemory is a server in a bubble of synctest: its connections are pipes, which hold
// nothing.
type inMemory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *inMemory) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *inMemory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// bubble runs test with a server that has none but the time of a bubble.
func bubble(t *testing.T, test func(t *testing.T, s *testServer), edits ...func(*Options)) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestHandler(t, nil, append([]func(*Options){withoutDatabase, func(o *Options) { o.Now = time.Now }}, edits...)...)
		listener := &inMemory{conns: make(chan net.Conn), done: make(chan struct{})}
		// As a process has them, which streams outlast.
		server := &http.Server{Handler: s.handler, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second}
		go server.Serve(listener)
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			listener.conns <- server
			return client, nil
		}}
		s.url, s.client = "http://memory", &http.Client{Transport: transport}
		test(t, s)
		server.Close()
		transport.CloseIdleConnections()
		synctest.Wait()
	})
}

// until reads a stream until an instant, and reports what came, and whether it has
// ended by itself.
func (r *reader) until(d time.Duration) (list []told, ended bool) {
	timer := time.AfterFunc(d, func() { r.body.Close() })
	for {
		e, err := r.next()
		if err != nil {
			return list, timer.Stop()
		}
		list = append(list, e)
	}
}

func count(list []told, event string) (n int) {
	for _, e := range list {
		if e.event == event && e.comment == "" {
			n++
		}
	}
	return n
}

// Topics come in their rhythm, whatever the timeouts of the server, and are made for all
// who look together.
func TestRhythm(t *testing.T) {
	var made atomic.Int64
	bubble(t, func(t *testing.T, s *testServer) {
		var others sync.WaitGroup
		for i := range 20 {
			others.Go(func() {
				time.Sleep(time.Duration(i) * 40 * time.Millisecond)
				s.open(Read, "live?topics=overview").until(30 * time.Second)
			})
		}
		list, ended := s.open(Read, "live").until(30500 * time.Millisecond)
		others.Wait()
		if ended || count(list, "overview") != 31 || count(list, "keys") != 16 || count(list, "fleet") != 7 {
			t.Errorf("%d, %d and %d events, ended %v", count(list, "overview"), count(list, "keys"), count(list, "fleet"), ended)
		}
		if n := made.Load(); n < 31 || n > 2*31+2 {
			t.Errorf("21 streams of 31 beats asked %d times", n)
		}
	}, hiding(func(w *Watch) {
		overview := w.Overview
		w.Overview = func() view.Overview { made.Add(1); return overview() }
	}))
}

// A stream that has nothing to tell says that it is there.
func TestHeartbeat(t *testing.T) {
	bubble(t, func(t *testing.T, s *testServer) {
		list, ended := s.open(Read, "events/live").until(61 * time.Second)
		if ended || len(list) != 4 || list[0].comment == "" {
			t.Errorf("%+v, ended %v", list, ended)
		}
	})
}

// A stream ends soon after its token does: it is gone, or good for less, or for more.
func TestStreamEndsWithItsToken(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"gone": func(text string) string { return strings.Replace(text, `name: "test-write"`, `name: "renamed"`, 1) },
		"less": func(text string) string { return strings.Replace(text, "scopes: [write]", "scopes: [read]", 1) },
		"more": func(text string) string { return strings.Replace(text, "scopes: [write]", "scopes: [admin]", 1) },
		"expired": func(text string) string {
			return strings.Replace(text, "scopes: [write]", "scopes: [write]\n    expires_at: 2000-01-01T00:01:00Z", 1)
		},
		"unchanged": func(text string) string { return text + "\n" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *testServer) {
				time.AfterFunc(time.Minute, func() {
					text := "tokens:\n" + s.lines
					s.write(edit(text))
					if changed, err := s.handler.options.Tokens.Reload(); !changed || err != nil {
						t.Error(changed, err)
					}
				})
				began := time.Now()
				var others sync.WaitGroup
				for _, path := range []string{"live", "events/live"} {
					others.Go(func() {
						_, ended := s.open(Write, path).until(2 * time.Minute)
						if took := time.Since(began); ended != (name != "unchanged") || ended && (took < time.Minute || took > time.Minute+2*checkEvery) {
							t.Errorf("%s: ended %v after %v", path, ended, took)
						}
					})
				}
				others.Wait()
			})
		})
	}
}

// Streams end when the process begins to end, and none begins then.
func TestStreamsEndWithTheProcess(t *testing.T) {
	var draining chan struct{}
	bubble(t, func(t *testing.T, s *testServer) {
		a, b := s.open(Read, "live"), s.open(Read, "events/live")
		time.AfterFunc(1500*time.Millisecond, func() { close(draining) })
		began := time.Now()
		_, first := a.until(time.Minute)
		_, second := b.until(time.Minute)
		if !first || !second || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("ended %v, %v after %v", first, second, time.Since(began))
		}
		for _, path := range []string{"live", "events/live"} {
			if r := s.want(s.do(Read, "GET", path, ""), 503); r.header.Get("Retry-After") == "" {
				t.Errorf("%s: %v", path, r.header)
			}
		}
	}, func(o *Options) {
		draining = make(chan struct{}) // of the bubble
		o.Draining = draining
	})
}

// There are no more streams than their bound; who goes makes room, and takes his
// follower with him.
func TestStreamsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *testServer) {
		log := s.handler.options.Watch.Events.(*eventLog)
		var open []*reader
		for range maxStreams {
			open = append(open, s.open(Read, "events/live"))
			time.Sleep(20 * time.Millisecond) // not too often
		}
		if r := s.want(s.do(Read, "GET", "live", ""), 503); r.header.Get("Retry-After") == "" || !strings.Contains(string(r.body), "64 streams") {
			t.Errorf("%s", r.body)
		}
		open[7].body.Close()
		synctest.Wait()
		if n := log.following(); n != maxStreams-1 {
			t.Errorf("%d follow", n)
		}
		s.open(Read, "live").body.Close()
		for _, r := range open {
			r.body.Close()
		}
		synctest.Wait()
		if n := log.following(); n != 0 || len(s.handler.streams) != 0 {
			t.Errorf("%d follow, %d streams", n, len(s.handler.streams))
		}
	})
}

// Who does not read is cut off, and holds up nobody meanwhile.
func TestSlowReader(t *testing.T) {
	bubble(t, func(t *testing.T, s *testServer) {
		log := s.handler.options.Watch.Events.(*eventLog)
		s.open(Read, "events/live") // and is read no more
		quick := s.open(Read, "events/live")
		for i := range 100 {
			log.add(anEvent(i))
			if got := quick.must(); got.id != eventID(i) {
				t.Fatalf("%+v", got)
			}
		}
		time.Sleep(writeWait - time.Millisecond)
		synctest.Wait()
		if n := log.following(); n != 2 {
			t.Errorf("%d follow", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := log.following(); n != 1 {
			t.Errorf("%d follow a while later", n)
		}
	})
}

// flood has an event whenever it is asked.
type flood struct{}

func (flood) Next(context.Context) (view.Event, uint64, error) { return anEvent(1), 0, nil }
func (flood) Close()                                           {}

// However many decisions there are, a stream tells of so many a second.
func TestEventRate(t *testing.T) {
	bubble(t, func(t *testing.T, s *testServer) {
		list, _ := s.open(Read, "events/live").until(4500 * time.Millisecond)
		if n := count(list, "decision"); n != 5*maxEventRate {
			t.Errorf("%d events in 4.5 s", n)
		}
	}, hiding(func(w *Watch) {
		w.Follow = func(view.EventFilter) (Follower, error) { return flood{}, nil }
	}))
}

// A follower that cannot be had is a problem, not a stream that ends.
func TestFollowFails(t *testing.T) {
	s := newTestServerOn(t, nil, withoutDatabase, hiding(func(w *Watch) {
		w.Follow = func(view.EventFilter) (Follower, error) { return nil, io.ErrClosedPipe }
	}))
	if s.want(s.do(Read, "GET", "events/live", ""), 503); !strings.Contains(s.reported(), "follow events: "+io.ErrClosedPipe.Error()) {
		t.Error(s.reported())
	}
}

// TestDecisionsAreSeen: what a limiter decides is seen live, remembered, listed among the
// top keys, and named to those alone who may know.
func TestDecisionsAreSeen(t *testing.T) {
	hasher := keyname.Random()
	events := audit.New(audit.Options{Node: "one", Hasher: hasher})
	keys := topkeys.New(topkeys.Options{Hasher: hasher})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { events.Run(ctx) })
	running.Go(func() { keys.Run(ctx) })
	defer running.Wait()
	defer cancel()
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rulefile.Load([]rulefile.File{{Name: "r.yaml", Data: []byte("domain: api\ndescriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]")}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set, Recorder: events, Observer: keys})
	if err != nil {
		t.Fatal(err)
	}
	keys.SetRules(set)
	s := newTestServerOn(t, nil, withoutDatabase, func(o *Options) {
		o.Watch = &Watch{
			TopKeys: func(q KeyQuestion) view.TopKeys {
				return view.TopKeys{By: q.By, Keys: keys.Top(q.By, q.Rule, q.Most), Nodes: 1}
			},
			Events: events,
			Follow: func(f view.EventFilter) (Follower, error) { return events.Follow(f) },
		}
	})
	named, hashed := s.open(Write, "events/live?outcome=denied&key=user:ann"), s.open(Read, "events/live?key="+hasher.Hash("api", "user:ann"))
	request := headgate.Request{Domain: "api", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "ann"}}, Hits: 2}}, Origin: headgate.Origin{ClientIP: netip.MustParseAddr("192.0.2.7")}}
	responses := make([]headgate.Response, 1)
	if err := limiter.Check(t.Context(), []headgate.Request{request}, responses); err != nil || responses[0].Allowed {
		t.Fatal(err, responses[0].Allowed)
	}
	for r, want := range map[*reader][2]string{named: {"user:ann", "192.0.2.7"}, hashed: {hasher.Hash("api", "user:ann"), "192.0.2.0/24"}} {
		var e view.Event
		if got := r.must(); got.event != "decision" || got.id != responses[0].ID.String() || json.Unmarshal([]byte(got.data), &e) != nil || e.Key != want[0] || e.ClientIP != want[1] || e.Allowed {
			t.Errorf("%+v, want %v", got, want)
		}
	}
	text := string(s.want(s.do(Read, "GET", "events/"+responses[0].ID.String(), ""), 200).body)
	if strings.Contains(text, "ann") || strings.Contains(text, "192.0.2.7") {
		t.Error(text)
	}
	s.want(s.do(Read, "GET", "events?cursor=nothing", ""), 400)
	var top view.TopKeys
	s.want(s.do(Write, "GET", "keys?by=denied", ""), 200).json(t, &top)
	if len(top.Keys) != 1 || top.Keys[0].Key != "user:ann" || top.Keys[0].Hash != hasher.Hash("api", "user:ann") {
		t.Errorf("%+v", top)
	}
	top = view.TopKeys{}
	s.want(s.do(Read, "GET", "keys?by=denied", ""), 200).json(t, &top)
	if len(top.Keys) != 1 || top.Keys[0].Key != "" {
		t.Errorf("%+v", top)
	}
}
