package nonblock

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stalled returns a Writer, and the pipe that it writes to: a write waits until the test reads it.
func stalled(t *testing.T) (*io.PipeReader, *Writer) {
	t.Helper()
	r, to := io.Pipe()
	return r, New(to, Options{Notice: notice})
}

func notice(n uint64) []byte { return fmt.Appendf(nil, "%d lines were dropped\n", n) }

func put(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(w, text); n != len(text) || err != nil {
		t.Fatalf("wrote %d of %d bytes, %v", n, len(text), err)
	}
}

// TestWriterNeverWaits: while nobody reads, lines are kept up to the bound and then dropped;
// when somebody reads again, the log says how many are missing, at the place where they are.
func TestWriterNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := stalled(t)
		const size = 1000
		line := func(i int) string { return fmt.Sprintf("%0*d\n", size-1, i) }
		put(t, w, line(0))
		synctest.Wait() // the goroutine now waits for who reads
		kept := maxWaiting / (size + lineBytes)
		for i := 1; i <= kept+7; i++ {
			put(t, w, line(i))
		}
		if got := w.Dropped(); got != 7 {
			t.Fatalf("%d dropped, want 7", got)
		}
		var read strings.Builder
		var reading sync.WaitGroup
		reading.Go(func() { io.Copy(&read, r) })
		synctest.Wait()
		put(t, w, "after\n")
		if !w.Close(time.Second) {
			t.Error("what waits was not written")
		}
		r.Close()
		reading.Wait()
		var want strings.Builder
		for i := range kept + 1 {
			want.WriteString(line(i))
		}
		want.WriteString("7 lines were dropped\nafter\n")
		if read.String() != want.String() {
			t.Errorf("%d bytes were read, want %d; the end is %q", read.Len(), want.Len(), read.String()[max(0, read.Len()-60):])
		}
	})
}

// TestWriterGivesUp: the end of a process does not wait for who does not read, and what is
// written after it is dropped.
func TestWriterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := stalled(t)
		put(t, w, "one\n")
		begun := time.Now()
		if w.Close(3 * time.Second) {
			t.Error("closed, and nobody has read")
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("closing took %v", took)
		}
		put(t, w, "two\n")
		if got := w.Dropped(); got != 1 {
			t.Errorf("%d dropped, want 1", got)
		}
		r.Close()
		<-w.done
	})
}

// failing fails while err is not nil, after some bytes.
type failing struct {
	mu    sync.Mutex
	text  bytes.Buffer
	err   error
	after int
}

func (f *failing) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		n, _ := f.text.Write(b[:min(f.after, len(b))])
		return n, f.err
	}
	return f.text.Write(b)
}

func (f *failing) become(err error, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.after = err, after
}

// TestWriterSurvivesErrors: lines that cannot be written are dropped and counted, no error
// reaches who logs, and the first line after them stands on a line of its own.
func TestWriterSurvivesErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after int // bytes that are written before the error
		want  string
	}{
		{"nothing is written", 0, "one\n2 lines were dropped\nfour\n"},
		{"a part is written", 2, "one\ntw\n1\n2 lines were dropped\nfour\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &failing{}
				w := New(to, Options{Notice: notice})
				put(t, w, "one\n")
				synctest.Wait()
				to.become(errors.New("disk full"), tt.after)
				put(t, w, "two\n")
				synctest.Wait()
				put(t, w, "three\n")
				synctest.Wait()
				if got := w.Dropped(); got != 2 {
					t.Errorf("%d dropped, want 2", got)
				}
				to.become(nil, 0)
				put(t, w, "four\n")
				if !w.Close(time.Second) {
					t.Error("not closed")
				}
				if got := to.text.String(); got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestWriterSaysItAtOnce: what was dropped is told when nothing more is logged, too.
func TestWriterSaysItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := stalled(t)
		put(t, w, "one\n")
		synctest.Wait()
		put(t, w, strings.Repeat("x", maxWaiting))
		var read strings.Builder
		var reading sync.WaitGroup
		reading.Go(func() { io.Copy(&read, r) })
		synctest.Wait()
		r.Close()
		reading.Wait()
		if want := "one\n1 lines were dropped\n"; read.String() != want {
			t.Errorf("%q, want %q", read.String(), want)
		}
		w.Close(time.Second)
	})
}

// TestWriterGoesOn: lines that are written out make room again, however many there are.
func TestWriterGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &failing{}
		w := New(to, Options{Notice: notice})
		most := maxWaiting / (lineBytes + 1)
		for i := range 2 * most {
			put(t, w, "\n")
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		if !w.Close(time.Second) {
			t.Error("not closed")
		}
		if got := to.text.Len(); got != 2*most || w.Dropped() != 0 {
			t.Errorf("%d lines, %d dropped; want %d", got, w.Dropped(), 2*most)
		}
	})
}

// TestWriterTakesACopy: loggers use the memory of a line again as soon as Write returns.
func TestWriterTakesACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := stalled(t)
		put(t, w, "one\n")
		synctest.Wait()
		line := []byte("two\n")
		if _, err := w.Write(line); err != nil {
			t.Fatal(err)
		}
		copy(line, "xxx")
		var read strings.Builder
		var reading sync.WaitGroup
		reading.Go(func() { io.Copy(&read, r) })
		if !w.Close(time.Second) {
			t.Error("not closed")
		}
		r.Close()
		reading.Wait()
		if want := "one\ntwo\n"; read.String() != want {
			t.Errorf("%q, want %q", read.String(), want)
		}
	})
}

// TestWriterTellsEachGap: lines that were dropped are told of once, at the place where they are,
// while others wait behind it.
func TestWriterTellsEachGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := stalled(t)
		put(t, w, "one\n")
		synctest.Wait()
		large := strings.Repeat("x", maxWaiting-2*lineBytes) + "\n" // which leaves no room for "two"
		put(t, w, large)
		put(t, w, strings.Repeat("y", lineBytes)+"\n")
		var read strings.Builder
		var reading sync.WaitGroup
		in := bufio.NewReader(r)
		for range 2 { // of which the second is half read: its room is free
			part := make([]byte, 4)
			if _, err := io.ReadFull(in, part); err != nil {
				t.Fatal(err)
			}
			read.Write(part)
			synctest.Wait()
		}
		for _, text := range []string{"two\n", "three\n"} {
			put(t, w, text)
		}
		reading.Go(func() { io.Copy(&read, in) })
		if !w.Close(time.Second) {
			t.Error("not closed")
		}
		r.Close()
		reading.Wait()
		if want := "one\n" + large + "1 lines were dropped\ntwo\nthree\n"; read.String() != want {
			t.Errorf("%d bytes, want %d; the end is %q", read.Len(), len(want), read.String()[max(0, read.Len()-60):])
		}
	})
}
