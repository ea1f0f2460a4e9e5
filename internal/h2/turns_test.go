package h2

import (
	"fmt"
	"sync"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// tagged answers each call with its own name, what the header says and the message.
type tagged struct {
	name string
	mu   *sync.Mutex
	seen *[]int // calls of each batch
}

func (g tagged) Serve(b *Batch) {
	g.mu.Lock()
	*g.seen = append(*g.seen, len(b.Calls))
	g.mu.Unlock()
	for i := range b.Calls {
		c := &b.Calls[i]
		id, _ := c.Header.Value("x-id")
		c.Reply = fmt.Appendf(c.Reply, "%s %s %s %v", g.name, id, c.Message, c.Header.Values("x-many"))
	}
}

// Calls of two methods that come in one read, with headers that are remembered and others
// that are not, are each answered by their own method and header; those of one method that
// follow each other are one batch.
func TestMethodsInTurn(t *testing.T) {
	var mu sync.Mutex
	var batches []int
	s := &Server{Fast: map[string]Unary{"/a": tagged{"a", &mu, &batches}, "/b": tagged{"b", &mu, &batches}}}
	p := meet(t, s, false)
	want := map[uint32]string{}
	id := uint32(1)
	ask := func(path, x string) {
		p.ask(id, fmt.Sprint("m", id), ":path", path, "x-id", x)
		want[id] = fmt.Sprintf("%s %s m%d []", path[1:], x, id)
		id += 2
	}
	p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
	for round := range 12 {
		for range 3 { // the same again and again: indexed fields alone
			ask("/a", "same")
			ask("/a", "same")
			ask("/b", "other")
		}
		ask("/b", fmt.Sprint("new ", round)) // changes the table
		// Its trailer ends a call of the other method than the batch has.
		p.open(id, ":path", "/a", "x-many", "1", "x-many", "2")
		p.raw(typeData, 0, id, append(appendPrefix(nil, 1), 't')...)
		p.raw(typeHeaders, flagEndHeaders|flagEndStream, id)
		want[id] = "a  t [2]"
		id += 2
		p.flush()
	}
	p.await("all answers", func(g *gotten) bool { return len(g.ended) == len(want) })
	for id, text := range want {
		if got := see(p, func(g *gotten) string { return string(g.bodies[id]) }); got != string(appendPrefix(nil, len(text)))+text {
			t.Errorf("stream %d: %q, want %q", id, got, text)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	longest := 0
	for _, n := range batches {
		longest = max(longest, n)
	}
	if longest < 2 {
		t.Errorf("batches %v: none has two calls", batches)
	}
}

// A block of indexed fields alone is decoded once, until the table changes.
func TestMemo(t *testing.T) {
	var m memo
	one, other := &block{path: "/one"}, &block{path: "/other"}
	m.keep([]byte{0x83, 0x86}, one)
	m.keep([]byte{0x83}, other)
	if m.find([]byte{0x83, 0x86}) != one || m.find([]byte{0x83}) != other || m.find([]byte{0x86}) != nil || !one.kept {
		t.Error("a block is not found, or another one is")
	}
	for i := range byte(memoSize - 1) {
		m.keep([]byte{0x90 + i}, &block{})
	}
	if m.find([]byte{0x83, 0x86}) != nil || m.find([]byte{0x83}) != other {
		t.Error("it is not the oldest that is forgotten")
	}
	if m.forget(); m.find([]byte{0x83}) != nil {
		t.Error("a block is found after the table has changed")
	}
	for text, want := range map[string]bool{
		"\x83\x86": true, "": false, "\x80": false, "\xff\x01": false, "\x83\x40": false, "\x20": false,
		string(make([]byte, memoBlock+1)): false,
	} {
		if isIndexed([]byte(text)) != want {
			t.Errorf("%x has indexed fields alone: %v", text, !want)
		}
	}
}

// A field that was replaced in the client's table is not found under its old index.
func TestMemoAndTheTable(t *testing.T) {
	var mu sync.Mutex
	var batches []int
	p := meet(t, &Server{Fast: map[string]Unary{"/a": tagged{"a", &mu, &batches}}}, false)
	usual := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/a"}, {"content-type", contentTypeGRPC}}
	p.encode(usual) // all of it enters the table, with the next
	p.enc = hpack.NewEncoder(&p.block)
	send := func(id uint32, block []byte) {
		p.out.Write(append(appendFrame(nil, typeHeaders, flagEndHeaders, id, len(block)), block...))
		p.raw(typeData, flagEndStream, id, appendPrefix(nil, 0)...)
		p.flush()
	}
	send(1, p.encode(append(usual, [2]string{"x-id", "first"})))
	again := p.encode(append(usual, [2]string{"x-id", "first"})) // indexed
	if !isIndexed(again) {
		t.Fatalf("%x", again)
	}
	send(3, again)
	send(5, again)
	send(7, p.encode(append(usual, [2]string{"x-id", "second"}))) // enters: all others move
	moved := p.encode(append(usual, [2]string{"x-id", "first"}))
	send(9, moved)
	send(11, again) // the same bytes mean other fields now
	p.await("the answers", func(g *gotten) bool { return g.ended[9] && (g.ended[11] || g.resets[11] != 0) })
	for id, want := range map[uint32]string{1: "a first  []", 3: "a first  []", 5: "a first  []", 7: "a second  []", 9: "a first  []"} {
		if got := see(p, func(g *gotten) string { return string(g.bodies[id]) }); got != string(appendPrefix(nil, len(want)))+want {
			t.Errorf("stream %d: %q, want %q", id, got, want)
		}
	}
	if got := see(p, func(g *gotten) string { return string(g.bodies[11]) }); got == see(p, func(g *gotten) string { return string(g.bodies[9]) }) {
		t.Error("a block of before the change is answered as before")
	}
}
