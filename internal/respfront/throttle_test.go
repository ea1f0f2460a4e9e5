package respfront_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/respfront"
)

// cell is one key of redis-cell 0.5, in nanoseconds, by the description of its arithmetic.
type cell struct{ tat int64 }

// throttle returns the answer to a command at an instant. The first moment is 0.
func (c *cell) throttle(now, burst, count, period, quantity int64) [5]int64 {
	emission := int64(float64(period) * 1e9 / float64(count))
	tolerance := emission * (burst + 1)
	tat := max(c.tat, now)
	next := tat + emission*quantity
	answer := [5]int64{1: burst + 1, 3: -1}
	lasts := next - now
	if next-tolerance > now {
		answer[0] = 1
		if emission*quantity <= tolerance {
			answer[3] = seconds(next - tolerance - now)
		}
		lasts = tat - now
	} else {
		c.tat = next
	}
	if left := tolerance - lasts; left > -emission {
		answer[2] = left / 1000 / (emission / 1000)
	}
	answer[4] = seconds(lasts)
	return answer
}

func seconds(nanos int64) int64 {
	whole := nanos / 1e9
	if nanos/1e6%1000 > 0 {
		whole++
	}
	return whole
}

// TestAsRedisCell: the answers are those of redis-cell, for rates whose interval is a whole
// number of microseconds. (For others redis-cell rounds the interval down to nanoseconds.)
//
//promise:works-with
func TestAsRedisCell(t *testing.T) {
	b := newBench(t, "", everyRight)
	c := b.dial()
	traces := 0
	rapid.Check(t, func(t *rapid.T) {
		traces++
		period := rapid.SampledFrom([]int64{1, 2, 7, 60, 3600, 86400}).Draw(t, "period")
		count := rapid.SampledFrom([]int64{1, 2, 4, 5, 10, 16, 100, 1000, 8000}).Draw(t, "count")
		burst := rapid.Int64Range(0, 20).Draw(t, "burst")
		interval := period * 1_000_000 / count // µs
		var model cell
		b.now.Store(int64(noon))
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			quantity := rapid.Int64Range(0, burst+3).Draw(t, "quantity")
			if rapid.Bool().Draw(t, "one") {
				quantity = 1
			}
			want := model.throttle((b.now.Load()-int64(noon))*1000, burst, count, period, quantity)
			got := c.ask(fmt.Sprintf("CL.THROTTLE trace%d %d %d %d %d", traces, burst, count, period, quantity))
			if text := strings.TrimSuffix(strings.Replace(got[1:], ":", "", 5), "]"); text != fmt.Sprint(want[0], want[1], want[2], want[3], want[4]) {
				t.Fatalf("%d in %d s, burst %d: %s, want %v", count, period, burst, got, want)
			}
			b.now.Add(rapid.OneOf(rapid.Int64Range(0, 3*interval), rapid.SampledFrom([]int64{0, 1, interval - 1, interval, interval + 1, 999, 1000, 1_000_000}), rapid.Int64Range(0, 10*period*1_000_000)).Draw(t, "passes"))
		}
	})
}

// wire is a connection that has received all of its bytes.
type wire struct {
	net.Conn // nil
	in       io.Reader
	out      bytes.Buffer
	closed   chan struct{}
}

func (w *wire) Read(p []byte) (int, error)         { return w.in.Read(p) }
func (w *wire) Write(p []byte) (int, error)        { return w.out.Write(p) }
func (w *wire) Close() error                       { close(w.closed); return nil }
func (w *wire) SetReadDeadline(_ time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(_ time.Time) error { return nil }
func (w *wire) RemoteAddr() net.Addr               { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// once is a listener of one connection.
type once struct {
	net.Listener
	conns chan net.Conn
}

func (o once) Accept() (net.Conn, error) {
	if c, ok := <-o.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// FuzzSession: whatever comes, nothing panics, all that goes out are whole replies, and the
// bucket of somebody else is as it was.
func FuzzSession(f *testing.F) {
	for _, text := range []string{
		respfront.Encode("CL.THROTTLE", "k", "1", "1", "60") + respfront.Encode("HELLO", "3") + respfront.Encode("HEADGATE.CHECK", "api", "user=u", "HITS", "2", "ID", "x"),
		"PING\r\nCOMMAND\r\nCLIENT INFO\r\nHELLO 3\r\nCONFIG GET x\r\nCOMMAND INFO ping x\r\nRESET\r\n",
		respfront.Encode("HEADGATE.CHECK", "api", "user=u", "HITS", "-1") + "CL.THROTTLE k 1 1 60 -1\r\nSELECT 1\r\nQUIT\r\n*1\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("fuzz.other")) {
			t.Skip()
		}
		b := newBench(t, "", everyRight)
		other := b.dial()
		const ask = "CL.THROTTLE fuzz.other 5 1 60 "
		before := other.ask(ask + "2")
		w := &wire{in: bytes.NewReader(text), closed: make(chan struct{})}
		l := once{conns: make(chan net.Conn, 1)}
		l.conns <- w
		close(l.conns)
		if err := b.server.Serve(l); err != nil {
			t.Fatal(err)
		}
		<-w.closed
		if after := other.ask(ask + "0"); after != before {
			t.Errorf("%s, and then %s", before, after)
		}
		if b.panics.Load() > 0 {
			t.Fatal("it panicked")
		}
		for out := bufio.NewReader(&w.out); ; {
			if _, err := readReply(out); err == io.EOF {
				return
			} else if err != nil {
				t.Fatalf("%v in %q", err, w.out.String())
			}
		}
	})
}
