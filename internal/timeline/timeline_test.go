package timeline

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// start is a whole hour.
var start = time.Unix(1_800_000_000-1_800_000_000%3600, 0)

// told tells a timeline of as many allowed requests in each second as counts has, from the first second
// after now on, and returns the instant of the last one.
func told(t *Timeline, now time.Time, sum *float64, counts ...float64) time.Time {
	for _, n := range counts {
		now = now.Add(time.Second)
		*sum += n
		t.Tell(now, view.Requests{Allowed: *sum}, view.Latency{})
	}
	return now
}

func total(points []view.TimelinePoint) (allowed float64, known int64) {
	for _, p := range points {
		allowed += p.Requests.Allowed
		known += p.Known
	}
	return allowed, known
}

func TestSecondsOfTheLastHour(t *testing.T) {
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 3, 0, 5)
	got := line.Between(start, now, 10)
	want := []view.TimelinePoint{
		{At: start.Add(time.Second).UTC(), Known: 1, Requests: view.Requests{Allowed: 3}},
		{At: start.Add(2 * time.Second).UTC(), Known: 1},
		{At: start.Add(3 * time.Second).UTC(), Known: 1, Requests: view.Requests{Allowed: 5}},
	}
	if got.Step != 1 || !slices.Equal(got.Points, want) {
		t.Errorf("%+v", got)
	}
	if got := line.Between(start.Add(2*time.Second), start.Add(2*time.Second), 1); len(got.Points) != 1 || got.Points[0] != want[1] {
		t.Errorf("one second: %+v", got)
	}
}

func TestEveryOutcomeIsKept(t *testing.T) {
	line := New(start)
	since := view.Requests{Allowed: 1, Denied: 2, DegradedAllowed: 3, DegradedDenied: 4, Unmatched: 5, UnknownDomain: 6}
	line.Tell(start.Add(time.Second), since, view.Latency{P50: 0.25, P99: 0.5})
	line.Tell(start.Add(2*time.Second), since, view.Latency{P50: 0.125, P99: 1})
	line.Tell(start.Add(3*time.Second), since, view.Latency{P50: 0.125, P99: 0.75})
	for _, from := range []time.Time{start, start.Add(-2 * time.Hour)} { // of seconds, and of minutes
		got := line.Between(from, start.Add(time.Minute), 1)
		if len(got.Points) != 1 || got.Points[0].Requests != since || got.Points[0].P50 != 0.25 || got.Points[0].P99 != 1 {
			t.Errorf("from %v: %+v", from, got)
		}
	}
}

// After an hour seconds are gone, after a week minutes.
func TestWhatIsOldIsForgotten(t *testing.T) {
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 7)
	for range seconds {
		now = told(line, now, &sum, 1)
	}
	hour := line.Between(now.Add(-seconds*time.Second+time.Second), now, MaxPoints)
	if allowed, known := total(hour.Points); hour.Step != 5 || allowed != seconds || known != seconds {
		t.Errorf("the hour: step %d, %v of %d s", hour.Step, allowed, known)
	}
	if got := line.Between(now.Add(-time.Hour-2*time.Second), now, MaxPoints); got.Step != 5 {
		t.Errorf("an hour ago: step %d", got.Step)
	}
	day := line.Between(start.Add(-24*time.Hour), now, MaxPoints)
	if allowed, _ := total(day.Points); day.Step != 60 || allowed != seconds+7 {
		t.Errorf("the day: step %d, %v", day.Step, allowed)
	}
	for range minutes {
		now = now.Add(time.Minute)
		sum++
		line.Tell(now, view.Requests{Allowed: sum}, view.Latency{})
	}
	week := line.Between(time.Unix(0, 0), now, 1000)
	if allowed, known := total(week.Points); week.Step != 900 || allowed != minutes || known != minutes*60 {
		t.Errorf("the week: step %d, %v of %d s", week.Step, allowed, known)
	}
}

// Whatever is asked for, there are no more steps than that, and each count is in one of them.
func TestStepsAddUp(t *testing.T) {
	line, sum := New(start), 0.0
	random := rand.New(rand.NewPCG(1, 2))
	counts := make([]float64, seconds-1)
	for i := range counts {
		counts[i] = float64(random.IntN(1000))
	}
	now := told(line, start, &sum, counts...)
	for _, most := range []int{1, 2, 3, 10, 59, 60, 61, 300, 1999, MaxPoints, MaxPoints + 1, 1 << 40} {
		got := line.Between(start, now, most)
		if allowed, known := total(got.Points); len(got.Points) > min(most, MaxPoints) || allowed != sum || known != seconds-1 {
			t.Errorf("%d: %d points of %d s with %v of %v in %d s", most, len(got.Points), got.Step, allowed, sum, known)
		}
		for i, p := range got.Points {
			if p.At.Unix()%got.Step != 0 || i > 0 && !p.At.After(got.Points[i-1].At) {
				t.Errorf("%d: point %d is at %v", most, i, p.At)
			}
		}
	}
}

// A process that had no processor for ten seconds tells of them as one.
func TestSecondsThatNobodySaw(t *testing.T) {
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 1)
	sum += 20
	now = now.Add(10 * time.Second)
	line.Tell(now, view.Requests{Allowed: sum}, view.Latency{})
	got := line.Between(start, now, 100).Points
	if len(got) != 2 || got[1].Known != 10 || got[1].Requests.Allowed != 20 || !got[1].At.Equal(now) {
		t.Errorf("%+v", got)
	}
}

func TestClockIsSetBack(t *testing.T) {
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 1, 1, 1, 1)
	back := now.Add(-3 * time.Second)
	line.Tell(back, view.Requests{Allowed: sum + 8}, view.Latency{})
	got := line.Between(start, now, 100).Points
	if allowed, known := total(got); len(got) != 1 || !got[0].At.Equal(back) || allowed != 9 || known != 1 {
		t.Errorf("%+v", got)
	}
	line.Tell(time.Unix(-5, 0), view.Requests{Allowed: sum + 9}, view.Latency{})
	if again := line.Between(start, now, 100).Points; !slices.Equal(again, got) {
		t.Errorf("before 1970: %+v", again)
	}
}

// Seconds that come again after the clock was set back count anew.
func TestSecondsThatComeAgain(t *testing.T) {
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 5, 5, 5, 5)
	back := now.Add(-3 * time.Second)
	line.Tell(back, view.Requests{Allowed: sum}, view.Latency{})
	told(line, back, &sum, 1, 1, 1)
	if allowed, _ := total(line.Between(start, now, 100).Points); allowed != 5+3 {
		t.Errorf("%v are allowed, want 5 of the second that was before the clock was set back, and 3", allowed)
	}
}

// Minutes that lie in the future of a clock that is set back are forgotten too.
func TestClockIsSetBackByHours(t *testing.T) {
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 1, 1)
	back := now.Add(-2 * time.Hour)
	line.Tell(back, view.Requests{Allowed: sum + 8}, view.Latency{})
	line.Tell(now.Add(time.Minute), view.Requests{Allowed: sum + 9}, view.Latency{})
	got := line.Between(start.Add(-24*time.Hour), now.Add(time.Hour), MaxPoints)
	if allowed, _ := total(got.Points); got.Step != 60 || len(got.Points) != 2 || allowed != 9 {
		t.Errorf("%+v", got)
	}
}

// What is asked for of the future makes no step longer, and where one step a day is too many, the latest are shown.
func TestWhichStepsAreShown(t *testing.T) {
	midnight := start.Truncate(24 * time.Hour).Add(24 * time.Hour)
	line, sum := New(midnight.Add(-5*time.Second)), 0.0
	told(line, midnight.Add(-5*time.Second), &sum, 1, 1, 1, 1, 7, 7, 7)
	if got := line.Between(midnight, midnight.Add(time.Hour), 3); got.Step != 1 || len(got.Points) != 3 {
		t.Errorf("with the future: %+v", got)
	}
	got := line.Between(midnight.Add(-time.Hour), midnight.Add(time.Hour), 1)
	if len(got.Points) != 1 || !got.Points[0].At.Equal(midnight) || got.Points[0].Requests.Allowed != 21 {
		t.Errorf("of two days: %+v", got)
	}
}

// Of a clock that is set forward the time between is not known.
func TestClockIsSetForward(t *testing.T) {
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 1)
	now = told(line, now.Add(24*time.Hour), &sum, 1)
	got := line.Between(start.Add(-time.Hour), now, MaxPoints)
	if len(got.Points) != 2 || got.Step != 60 {
		t.Errorf("%+v", got)
	}
}

func TestCountsDoNotWrapAround(t *testing.T) {
	line := New(start)
	for i := range 3 {
		line.Tell(start.Add(time.Duration(i+1)*time.Second), view.Requests{Allowed: float64(i+1) * 3e9}, view.Latency{})
	}
	if got := line.Between(start.Add(-2*time.Hour), start.Add(time.Minute), 200).Points; len(got) != 1 || got[0].Requests.Allowed != 1<<32-1 {
		t.Errorf("a minute: %+v", got)
	}
	if got := line.Between(start, start.Add(time.Minute), 1).Points; len(got) != 1 || got[0].Requests.Allowed != 9e9 {
		t.Errorf("its seconds: %+v", got)
	}
}

// A step of a day may have more than a minute has room for.
func TestLongStepsHaveRoom(t *testing.T) {
	line, sum, now := New(start), 0.0, start
	for range 120 {
		now = now.Add(time.Minute)
		sum += 4e9
		line.Tell(now, view.Requests{Allowed: sum}, view.Latency{})
	}
	if allowed, known := total(line.Between(start.Add(-24*time.Hour), now, 2).Points); allowed != sum || known != 120*60 {
		t.Errorf("%v of %v in %d s", allowed, sum, known)
	}
}

// Minutes outlive a restart, and what the new process has counted is beside them.
func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states", "timeline")
	line, sum := New(start), 0.0
	now := told(line, start, &sum, make([]float64, 200)...)
	sum += 5
	now = told(line, now, &sum, 5)
	line.Tell(now, view.Requests{Allowed: sum}, view.Latency{P50: 0.5, P99: 0.75})
	if err := line.Keep(path); err != nil {
		t.Fatal(err)
	}

	next, own := New(now.Add(time.Minute)), 0.0
	if err := next.Recall(path); err != nil {
		t.Fatal(err)
	}
	end := told(next, now.Add(time.Minute), &own, 11)
	before, after := line.Between(start.Add(-24*time.Hour), now, MaxPoints).Points, next.Between(start.Add(-24*time.Hour), end, MaxPoints).Points
	if len(after) != len(before)+1 || !slices.Equal(after[:len(before)], before) || after[len(before)].Requests.Allowed != 11 {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if last := before[len(before)-1]; last.P50 != 0.5 || last.P99 != 0.75 {
		t.Errorf("%+v", last)
	}
}

// A minute that this process knows already is not counted twice, and what lies in the future or is older than
// a week is not taken.
func TestRecalledWhereNothingIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timeline")
	line, sum := New(start), 0.0
	now := told(line, start, &sum, 1, 2, 3)
	if err := line.Keep(path); err != nil {
		t.Fatal(err)
	}
	if err := line.Recall(path); err != nil {
		t.Fatal(err)
	}
	if allowed, _ := total(line.Between(start.Add(-2*time.Hour), now, 10).Points); allowed != 6 {
		t.Errorf("twice: %v", allowed)
	}
	for _, other := range []time.Time{start.Add(-time.Minute), start.Add(minutes * time.Minute)} {
		line := New(other)
		if err := line.Recall(path); err != nil {
			t.Fatal(err)
		}
		if got := line.Between(time.Unix(0, 0), start.Add(20*minutes*time.Minute), 10).Points; len(got) != 0 {
			t.Errorf("at %v: %+v", other, got)
		}
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	line, sum := New(start), 0.0
	told(line, start, &sum, 1)
	good := line.encode()
	flipped := slices.Clone(good)
	flipped[len(mark)+9] ^= 1
	odd := append(slices.Clone(good[:len(good)-crc32.Size]), 0)
	odd = binary.LittleEndian.AppendUint32(odd, crc32.ChecksumIEEE(odd))
	for name, data := range map[string][]byte{
		"empty": {}, "other": []byte("nodes 3\n"), "mark": []byte(mark), "short": good[:len(good)-1], "long": append(slices.Clone(good), 0),
		"flipped": flipped, "no whole minute": odd, "huge": make([]byte, 1<<20),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		fresh := New(start.Add(time.Hour))
		if err := fresh.Recall(path); err == nil {
			t.Errorf("%s is taken", name)
		}
		if got := fresh.Between(time.Unix(0, 0), start.Add(time.Hour), 10).Points; len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := line.Recall(pipe); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	if err := line.Recall(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := line.Keep(filepath.Join(dir, "empty", "timeline")); err == nil {
		t.Error("kept below a file")
	}
}

// Minutes that cannot be ours are passed over, in a file that is whole.
func TestMinutesMadeByHand(t *testing.T) {
	nan := float32(math.NaN())
	for _, bad := range []slot{{at: 0}, {at: -1}, {p50: -1}, {p99: -1}, {p50: nan}, {p99: nan}, {p50: 1e9}, {p99: 1e9}} {
		line, now := New(start), start.Unix()/60
		good := slot{at: now - 1, known: 1}
		bad.known = 2
		if bad.at == 0 && (bad.p50 != 0 || bad.p99 != 0) {
			bad.at = now - 2
		}
		line.minute.slots[0], line.minute.slots[1] = bad, good
		fresh := New(start)
		if err := fresh.decode(line.encode()); err != nil {
			t.Fatal(err)
		}
		if _, known := total(fresh.Between(time.Unix(0, 0), start, MaxPoints).Points); known != 1 {
			t.Errorf("%+v: %d s are known, want those of the good minute", bad, known)
		}
	}
}

// No file makes a timeline panic, or what it tells untrue of itself: what was read is written as it was.
func FuzzDecode(f *testing.F) {
	line, sum := New(start), 0.0
	told(line, start, &sum, make([]float64, 130)...)
	f.Add(line.encode(), int64(0))
	f.Add([]byte(mark), int64(60))
	f.Fuzz(func(t *testing.T, data []byte, later int64) {
		now := start.Add(time.Duration(later%1_000_000) * time.Second)
		line := New(now)
		if line.decode(data) != nil {
			return
		}
		again := New(now)
		if err := again.decode(line.encode()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(again.encode(), line.encode()) {
			t.Error("read again, it is something else")
		}
		if got := line.Between(time.Unix(0, 0), now, 100); len(got.Points) > 100 {
			t.Errorf("%d points", len(got.Points))
		}
	})
}
