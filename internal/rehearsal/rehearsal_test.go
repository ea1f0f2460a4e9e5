package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a Scene that notes what is done with it.
type stage struct {
	mu    sync.Mutex
	fault string // "" for none
	begun int
	none  error // of Begin
}

func (s *stage) Check(*drill.Order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.none
}

func (s *stage) Begin(o *drill.Order) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.none != nil {
		return 0, s.none
	}
	s.fault, s.begun = o.ID, s.begun+1
	return 3, nil
}

func (s *stage) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = ""
}

func (s *stage) Away() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]bool{"store": s.fault != ""}
}

func (s *stage) has() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// flaky is a Line that can be away.
type flaky struct {
	*Alone
	mu   sync.Mutex
	gone bool
}

func (f *flaky) away(gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = gone
}

func (f *flaky) ReadRegister(ctx context.Context, name string, known int64) (int64, []byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return 0, nil, errors.New("the store is away")
	}
	return f.Alone.ReadRegister(ctx, name, known)
}

// fleet is nodes that hear of each other by one Line, each by a way of its own.
type fleet struct {
	t     *testing.T
	line  *Alone
	nodes []*rider
	quit  context.CancelFunc
	done  sync.WaitGroup
}

type rider struct {
	*Rider
	stage stage
	own   *flaky
	log   bytes.Buffer
}

func newFleet(t *testing.T, n int) *fleet {
	f := &fleet{t: t, line: new(Alone)}
	ctx, quit := context.WithCancel(t.Context())
	f.quit = quit
	for i := range n {
		r := &rider{own: &flaky{Alone: f.line}}
		name := string(rune('a' + i))
		r.Rider = New(Options{
			Node: name, ID: name, Line: f.line, Scene: &r.stage, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
			Open: func(context.Context) (Line, func(), error) { return r.own, func() {}, nil },
		})
		f.nodes = append(f.nodes, r)
		f.done.Go(func() { r.Run(ctx) })
	}
	return f
}

// after lets so much time pass in the bubble of the test.
func (f *fleet) after(d time.Duration) {
	f.t.Helper()
	if err := sleep.For(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
}

func (f *fleet) end() {
	f.quit()
	f.done.Wait()
}

func (f *fleet) begin() {
	f.t.Helper()
	o := &drill.Order{ID: "1", Fault: drill.StoreDown, LastsMS: 60_000, AbortAbove: 0.01, Actor: "ann", BeganAt: time.Now()}
	if err := f.nodes[0].Begin(f.t.Context(), o); err != nil {
		f.t.Fatal(err)
	}
}

// write puts an order that nobody has begun into the store.
func (f *fleet) write(text string) {
	f.t.Helper()
	if _, err := f.line.ReplaceRegister(f.t.Context(), register, 0, 7, []byte(text)); err != nil {
		f.t.Fatal(err)
	}
}

// faults are those that nodes have.
func (f *fleet) faults() string {
	var all []string
	for _, n := range f.nodes {
		all = append(all, n.stage.has())
	}
	return strings.Join(all, ",")
}

func (f *fleet) show() drill.Whole {
	f.t.Helper()
	w, err := f.nodes[0].Show(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

func TestN6DrillBeginsEverywhereAndExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3)
		defer f.end()
		f.begin()
		if err := f.nodes[1].Begin(t.Context(), f.show().Order); !errors.Is(err, drill.ErrUnderWay) {
			t.Errorf("a second one: %v", err)
		}
		f.after(3 * time.Second)
		if got := f.faults(); got != "1,1,1" {
			t.Fatalf("faults are %s", got)
		}
		if o, here, left := f.nodes[2].Now(); o == nil || !here || left > 57*time.Second || left < 50*time.Second {
			t.Errorf("%v, here %t, %v left", o, here, left)
		}
		f.after(58 * time.Second)
		if got := f.faults(); got != ",," {
			t.Errorf("after its time faults are %s", got)
		}
		f.after(time.Second)
		w := f.show()
		if w.UnderWay || w.Order.Ended == nil || w.Order.Ended.Why != drill.Expired || len(w.Nodes) != 3 {
			t.Fatalf("%+v", w)
		}
		for _, n := range w.Nodes {
			if n.State != drill.Done || n.Why != drill.Expired || n.Closed != 3 || len(n.Away) != 1 || n.Away[0].ForMS < 55_000 {
				t.Errorf("%+v", n)
			}
		}
		f.after(time.Minute)
		if got := f.nodes[0].stage.begun; got != 1 {
			t.Errorf("it has begun %d times", got)
		}
		if o, _, _ := f.nodes[0].Now(); o != nil {
			t.Errorf("it still lasts: %+v", o)
		}
	})
}

// A node that hears nothing of anybody any more ends its drill when its time is over.
func TestN6DrillEndsWithoutContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		defer f.end()
		f.begin()
		f.after(3 * time.Second)
		f.nodes[1].own.away(true)
		if stopped, err := f.nodes[0].Stop(t.Context(), "ben"); err != nil || !stopped {
			t.Fatal(stopped, err)
		}
		f.after(3 * time.Second)
		if got := f.faults(); got != ",1" {
			t.Errorf("after it was stopped faults are %s", got)
		}
		f.after(52 * time.Second)
		if got := f.faults(); got != ",1" {
			t.Errorf("before its time faults are %s", got)
		}
		f.after(4 * time.Second)
		if got := f.faults(); got != "," {
			t.Errorf("after its time faults are %s", got)
		}
		if w := f.show(); w.Order.Ended.Why != drill.Stopped || w.Order.Ended.By != "ben" {
			t.Errorf("%+v", w.Order.Ended)
		}
	})
}

// response is one whose only limit was decided by whom.
func response(by verdict.Decider, allowed bool) *headgate.Response {
	return &headgate.Response{Allowed: allowed, Verdicts: []headgate.Verdict{{
		Limit: limit.Must(limit.Spec{Algorithm: limit.FixedWindow, Quota: 1, Period: time.Second}), By: by, Decision: limit.Decision{Allowed: allowed},
	}}}
}

// What fails on one node ends the drill on all of them.
func TestN6DrillAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		defer f.end()
		f.begin()
		f.after(3 * time.Second)
		for range 50 {
			f.nodes[1].Decided(nil, response(verdict.ByLocalWhole, true), time.Millisecond)
			f.nodes[1].Decided(nil, response(verdict.ByLocalWhole, false), time.Millisecond)
		}
		f.after(2 * time.Second)
		if got := f.faults(); got != "1,1" {
			t.Fatalf("denials by the whole limit are no errors; faults are %s", got)
		}
		for range 5 {
			f.nodes[1].Decided(nil, response(verdict.ByFailureMode, false), time.Millisecond)
		}
		f.after(2 * time.Second)
		if got := f.faults(); got != "," {
			t.Fatalf("faults are %s", got)
		}
		f.after(time.Second)
		w := f.show()
		if e := w.Order.Ended; e == nil || e.Why != drill.Aborted || e.By != "b" || w.Sum.Failed != 5 || w.Sum.Open != 100 || w.Sum.Unchecked != 50 {
			t.Errorf("%+v, %+v", e, w.Sum)
		}
	})
}

func TestN6DeciderIsWhoDenied(t *testing.T) {
	both := func(a, b *headgate.Response, allowed bool) *headgate.Response {
		return &headgate.Response{Allowed: allowed, Verdicts: append(append([]headgate.Verdict{}, a.Verdicts...), b.Verdicts...)}
	}
	for want, responses := range map[drill.By][]*headgate.Response{
		drill.ByStore: {response(verdict.ByStore, true), {Allowed: true}, response(verdict.BySkipping, true),
			both(response(verdict.ByStore, false), response(verdict.ByFailureMode, true), false)},
		drill.ByReserve: {response(verdict.ByReserve, false), both(response(verdict.ByReserve, false), response(verdict.ByStore, false), false),
			both(response(verdict.ByReserve, false), response(verdict.ByLocalShare, true), false)},
		drill.ByLocal:  {response(verdict.ByLocalShare, true), response(verdict.ByLocalShare, false)},
		drill.ByOpen:   {response(verdict.ByLocalWhole, true), both(response(verdict.ByLocalShare, true), response(verdict.ByLocalWhole, true), true)},
		drill.ByNobody: {response(verdict.ByFailureMode, true), response(verdict.ByFailureMode, false)},
	} {
		for i, r := range responses {
			if got := decider(r); got != want {
				t.Errorf("case %d of %d: %d", i, want, got)
			}
		}
	}
}

// A node without a way of its own, or with nothing to put the fault to, says so and takes no
// part; a process without a scene only tells of the drill.
func TestN6NodesThatTakeNoPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3)
		defer f.end()
		f.nodes[0].options.Scene = nil
		f.nodes[1].own.away(true)
		f.nodes[2].stage.none = errors.New("nothing to cut")
		f.begin()
		f.after(10 * time.Second)
		if got := f.faults(); got != ",," {
			t.Errorf("faults are %s", got)
		}
		if o, here, left := f.nodes[0].Now(); o == nil || here || left <= 0 {
			t.Errorf("%v, here %t, %v left", o, here, left)
		}
		w := f.show()
		if len(w.Nodes) != 2 || w.Nodes[0].State != drill.Apart || !strings.Contains(w.Nodes[0].Detail, "no way of its own") || w.Nodes[1].Detail != "nothing to cut" {
			t.Errorf("%+v", w.Nodes)
		}
		if w.TookPart != 0 || !w.Nobody() {
			t.Errorf("%d took part", w.TookPart)
		}
	})
}

// Where a process shares its store with nobody it knows that no node could take part; others do
// not know what the nodes lean on.
func TestDrillOfNothingIsRefused(t *testing.T) {
	none := &stage{none: errors.New("nothing to cut")}
	for name, c := range map[string]struct {
		options Options
		order   drill.Order
		field   string
	}{
		"alone":            {Options{Line: new(Alone), Scene: none}, drill.Order{Fault: drill.BrokerDown}, "fault"},
		"alone, a store":   {Options{Line: new(Alone), Scene: none}, drill.Order{Fault: drill.StoreDown, Store: "x"}, "store"},
		"alone, a shard":   {Options{Line: new(Alone), Scene: none}, drill.Order{Fault: drill.ShardDown, Store: "x", Shard: "y"}, "shard"},
		"alone, something": {Options{Line: new(Alone), Scene: new(stage)}, drill.Order{Fault: drill.StoreDown}, ""},
		"alone, no scene":  {Options{Line: new(Alone)}, drill.Order{Fault: drill.StoreDown}, ""},
		"among others":     {Options{Line: &flaky{Alone: new(Alone)}, Scene: none}, drill.Order{Fault: drill.StoreDown}, ""},
	} {
		err := New(c.options).Check(&c.order)
		var wrong *drill.FieldError
		if errors.As(err, &wrong) != (c.field != "") || wrong != nil && (wrong.Field != c.field || wrong.Problem != "nothing to cut") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The end of a process takes the fault away, and a process that starts while a drill lasts
// takes part in what is left of it.
func TestN6ProcessesThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.begin()
		f.after(3 * time.Second)
		f.end()
		if got := f.faults(); got != "" {
			t.Errorf("faults are %s", got)
		}
		if w := f.show(); !w.UnderWay || w.Nodes[0].Why != drill.Leaving || w.Nodes[0].State != drill.Done {
			t.Errorf("%+v", w)
		}
		later := newFleet(t, 0)
		r := &rider{own: &flaky{Alone: f.line}}
		r.Rider = New(Options{Node: "z", ID: "z", Line: f.line, Scene: &r.stage, Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
		ctx, quit := context.WithCancel(t.Context())
		defer later.done.Wait()
		defer quit()
		later.done.Go(func() { r.Run(ctx) })
		later.after(2 * time.Second)
		if _, here, left := r.Now(); !here || left > 56*time.Second {
			t.Errorf("here %t, %v left", here, left)
		}
		later.after(56 * time.Second)
		if r.stage.has() != "" {
			t.Error("it lasts longer than it was to")
		}
	})
}

// Who orders and ends at once as another agrees with that one.
func TestOrdersMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(Alone)
		var begun sync.Map
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				o := &drill.Order{ID: string(rune('a' + i)), Fault: drill.StoreDown, LastsMS: 1000, Actor: "ann", BeganAt: time.Now()}
				if err := begin(t.Context(), l, o, time.Now()); err == nil {
					begun.Store(o.ID, true)
				} else if !errors.Is(err, drill.ErrUnderWay) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		n := 0
		begun.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d drills have begun", n)
		}
		o, _, err := read(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		e := drill.Ending{Why: drill.Expired, By: "n", At: time.Now()}
		first, err := end(t.Context(), l, o.ID, e)
		if err != nil || !first {
			t.Errorf("%t, %v", first, err)
		}
		if again, err := end(t.Context(), l, o.ID, e); err != nil || again {
			t.Errorf("ended twice: %v", err)
		}
	})
}

// An order that another version has written is left alone until nobody goes by it, and is
// told of once.
func TestOrderOfAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		defer f.end()
		f.write(`{"id":"1","fault":"moon-down"}`)
		f.after(5 * time.Second)
		if got := strings.Count(f.nodes[0].log.String(), "cannot be heard"); got != 1 {
			t.Errorf("told %d times:\n%s", got, &f.nodes[0].log)
		}
		f.begin()
		f.after(2 * time.Second)
		if f.faults() != "1" {
			t.Error("no drill can begin after it")
		}
	})
}

// A store that is away is no news of drills where none lasts; where one does, nobody can end it
// here any more, and the log says so once. So it does of an order that cannot be read, also
// after an outage that it was silent about.
func TestStoreThatIsAwayIsToldOfInADrillAlone(t *testing.T) {
	outage := func(f *fleet) {
		f.nodes[0].own.away(true)
		f.after(5 * time.Second)
		f.nodes[0].own.away(false)
	}
	for name, c := range map[string]struct {
		do   func(*fleet)
		told int
	}{
		"no drill":    {outage, 0},
		"in a drill":  {func(f *fleet) { f.begin(); f.after(3 * time.Second); outage(f) }, 1},
		"after one":   {func(f *fleet) { f.begin(); f.after(63 * time.Second); outage(f) }, 0},
		"bad, before": {func(f *fleet) { outage(f); f.write(`{"id":"1","fault":"moon-down"}`); f.after(5 * time.Second) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 0)
				defer f.end()
				r := &rider{own: &flaky{Alone: f.line}}
				r.Rider = New(Options{Node: "a", ID: "a", Line: r.own, Scene: &r.stage, Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
				f.nodes = append(f.nodes, r)
				ctx, quit := context.WithCancel(t.Context())
				f.done.Go(func() { r.Run(ctx) })
				defer quit()
				c.do(f)
				if got := strings.Count(r.log.String(), "cannot be heard"); got != c.told {
					t.Errorf("told %d times, want %d:\n%s", got, c.told, &r.log)
				}
			})
		})
	}
}

// Nothing is counted and nothing allocated while no drill lasts.
func TestDecidedDoesNotAllocate(t *testing.T) {
	r := New(Options{})
	resp := response(verdict.ByStore, true)
	if n := testing.AllocsPerRun(1000, func() { r.Decided(nil, resp, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	r.tally.Store(new(drill.Tally))
	if n := testing.AllocsPerRun(1000, func() { r.Decided(nil, resp, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations in a drill", n)
	}
}

func BenchmarkDecidedWithoutADrill(b *testing.B) {
	r := New(Options{})
	resp := response(verdict.ByStore, true)
	for b.Loop() {
		r.Decided(nil, resp, time.Millisecond)
	}
}

func BenchmarkDecidedInADrill(b *testing.B) {
	r := New(Options{})
	r.tally.Store(new(drill.Tally))
	resp := response(verdict.ByStore, true)
	for b.Loop() {
		r.Decided(nil, resp, time.Millisecond)
	}
}

// A node that has ended its drill, and could tell nobody, does not begin the same one again.
func TestDrillBeginsOnceOnANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		defer f.end()
		f.begin()
		f.after(3 * time.Second)
		f.nodes[1].own.away(true)
		for range 50 {
			f.nodes[1].Decided(nil, response(verdict.ByFailureMode, false), time.Millisecond)
		}
		f.after(2 * time.Second)
		f.nodes[1].own.away(false)
		if !f.show().UnderWay {
			t.Fatal("the others were told that it has ended")
		}
		f.after(10 * time.Second)
		if got, begun := f.faults(), f.nodes[1].stage.begun; got != "1," || begun != 1 {
			t.Errorf("faults are %s, and it has begun %d times", got, begun)
		}
	})
}

// An order that the store has lost, or that another one stands in for, ends the drill: nobody
// could end it any more.
func TestDrillEndsWithItsOrder(t *testing.T) {
	for name, change := range map[string]func(*fleet){
		"lost": func(f *fleet) {
			f.line.mu.Lock()
			defer f.line.mu.Unlock()
			f.line.version, f.line.text, f.line.notices = 0, nil, nil
		},
		"replaced": func(f *fleet) {
			o := &drill.Order{ID: "2", Fault: drill.StoreDown, LastsMS: 1000, Actor: "ann", BeganAt: time.Now().Add(-time.Minute)}
			_, version, err := read(f.t.Context(), f.line)
			if err != nil {
				f.t.Fatal(err)
			}
			if done, err := replace(f.t.Context(), f.line, version, o, time.Now()); err != nil || !done {
				f.t.Fatal(done, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 2)
				defer f.end()
				f.begin()
				f.after(3 * time.Second)
				if got := f.faults(); got != "1,1" {
					t.Fatalf("faults are %s", got)
				}
				change(f)
				f.after(2 * time.Second)
				if got := f.faults(); got != "," {
					t.Errorf("faults are %s", got)
				}
				f.after(3 * time.Second)
				w := f.show()
				if w.Order == nil {
					t.Fatal("nobody has put the order back")
				}
				if name == "replaced" {
					if w.Order.ID != "2" || w.Order.Ended != nil {
						t.Errorf("the other drill is %+v", w.Order)
					}
					return
				}
				if e := w.Order.Ended; w.UnderWay || w.Order.ID != "1" || e == nil || e.Why != drill.Lost || e.By == "" || e.Detail == "" || len(w.Nodes) != 2 || w.TookPart != 2 {
					t.Errorf("%+v, %+v", w, w.Order.Ended)
				}
				for i := range w.Nodes {
					if n := &w.Nodes[i]; n.State != drill.Done || n.Why != drill.Lost || n.Closed != 3 {
						t.Errorf("%+v", n)
					}
				}
				if log := f.nodes[0].log.String(); !strings.Contains(log, "why=lost") {
					t.Errorf("the log says %s", log)
				}
			})
		})
	}
}
