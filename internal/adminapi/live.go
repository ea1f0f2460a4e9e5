package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
)

// live shows what changes as it does, in streams.
type live struct {
	*Options
	streams turns
	// authenticate is asked again while a stream lasts.
	authenticate func(r *http.Request, now time.Time) (*grant, *problem)
	glances      [len(topics)][2]glance
}

func (l *live) routes() []route {
	const about = "The stream ends when the token does, and when the process begins to end. "
	return []route{
		{
			method: http.MethodGet, path: "live", scope: Read, local: true, serve: l.watch, id: "watchNode", summary: "Watch how this node is",
			about: "Server-sent events overview (each second), keys (each 2 s) and fleet (each 5 s); the data is JSON on one line: Overview, BothTopKeys and Fleet. " + about + namesAbout,
			query: []parameter{
				{"topics", "Some of overview, keys and fleet, separated by commas; left out, all.", schema{"type": "string"}},
			},
			answers: []reply{text(streamType, "A stream."), notHere},
		},
		{
			method: http.MethodGet, path: "events/live", scope: Read, local: true, serve: l.events, id: "watchEvents", summary: "Watch events of decisions of this node",
			about:   "Server-sent events decision, whose data is an Event, and dropped, whose data says of how many decisions there would have been one had they been read sooner. " + about + namesAbout,
			query:   filterParameters,
			answers: []reply{text(streamType, "A stream."), notHere},
		},
	}
}

const (
	// maxStreams bounds the streams under way.
	maxStreams = 64
	// beat is how often a stream of topics shows the first of them.
	beat = time.Second
	// checkEvery is how often a stream looks whether its token is still good, and
	// heartbeatEvery how long it is silent at most.
	checkEvery, heartbeatEvery = 5 * time.Second, 15 * time.Second
	// writeWait is how long a reader may take for what is sent at once; he who takes
	// longer is cut off. It is short enough for a process that ends to wait for it.
	writeWait = 5 * time.Second
	// maxEventRate bounds the events of a stream in a second; those beyond wait in its
	// Follower, and are dropped there, and counted.
	maxEventRate = 1000
	// reconnect is how long clients are told to wait before they open a stream again.
	reconnect = 2 * time.Second
)

// topic is one thing that a stream of topics shows.
type topic struct {
	name  string
	every int // beats
	// shows reports whether the process has it; now returns it.
	shows func(w *Watch) bool
	now   func(w *Watch, names bool) any
}

// topics are all that a stream can show.
var topics = [...]topic{
	{"overview", 1, func(w *Watch) bool { return w.Overview != nil }, func(w *Watch, _ bool) any { return w.Overview() }},
	{"keys", 2, func(w *Watch) bool { return w.TopKeys != nil }, func(w *Watch, names bool) any {
		of := func(by string) view.TopKeys {
			return unnamedKeys(w.TopKeys(KeyQuestion{By: by, Most: defaultKeys, Fleet: true}), names)
		}
		return view.BothTopKeys{Total: of(view.ByTotal), Denied: of(view.ByDenied)}
	}},
	{"fleet", 5, func(w *Watch) bool { return w.Fleet != nil }, func(w *Watch, _ bool) any { return unnamedFleet(w.Fleet()) }},
}

// glance is a topic as it was last shown. However many look, it is made twice in a
// beat at most.
type glance struct {
	mu   sync.Mutex
	at   time.Time
	text []byte
}

// glanceAt returns topics[i] as JSON, as it is at now or was half a beat before.
func (l *live) glanceAt(now time.Time, i int, names bool) ([]byte, error) {
	g := &l.glances[i][0]
	if names {
		g = &l.glances[i][1]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.text != nil && now.Sub(g.at) < beat/2 {
		return g.text, nil
	}
	text, err := json.Marshal(topics[i].now(l.Watch, names))
	if err == nil {
		g.at, g.text = now, text
	}
	return text, err
}

// watch answers with a stream of topics.
func (l *live) watch(c *call) (*answer, error) {
	list, bad := l.asked(c)
	if bad != nil {
		return nil, bad
	}
	return l.streaming(c, func(s *stream) error {
		if s.open() {
			s.showTopics(list)
		}
		return nil
	}), nil
}

// asked reads which topics are asked for, as indexes of topics.
func (l *live) asked(c *call) (list []int, bad *problem) {
	query := c.request.URL.Query()
	var names []string
	if query.Has("topics") {
		names = strings.Split(query.Get("topics"), ",")
	}
	for i := range topics {
		asked := slices.Contains(names, topics[i].name)
		switch shows := topics[i].shows(l.Watch); {
		case asked && !shows:
			return nil, errNotShown
		case asked || names == nil && shows:
			list = append(list, i)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(topics[:], func(t topic) bool { return t.name == name }) {
			return nil, badField(http.StatusBadRequest, "topics", "no such topic; hint: overview, keys and fleet, separated by commas")
		}
	}
	if list == nil {
		return nil, errNotShown
	}
	return list, nil
}

// events answers with a stream of events.
func (l *live) events(c *call) (*answer, error) {
	f := c.eventFilter()
	if c.bad != nil {
		return nil, c.bad
	}
	w := l.Watch
	if w.Events == nil || w.Follow == nil {
		return nil, errNotShown
	}
	return l.streaming(c, func(s *stream) error {
		follower, err := w.Follow(f)
		if err != nil {
			l.OnError(fmt.Errorf("follow events: %w", err))
			return later(retryAfter, "events cannot be followed now; the log of this process says why")
		}
		defer follower.Close()
		if s.open() {
			s.showEvents(&f, follower)
		}
		return nil
	}), nil
}

// stream is an answer of server-sent events that is under way.
type stream struct {
	*live
	*call
	w       http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context // ends with the request, and with the process
	sent    uint64          // how much has been shown
	checked time.Time       // when the token was found good last
	spoke   time.Time       // when anything was sent last
	buffer  []byte
}

// streaming is the answer that run writes. An error of run is answered while nothing
// is open.
func (l *live) streaming(c *call, run func(*stream) error) *answer {
	return &answer{stream: func(w http.ResponseWriter) error {
		select {
		case <-l.Draining:
			return later(retryAfter, "this process is about to end")
		default:
		}
		select {
		case l.streams <- struct{}{}:
			defer func() { <-l.streams }()
		default:
			return later(retryAfter, "%d streams are watched already", maxStreams)
		}
		ctx, cancel := context.WithCancel(c.request.Context())
		defer cancel()
		go func() {
			select {
			case <-l.Draining:
				cancel()
			case <-ctx.Done():
			}
		}()
		return run(&stream{live: l, call: c, w: w, control: http.NewResponseController(w), ctx: ctx, checked: time.Now()})
	}}
}

// open sends the head. It reports false where there is nothing more to send.
func (s *stream) open() bool {
	// Else the server would take a request that lasts for one that is not read.
	_ = s.control.SetReadDeadline(time.Time{})
	s.w.Header().Set("Content-Type", streamType)
	s.w.Header().Set("X-Accel-Buffering", "no") // a proxy that collects shows nothing live
	if s.request.Method == http.MethodHead {
		return false
	}
	return s.write(fmt.Appendf(nil, "retry: %d\n\n", reconnect.Milliseconds()))
}

// showTopics shows topics until the stream ends.
func (s *stream) showTopics(list []int) {
	n := -1 // of this round
	for range sleep.AtOnce(s.ctx, beat) {
		if n++; n > 0 && !s.goesOn() {
			return
		}
		for _, i := range list {
			if n%topics[i].every != 0 {
				continue
			}
			text, err := s.glanceAt(time.Now(), i, s.who.names())
			if err != nil {
				s.OnError(fmt.Errorf("show %s: %w", topics[i].name, err))
				return
			}
			s.sent++
			if !s.send(topics[i].name, strconv.FormatUint(s.sent, 10), text) {
				return
			}
		}
	}
}

// showEvents shows the events of a follower, which f has chosen, until the stream ends.
func (s *stream) showEvents(f *view.EventFilter, follower Follower) {
	pace := pace{began: time.Now()}
	for s.goesOn() && pace.wait(s.ctx, time.Now()) {
		ctx, cancel := context.WithTimeout(s.ctx, checkEvery)
		e, dropped, err := follower.Next(ctx)
		waited := ctx.Err() != nil
		cancel()
		if dropped > 0 && !s.send("dropped", "", fmt.Appendf(nil, `{"dropped":%d}`, dropped)) {
			return
		}
		switch {
		case err != nil && !waited:
			return
		case err == nil && !s.showEvent(f, e):
			return
		}
	}
}

// showEvent shows e, if who asks may see that it is there. It reports false when the
// stream has ended.
func (s *stream) showEvent(f *view.EventFilter, e view.Event) bool {
	e, ok := s.call.shown(s.Watch.Events, f, e)
	if !ok {
		return true
	}
	text, err := json.Marshal(e)
	if err != nil {
		s.OnError(fmt.Errorf("show an event: %w", err))
		return false
	}
	return s.send("decision", e.EventID, text)
}

// goesOn reports whether the stream goes on: nobody has ended it, and from time to time,
// whether its token is still good for the same. It sends a heartbeat where nothing else
// was sent for long.
func (s *stream) goesOn() bool {
	if s.ctx.Err() != nil {
		return false
	}
	now := time.Now()
	if now.Sub(s.checked) >= checkEvery {
		s.checked = now
		if who, bad := s.authenticate(s.request, s.Now()); bad != nil || who.actor != s.who.actor || who.scope != s.who.scope {
			return false
		}
	}
	return now.Sub(s.spoke) < heartbeatEvery || s.write([]byte(": still here\n\n"))
}

// send sends an event. It reports false when the stream has ended.
func (s *stream) send(event, id string, data []byte) bool {
	s.buffer = s.buffer[:0]
	if id != "" {
		s.buffer = fmt.Appendf(s.buffer, "id: %s\n", id)
	}
	s.buffer = fmt.Appendf(s.buffer, "event: %s\ndata: %s\n\n", event, data)
	return s.write(s.buffer)
}

func (s *stream) write(text []byte) bool {
	s.spoke = time.Now()
	_ = s.control.SetWriteDeadline(s.spoke.Add(writeWait)) // where there is none, there is none to move
	_, err := s.w.Write(text)
	return err == nil && s.control.Flush() == nil
}

// pace keeps a stream of events to maxEventRate.
type pace struct {
	began time.Time // of the second that is counted
	sent  int
}

// wait waits until another event may be sent. It reports false when ctx has ended.
func (p *pace) wait(ctx context.Context, now time.Time) bool {
	p.sent++
	rest := time.Second - now.Sub(p.began)
	if rest > 0 && p.sent <= maxEventRate {
		return true
	}
	if rest > 0 {
		if sleep.For(ctx, rest) != nil {
			return false
		}
		now = now.Add(rest)
	}
	p.began, p.sent = now, 1
	return true
}
