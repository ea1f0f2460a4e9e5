package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// server is the other end of the connection of a pipe. A test says what it does.
type server struct {
	testing.TB
	net.Conn
	*reader
}

// hears waits for the next command, which must be of these words.
func (s server) hears(words ...string) {
	s.Helper()
	m, err := s.message()
	got, wrong := m.Texts()
	if err = errors.Join(err, wrong); err != nil || !slices.Equal(got, words) {
		s.Fatalf("the server hears %.200q and %v, want %.200q", got, err, words)
	}
}

// says sends text.
func (s server) says(text string) {
	s.Helper()
	if _, err := io.WriteString(s.Conn, text); err != nil {
		s.Fatal(err)
	}
}

// echoes answers each command by its last word, until the connection ends.
func (s server) echoes() {
	var answers []byte
	for {
		m, err := s.message()
		if err != nil {
			return
		}
		words, err := m.Texts()
		if err != nil {
			s.Error(err)
			return
		}
		answers = encode(answers, bulkOf(words[len(words)-1]))
		if s.from.Buffered() > 0 {
			continue // more of them are there
		}
		if _, err := s.Write(answers); err != nil {
			return
		}
		answers = answers[:0]
	}
}

// overTCP runs a test over sockets of small buffers. It is never quiet for long enough to ask
// for a sign of life.
func overTCP(t *testing.T, test func(*testing.T, *Pipe, server)) {
	ours, theirs := sockets(t)
	p := NewPipe(ours, Options{Quiet: time.Hour, Patience: time.Hour})
	t.Cleanup(p.Close)
	test(t, p, server{t, theirs, newReader(theirs)})
}

// sockets returns the ends of one connection.
func sockets(t *testing.T) (ours, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ends := make([]*net.TCPConn, 2)
	for i, open := range []func() (net.Conn, error){
		func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		l.Accept,
	} {
		end, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end.Close() })
		ends[i] = end.(*net.TCPConn)
		if err := errors.Join(ends[i].SetReadBuffer(readBytes), ends[i].SetWriteBuffer(readBytes)); err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], ends[1]
}

// inBubble runs a test in a bubble of time, over a connection without any buffer.
func inBubble(t *testing.T, o Options, test func(*testing.T, *Pipe, server)) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		p := NewPipe(ours, o)
		defer p.Close()
		defer theirs.Close()
		test(t, p, server{t, theirs, newReader(theirs)})
	})
}

// waiter is a context that says when it is waited for: then all that was asked is on its way.
type waiter struct {
	context.Context
	waited sleep.Nudge
}

func (w waiter) Done() <-chan struct{} {
	w.waited.Give()
	return w.Context.Done()
}

// ask asks commands, and returns once the pipe has taken them in or the answers are there.
func ask(ctx context.Context, p *Pipe, commands ...Command) <-chan []Answer {
	w := waiter{ctx, sleep.NewNudge()}
	answers := make(chan []Answer, 1)
	go func() {
		answers <- p.AskAll(w, commands...)
		w.waited.Give()
	}()
	<-w.waited
	return answers
}

// expect reports answers that are not these texts, or where one is an error, that error.
func expect(t *testing.T, answers []Answer, want ...any) {
	t.Helper()
	if len(answers) != len(want) {
		t.Fatalf("%d answers, want %d", len(answers), len(want))
	}
	for i, a := range answers {
		text, err := a.Text()
		if wrong, is := want[i].(error); is && !errors.Is(err, wrong) || !is && (err != nil || text != want[i]) {
			t.Errorf("answer %d is %.100q and %v, want %v", i, text, err, want[i])
		}
	}
}

// TestPipeAnswersWhoAsked: each of many callers gets the answers to what he has asked, in that order.
func TestPipeAnswersWhoAsked(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		var all sync.WaitGroup
		all.Go(s.echoes)
		var callers sync.WaitGroup
		for caller := range 64 {
			callers.Go(func() {
				for turn := range 200 {
					commands := make([]Command, 1+turn%3)
					for i := range commands {
						commands[i] = Words("ECHO", fmt.Sprint(caller, turn, i))
					}
					for i, a := range p.AskAll(t.Context(), commands...) {
						if got, err := a.Text(); err != nil || got != fmt.Sprint(caller, turn, i) {
							t.Errorf("answer %d of turn %d of caller %d is %q, %v", i, turn, caller, got, err)
							return
						}
					}
				}
			})
		}
		callers.Wait()
		p.Close()
		all.Wait()
	})
}

func TestPipeAsksOneCommand(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		for _, test := range []struct {
			said string
			want any
		}{{"+OK\r\n", "OK"}, {"$-1\r\n", ErrNil}, {"$2\r\nhi\r\n", "hi"}, {"*0\r\n", ErrProtocol}} {
			answer := make(chan Answer, 1)
			go func() { answer <- p.Ask(t.Context(), Script("EVAL", "x", []string{"k"}, []string{"a"})) }()
			s.hears("EVAL", "x", "1", "k", "a")
			s.says(test.said)
			expect(t, []Answer{<-answer}, test.want)
		}
	})
}

// TestPipeAsksSeveralCommands: their answers are of any kind, and an error is that of one command.
func TestPipeAsksSeveralCommands(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		asked := ask(t.Context(), p, Words("A", "1"), Words("B"), Words("C", "", "3"), Words("D"))
		s.hears("A", "1")
		s.hears("B")
		s.hears("C", "", "3")
		s.hears("D")
		s.says("+one\r\n-ERR two\r\n$-1")
		s.says("\r\n*2\r\n:1\r\n+x\r\n")
		answers := <-asked
		expect(t, answers[:1], "one")
		if no, is := errors.AsType[*Error](answers[1].Err()); !is || no.Text != "ERR two" {
			t.Errorf("the second answer is %v, want the error of the server", answers[1])
		}
		expect(t, answers[2:3], ErrNil)
		if m, err := answers[3].Message(); err != nil || !reflect.DeepEqual(m, listOf(integerOf(1), simpleOf("x"))) {
			t.Errorf("the last answer is %v, %v", m, err)
		}
	})
}

// TestPipeSendsNothing: nothing is sent for no commands, or where the context has ended before.
func TestPipeSendsNothing(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		ended, end := context.WithCancel(t.Context())
		end()
		expect(t, p.AskAll(t.Context()))
		expect(t, p.AskAll(ended))
		expect(t, p.AskAll(ended, Words("A"), Words("B")), context.Canceled, context.Canceled)
		asked := ask(t.Context(), p, Words("C"))
		s.hears("C")
		s.says("+c\r\n")
		expect(t, <-asked, "c")
	})
}

// TestPipeDropsLateAnswers: whoever's context ends waits no longer, and what is answered to him
// later goes to nobody.
func TestPipeDropsLateAnswers(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx, p, Words("A"), Words("B"))
		s.hears("A")
		s.hears("B")
		s.says("+a\r\n")
		cancel()
		expect(t, <-first, context.Canceled, context.Canceled)
		second := ask(t.Context(), p, Words("C"))
		s.hears("C")
		s.says("+b\r\n+c\r\n")
		expect(t, <-second, "c")
	})
}

// TestPipeWaitsUntilTheContextEnds: a deadline ends the waiting, not the connection.
func TestPipeWaitsUntilTheContextEnds(t *testing.T) {
	inBubble(t, Options{Quiet: time.Hour, Patience: time.Hour}, func(t *testing.T, p *Pipe, s server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := ask(ctx, p, Words("A"))
		s.hears("A")
		expect(t, <-first, context.DeadlineExceeded)
		second := ask(t.Context(), p, Words("B"))
		s.hears("B")
		s.says("+a\r\n+b\r\n")
		expect(t, <-second, "b")
	})
}

// TestPipeEndsWithTheServer: what waits for answers gets the error of the connection, as what is
// asked later does. Answers that came before remain.
func TestPipeEndsWithTheServer(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		first, second := ask(t.Context(), p, Words("A"), Words("B")), ask(t.Context(), p, Words("C"))
		for _, word := range []string{"A", "B", "C"} {
			s.hears(word)
		}
		s.says("+a\r\n")
		s.Close()
		expect(t, <-first, "a", io.EOF)
		expect(t, <-second, io.EOF)
		expect(t, p.AskAll(t.Context(), Words("D"), Words("E")), io.EOF, io.EOF)
		p.Close()
		expect(t, p.AskAll(t.Context(), Words("F")), io.EOF) // the first cause counts
	})
}

// TestPipeEndsWhereItCannotWrite: that is the end of a connection on which the server could
// still speak.
func TestPipeEndsWhereItCannotWrite(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		waiting := ask(t.Context(), p, Words("A"))
		s.hears("A")
		if err := p.conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		err := p.Ask(t.Context(), Words("B")).Err()
		if err == nil || errors.Is(err, io.EOF) {
			t.Fatalf("asked with the error %v, want that of writing", err)
		}
		expect(t, <-waiting, err)
		expect(t, p.AskAll(t.Context(), Words("C")), err)
	})
}

func TestPipeCloses(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		waiting := ask(t.Context(), p, Words("A"), Words("B"))
		s.hears("A")
		s.hears("B")
		var both sync.WaitGroup
		both.Go(p.Close)
		both.Go(p.Close)
		both.Wait()
		expect(t, <-waiting, ErrClosed, ErrClosed)
		expect(t, p.AskAll(t.Context(), Words("C")), ErrClosed)
		if _, err := s.message(); err != io.EOF {
			t.Errorf("the server hears %v, want the end", err)
		}
	})
}

// TestPipeEndsWithWhatIsNoAnswer: a server that says what nobody asked for, or garbage, is left.
func TestPipeEndsWithWhatIsNoAnswer(t *testing.T) {
	for _, test := range []struct {
		name    string
		asks    bool
		said    string
		waiting any
	}{
		{"an answer to no question", false, "+hello\r\n", nil},
		{"an answer too many", true, "+a\r\n+b\r\n", "a"},
		{"garbage", true, "HTTP/1.1 400 Bad Request\r\n", ErrProtocol},
		{"garbage in a list", true, "*2\r\n:1\r\n\r\n", ErrProtocol},
		{"garbage to no question", false, "\r\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			overTCP(t, func(t *testing.T, p *Pipe, s server) {
				var waiting <-chan []Answer
				if test.asks {
					waiting = ask(t.Context(), p, Words("A"))
					s.hears("A")
				}
				s.says(test.said)
				<-p.over
				if test.asks {
					expect(t, <-waiting, test.waiting)
				}
				expect(t, p.AskAll(t.Context(), Words("B")), ErrProtocol)
				if _, err := s.message(); err == nil {
					t.Error("the server still hears something")
				}
			})
		})
	}
}

// TestPipeWaitsForNoServerThatReadsNothing: whoever asks more than the sockets take at once does
// not wait longer than his context, and what was asked is sent whole and in order when the
// server reads again.
func TestPipeWaitsForNoServerThatReadsNothing(t *testing.T) {
	large := make([]byte, 16<<20) // far more than the sockets buffer
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		ctx, cancel := context.WithCancel(t.Context())
		first := ask(ctx, p, Words("SET", string(large)))
		meanwhile := make([]<-chan []Answer, 20)
		for i := range meanwhile {
			meanwhile[i] = ask(t.Context(), p, Words("ECHO", strconv.Itoa(i)))
		}
		cancel()
		expect(t, <-first, context.Canceled)
		m, err := s.message()
		words, _ := m.Texts()
		if err != nil || len(words) != 2 || !bytes.Equal([]byte(words[1]), large) {
			t.Fatalf("the large command did not arrive as it was asked: %d words, %v", len(words), err)
		}
		s.says("+late\r\n")
		for i := range meanwhile {
			s.hears("ECHO", strconv.Itoa(i))
			s.says("+" + strconv.Itoa(i) + "\r\n")
		}
		for i := range meanwhile {
			expect(t, <-meanwhile[i], strconv.Itoa(i))
		}
		last := ask(t.Context(), p, Words("LAST"))
		s.hears("LAST")
		s.says("+last\r\n")
		expect(t, <-last, "last")
	})
}

// TestPipeClosesWhileItWrites: a server that reads nothing keeps nobody from closing.
func TestPipeClosesWhileItWrites(t *testing.T) {
	overTCP(t, func(t *testing.T, p *Pipe, s server) {
		waiting := ask(t.Context(), p, Words("SET", strings.Repeat("x", 16<<20)))
		p.Close()
		expect(t, <-waiting, ErrClosed)
	})
}

// TestPipeIsFull: where too much waits to be written, nothing more is taken in.
func TestPipeIsFull(t *testing.T) {
	inBubble(t, Options{Quiet: time.Hour, Patience: time.Hour}, func(t *testing.T, p *Pipe, s server) {
		ask(t.Context(), p, Words("FIRST"))
		synctest.Wait() // now it is being written
		waiting := ask(t.Context(), p, Words("SET", strings.Repeat("x", maxWaiting)))
		expect(t, p.AskAll(t.Context(), Words("A"), Words("B")), ErrFull, ErrFull)
		s.hears("FIRST")
		synctest.Wait() // now the second one is
		last := ask(t.Context(), p, Words("LAST"))
		p.Close()
		expect(t, <-waiting, ErrClosed)
		expect(t, <-last, ErrClosed) // it was taken in
	})
}

const (
	quiet    = 10 * time.Second
	patience = 3 * time.Second
)

// TestPipeAsksForASignOfLife: a server that has said nothing for a while is asked for one, not
// before, and it goes on after any answer.
func TestPipeAsksForASignOfLife(t *testing.T) {
	for _, said := range []string{"+PONG\r\n", "-NOAUTH Authentication required.\r\n"} {
		t.Run(said[:5], func(t *testing.T) {
			inBubble(t, Options{Quiet: quiet, Patience: patience}, func(t *testing.T, p *Pipe, s server) {
				heard := make(chan Message)
				go func() {
					defer close(heard)
					for {
						m, err := s.message()
						if err != nil {
							return
						}
						heard <- m
					}
				}()
				hears := func(word string) {
					t.Helper()
					if m := <-heard; !reflect.DeepEqual(m, listOf(bulkOf(word))) {
						t.Fatalf("the server hears %v, want %s", m, word)
					}
				}
				silent := func(d time.Duration) {
					t.Helper()
					select {
					case m := <-heard:
						t.Fatalf("the server hears %v", m)
					case <-time.After(d):
					}
				}
				silent(quiet - 1)
				for range 3 {
					hears("PING")
					silent(patience - 1)
					s.says(said)
					asked := ask(t.Context(), p, Words("A"))
					hears("A")
					s.says("+a\r\n")
					expect(t, <-asked, "a")
					silent(quiet - patience) // it has said something
				}
				for range 5 { // it says something in time, always
					asked := ask(t.Context(), p, Words("B"))
					hears("B")
					s.says("+b\r\n")
					expect(t, <-asked, "b")
					silent(quiet)
				}
				s.Conn.Close()
				for range heard {
				}
			})
		})
	}
}

// TestPipeLeavesASilentServer: one that gives no sign of life in time is left, with all that
// waits for it, and not before.
func TestPipeLeavesASilentServer(t *testing.T) {
	for _, test := range []struct {
		name  string
		reads bool
	}{{"that reads", true}, {"that reads nothing", false}} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, Options{Quiet: quiet, Patience: patience}, func(t *testing.T, p *Pipe, s server) {
				waiting := ask(t.Context(), p, Words("A"))
				if test.reads {
					s.hears("A")
					s.hears("PING")
				} else if err := sleep.For(t.Context(), quiet); err != nil {
					t.Fatal(err)
				}
				if err := sleep.For(t.Context(), patience-1); err != nil {
					t.Fatal(err)
				}
				select {
				case <-p.over:
					t.Fatal("it is left too early")
				default:
				}
				expect(t, <-waiting, errSilent)
				expect(t, p.AskAll(t.Context(), Words("B")), errSilent)
			})
		})
	}
}
