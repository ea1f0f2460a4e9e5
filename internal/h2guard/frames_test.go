package h2guard

import (
	"bytes"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/alloctest"
)

// frame is a frame of n bytes.
func frame(kind, flags byte, stream uint32, n int) []byte {
	return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, make([]byte, n)...)
}

func frameWith(kind, flags byte, stream uint32, payload []byte) []byte {
	f := frame(kind, flags, stream, len(payload))
	copy(f[headerSize:], payload)
	return f
}

// FuzzFrames: what frames cost does not depend on the pieces they come in, and nothing
// that comes makes the reader fail.
func FuzzFrames(f *testing.F) {
	f.Add(bytes.Repeat(frame(typePing, 0, 0, 8), 3), byte(5))
	f.Add(append(frame(typeHeaders, 4, 1, 30), frame(typeReset, 0, 1, 4)...), byte(1))
	f.Add(append(frame(typeData, flagEnd, 1, 300), frame(9, 0, 1, 0)...), byte(200))
	f.Fuzz(func(t *testing.T, text []byte, piece byte) {
		if len(text) == 0 {
			return // whoever reads nothing has not read once
		}
		var whole, parts client
		var a, b frames
		now := time.Unix(1, 0)
		want := whole.read(&a, text, now)
		got := int64(0)
		for rest := text; len(rest) > 0; {
			n := min(int(piece)+1, len(rest))
			got += parts.read(&b, rest[:n], now)
			rest = rest[n:]
		}
		if got != want || whole != parts || a.between() != b.between() || want < 0 || want > int64(len(text)/headerSize+1)*costUseless {
			t.Fatalf("cost %d in pieces of %d, %d as a whole; %+v, %+v", got, piece, want, parts, whole)
		}
	})
}

// feed gives frames of a client to a connection at a time, without one.
func feed(c *conn, now time.Time, text []byte) (left int64) {
	c.refill(now)
	return c.budget.Add(-c.client.read(&c.in, text, now))
}

// TestTimeoutsAreNoFlood: a client whose calls all run into their timeouts is no
// attacker: 12,000 calls in a second on one connection, of which none is answered.
func TestTimeoutsAreNoFlood(t *testing.T) {
	c := newConn(nil, nil, time.Now)
	now := c.client.refilled
	open, reset := uint32(1), uint32(1)
	for range 60_000 { // a minute, by the millisecond
		now = now.Add(time.Millisecond)
		var text []byte
		for range 12 {
			text = append(text, frame(typeHeaders, 4, open, 40)...)
			text = append(text, frame(typeData, flagEnd, open, 60)...)
			if open > 20*24 { // 20 ms later
				text = append(text, frame(typeReset, 0, reset, 4)...)
				reset += 2
			}
			open += 2
		}
		if left := feed(c, now, text); left < fullBudget/2 {
			t.Fatalf("after %d calls: %d left", open/2, left)
		}
	}
}

// TestStarvedServerIsNoFlood: a server that was kept from reading finds streams and
// their resets together. Half a second of that is forgiven.
func TestStarvedServerIsNoFlood(t *testing.T) {
	c := newConn(nil, nil, time.Now)
	now := c.client.refilled
	var text []byte
	for stream := uint32(1); stream < 2*2000; stream += 2 {
		text = append(text, frame(typeHeaders, 4, stream, 40)...)
		text = append(text, frame(typeReset, 0, stream, 4)...)
	}
	for i := range 10 {
		now = now.Add(4 * time.Second)
		c.client = client{refilled: c.client.refilled}
		if left := feed(c, now, text); left < 0 {
			t.Fatalf("the spell %d ended the connection", i)
		}
	}
}

// TestAnswersForgive: what the server answers pays for what clients do beside it, without
// any time passing: a PING, two WINDOW_UPDATE and trailers to each call.
func TestAnswersForgive(t *testing.T) {
	c := newConn(nil, nil, time.Now)
	now := c.client.refilled
	answer := append(append(frame(typeHeaders, 4, 1, 20), frame(typeData, 0, 1, 30)...), frame(typeHeaders, 5, 1, 20)...)
	for stream := uint32(1); stream < 200_000; stream += 2 {
		var text []byte
		for _, f := range [][]byte{
			frame(typeHeaders, 4, stream, 40), frame(typeData, 0, stream, 60), frame(typeHeaders, 5, stream, 4),
			frame(typePing, 0, 0, 8), frame(typeWindowUpdate, 0, 0, 4), frame(typeWindowUpdate, 0, stream, 4),
		} {
			text = append(text, f...)
		}
		if left := feed(c, now, text); left < fullBudget/2 {
			t.Fatalf("after %d calls: %d left", stream/2, left)
		}
		c.budget.Add(answered(&c.mu.out, answer))
		c.budget.Store(min(c.budget.Load(), fullBudget))
	}
}

func TestReadAllocs(t *testing.T) {
	c := newConn(nil, nil, time.Now)
	text := bytes.Repeat(append(frame(typeHeaders, 4, 1, 40), frame(typeData, flagEnd, 1, 60)...), 10)
	if n := alloctest.PerRun(100, func() { feed(c, c.client.refilled, text); answered(&c.mu.out, text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkFrames: one frame, half of them headers and half data.
func BenchmarkFrames(b *testing.B) {
	var c client
	var f frames
	text := bytes.Repeat(append(frame(typeHeaders, 4, 1, 40), frame(typeData, flagEnd, 1, 60)...), 16)
	now := time.Unix(1, 0)
	for range b.N / 32 {
		c.read(&f, text, now)
	}
}
