package timeline

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// lineOf returns a timeline of steps of so many seconds from start on; a count below 0 is a step of
// which nothing is known.
func lineOf(step int64, counts ...float64) *view.Timeline {
	line := view.Timeline{Step: step, Points: []view.TimelinePoint{}}
	for i, n := range counts {
		if n >= 0 {
			line.Points = append(line.Points, view.TimelinePoint{At: start.Add(time.Duration(int64(i)*step) * time.Second).UTC(), Known: step, Requests: view.Requests{Allowed: n}, P99: n})
		}
	}
	return &line
}

// rates are those of allowed requests, and whole is of which steps the sum is, as a word of w and -.
func ratesOf(sum view.FleetTimeline) (rates []float64, whole string) {
	for _, p := range sum.Points {
		rates = append(rates, p.Rates.Allowed)
		if p.Whole {
			whole += "w"
		} else {
			whole += "-"
		}
	}
	return rates, whole
}

func after(steps, seconds int64) time.Time {
	return start.Add(time.Duration(steps*seconds) * time.Second)
}

func TestSum(t *testing.T) {
	minute := int64(60)
	short := lineOf(60, 60, 60, 60)
	short.Points[1].Known = 30 // it had half a minute, and has answered 60
	for name, test := range map[string]struct {
		told  []Told
		rates []float64
		whole string
	}{
		"one node":          {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}}, []float64{1, 2, 0}, "www"},
		"two nodes":         {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}, {Name: "b", Line: lineOf(60, 60, 60, 60)}}, []float64{2, 3, 1}, "www"},
		"joined late":       {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}, {Name: "b", Line: lineOf(60, -1, -1, 60)}}, []float64{1, 2, 1}, "--w"},
		"a gap":             {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}, {Name: "b", Line: lineOf(60, 60, -1, 60)}}, []float64{2, 2, 1}, "w-w"},
		"a part of a step":  {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}, {Name: "b", Line: short}}, []float64{2, 4, 1}, "w-w"},
		"no answer":         {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}, {Name: "b"}}, []float64{1, 2, 0}, "---"},
		"gone":              {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}, {Name: "b", GoneAt: after(1, minute)}}, []float64{1, 2, 0}, "--w"},
		"nobody":            {[]Told{{Name: "a"}}, nil, ""},
		"nobody is asked":   {nil, nil, ""},
		"shorter steps too": {[]Told{{Name: "a", Line: lineOf(60, 60, 120, 0)}, {Name: "b", Line: lineOf(15, 15, 15, 15, 15, 30, 30, 30, 30, 0, 0, 0, 0)}}, []float64{2, 4, 0}, "www"},
	} {
		t.Run(name, func(t *testing.T) {
			sum := Sum(test.told, after(3, minute))
			if rates, whole := ratesOf(sum); !reflect.DeepEqual(rates, test.rates) || whole != test.whole {
				t.Errorf("%v %s, want %v %s", rates, whole, test.rates, test.whole)
			}
			if len(sum.Nodes) != len(test.told) {
				t.Errorf("%d nodes are named", len(sum.Nodes))
			}
		})
	}
}

// What each node knows is told by its name, and quantiles are the highest of any.
func TestSumNamesNodes(t *testing.T) {
	sum := Sum([]Told{{Name: "c", GoneAt: start}, {Name: "b", Line: lineOf(60, -1, 5, -1, 7)}, {Name: "a", Line: lineOf(60, 1, 1, 1, 1)}, {Name: "d"}}, after(4, 60))
	want := []view.TimelineNode{{Name: "a", Answered: true, From: start.UTC()}, {Name: "b", Answered: true, From: after(1, 60).UTC(), Gaps: 1}, {Name: "c", GoneAt: start}, {Name: "d"}}
	if !reflect.DeepEqual(sum.Nodes, want) {
		t.Errorf("%+v", sum.Nodes)
	}
	if p := sum.Points[1]; p.P99 != 5 || p.Nodes != 2 || p.Requests.Allowed != 6 {
		t.Errorf("%+v", p)
	}
}

// A node that knows of nothing before the end of the sum has no gaps in it.
func TestNodeThatBeginsAfterTheEnd(t *testing.T) {
	sum := Sum([]Told{{Name: "a", Line: lineOf(1, 3, 3, 3, 3)}, {Name: "b", Line: lineOf(1, 3, 3)}, {Name: "c", Line: lineOf(1, -1, -1, -1, 3)}}, after(4, 1))
	if n := sum.Nodes[2]; n != (view.TimelineNode{Name: "c", Answered: true}) {
		t.Errorf("%+v", n)
	}
}

// The end is where all that are at it have got to, and need not be over; who has stopped long ago holds
// nobody back.
func TestEndOfASum(t *testing.T) {
	a, b := lineOf(1, 3, 3, 3, 3), lineOf(1, 3, 3)
	sum := Sum([]Told{{Name: "a", Line: a}, {Name: "b", Line: b}}, after(4, 1))
	if rates, whole := ratesOf(sum); !reflect.DeepEqual(rates, []float64{6, 6}) || whole != "ww" {
		t.Errorf("%v %s", rates, whole)
	}
	long := make([]float64, 60)
	sum = Sum([]Told{{Name: "a", Line: lineOf(1, long...)}, {Name: "b", Line: b}}, after(60, 1))
	if _, whole := ratesOf(sum); len(whole) != 60 || whole[:3] != "ww-" {
		t.Errorf("who has stopped: %s", whole)
	}
	now := lineOf(60, 60, 60)
	now.Points[1].Known, now.Points[1].Requests.Allowed = 10, 10
	sum = Sum([]Told{{Name: "a", Line: now}}, after(1, 60).Add(10*time.Second))
	if rates, whole := ratesOf(sum); !reflect.DeepEqual(rates, []float64{1, 1}) || whole != "ww" {
		t.Errorf("a step that is not over: %v %s", rates, whole)
	}
}

// A second in which nobody looked is part of the next one: it is no hole in a sum.
func TestSecondsThatNobodyLookedIn(t *testing.T) {
	late := lineOf(1, 4, -1, -1, 12, 4)
	late.Points[1].Known = 3
	sum := Sum([]Told{{Name: "a", Line: lineOf(1, 1, 1, 1, 1, 1)}, {Name: "b", Line: late}}, after(5, 1))
	if rates, whole := ratesOf(sum); !reflect.DeepEqual(rates, []float64{5, 5, 5, 5, 5}) || whole != "wwwww" {
		t.Errorf("%v %s", rates, whole)
	}
	all := 0.0
	for _, p := range sum.Points {
		all += p.Requests.Allowed
	}
	if all != 25 || sum.Nodes[1].Gaps != 0 {
		t.Errorf("%v requests, %+v", all, sum.Nodes)
	}
}

// What is packed comes out as it was, and has room in a notice at its largest.
func TestPack(t *testing.T) {
	line := lineOf(86400)
	line.Points = nil
	for i := range int64(MaxSummed) {
		line.Points = append(line.Points, view.TimelinePoint{
			At: time.Unix((i+1)*86400, 0).UTC(), Known: 1<<36 - i, P50: math.Pi, P99: 1e8, Requests: view.Requests{Allowed: 1 << 53, Denied: 1<<53 - 1, DegradedAllowed: 1 << 52, DegradedDenied: 1 << 52, Unmatched: 1 << 52, UnknownDomain: 1 << 52},
		})
	}
	data, err := Pack(*line)
	if err != nil || len(data) > 64_100 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	got, err := Unpack(data)
	if err != nil || len(got.Points) != MaxSummed || got.Step != 86400 {
		t.Fatalf("%d points, %v", len(got.Points), err)
	}
	for i := range got.Points {
		want := line.Points[i]
		want.P50, want.P99 = float64(float32(want.P50)), float64(float32(want.P99))
		if got.Points[i] != want {
			t.Fatalf("%+v, want %+v", got.Points[i], want)
		}
	}
	line.Points = append(line.Points, line.Points[0])
	if _, err := Pack(*line); err == nil {
		t.Error("more points than there may be")
	}
}

// What no node can know is not believed.
func TestUnpackBelievesNoNonsense(t *testing.T) {
	good, err := Pack(*lineOf(60, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if _, err := Unpack(good[:n]); err == nil {
			t.Errorf("the first %d bytes", n)
		}
	}
	nan := bytes.Clone(good)
	i := bytes.Index(nan, []byte{0, 0, 0x80, 0x3f}) // 1 as a float32
	copy(nan[i:], []byte{0, 0, 0xc0, 0x7f})
	negative, step := bytes.Clone(good), bytes.Clone(good)
	negative[i+3] = 0xbf
	step[len(packed)] = 61
	for name, bad := range map[string][]byte{"more": append(bytes.Clone(good), 0), "not a number": nan, "negative": negative, "a step that none is": step} {
		if _, err := Unpack(bad); err == nil {
			t.Error(name)
		}
	}
	far := *lineOf(1, 1, 2)
	far.Points[1].At = start.Add(MaxSummed * time.Second)
	if long, err := Pack(far); err != nil {
		t.Fatal(err)
	} else if _, err := Unpack(long); err == nil {
		t.Error("more steps than were asked for")
	}
	wide, err := Pack(*lineOf(60, 1<<53+2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(wide); err == nil {
		t.Error("more requests than can be counted")
	}
}

func FuzzUnpack(f *testing.F) {
	good, err := Pack(*lineOf(60, 1, 2, -1, 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		line, err := Unpack(data)
		if err != nil {
			return
		}
		again, err := Pack(line)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Unpack(again); err != nil || !reflect.DeepEqual(line, same) {
			t.Fatalf("%+v, then %+v, %v", line, same, err)
		}
		Sum([]Told{{Name: "a", Line: &line}, {Name: "b", Line: lineOf(60, 1)}}, start)
	})
}

// Every outcome is added up and told per second, and latencies are the highest of any node and of any part of a
// step.
func TestSumHasEveryOutcome(t *testing.T) {
	minute := view.Requests{Allowed: 60, Denied: 120, DegradedAllowed: 180, DegradedDenied: 240, Unmatched: 300, UnknownDomain: 360}
	a := view.Timeline{Step: 60, Points: []view.TimelinePoint{{At: start.UTC(), Known: 60, Requests: minute, P50: 1, P99: 9}}}
	b := view.Timeline{Step: 15}
	for i, took := range []float64{2, 5, 3, 1} {
		b.Points = append(b.Points, view.TimelinePoint{
			At: start.Add(time.Duration(15*i) * time.Second).UTC(), Known: 15, P50: took, P99: 4 * took,
			Requests: view.Requests{Allowed: 15, Denied: 30, DegradedAllowed: 45, DegradedDenied: 60, Unmatched: 75, UnknownDomain: 90},
		})
	}
	want := view.FleetPoint{
		At: start.UTC(), Nodes: 2, Whole: true, P50: 5, P99: 20,
		Requests: view.Requests{Allowed: 120, Denied: 240, DegradedAllowed: 360, DegradedDenied: 480, Unmatched: 600, UnknownDomain: 720},
		Rates:    view.Requests{Allowed: 2, Denied: 4, DegradedAllowed: 6, DegradedDenied: 8, Unmatched: 10, UnknownDomain: 12},
	}
	sum := Sum([]Told{{Name: "a", Line: &a}, {Name: "b", Line: &b}}, after(1, 60))
	if len(sum.Points) != 1 || sum.Points[0] != want {
		t.Errorf("%+v, want %+v", sum.Points, want)
	}
}

// A step is whole where a node knows all of it but for a second or two, or a twentieth.
func TestHowMuchOfAStepIsWhole(t *testing.T) {
	for _, test := range []struct {
		step, known int64
		whole       string
	}{{60, 57, "www"}, {60, 56, "w-w"}, {15, 13, "www"}, {15, 12, "w-w"}, {3600, 3420, "www"}, {3600, 3419, "w-w"}} {
		line := lineOf(test.step, 1, 1, 1)
		line.Points[1].Known = test.known
		if _, whole := ratesOf(Sum([]Told{{Name: "a", Line: line}}, after(3, test.step))); whole != test.whole {
			t.Errorf("%d of %d seconds: %s, want %s", test.known, test.step, whole, test.whole)
		}
	}
}

// A node that says to know of more seconds than there were since its last point counts in no step twice.
func TestMoreSecondsThanThereWere(t *testing.T) {
	line := lineOf(1, 1, 1, -1, 1)
	line.Points[2].Known = 5
	for _, p := range Sum([]Told{{Name: "a", Line: line}}, after(4, 1)).Points {
		if p.Nodes != 1 {
			t.Errorf("%d nodes at %v", p.Nodes, p.At)
		}
	}
}

// Points of one step, of a time that nobody lives to see, and latencies without an end are not believed.
func TestUnpackBelievesNoOddPoints(t *testing.T) {
	for name, change := range map[string]func(*view.Timeline){
		"two of one step": func(l *view.Timeline) { l.Points[1].At = l.Points[0].At },
		"the far future":  func(l *view.Timeline) { l.Points = l.Points[:1]; l.Points[0].At = time.Unix(mostSecond+60, 0) },
		"no end":          func(l *view.Timeline) { l.Points[1].P99 = math.Inf(1) },
		"a lifetime":      func(l *view.Timeline) { l.Points[1].P50 = 1e9 },
	} {
		line := lineOf(60, 1, 2)
		change(line)
		data, err := Pack(*line)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Unpack(data); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
