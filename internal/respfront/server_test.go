package respfront_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/respfront"
	"github.com/headgate/headgate/internal/turns"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
)

const ruleText = `
domain: api
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 5, algorithm: fixed_window}
  descriptors: [{key: path, value: /a=b, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: fixed_window}}]
- {key: never, rate_limit: {unit: minute, requests_per_unit: 0}}
- {key: free, rate_limit: {unlimited: true}}
- {key: closed, failure_mode: closed, rate_limit: {unit: minute, requests_per_unit: 5}}
`

// noon is when the clocks of the tests stand.
const noon = limit.Micros(1_770_000_000_000_000) / 60_000_000 * 60_000_000

// bench is a server, what it stands on, and what asks it.
type bench struct {
	t      *testing.T
	now    atomic.Int64
	asked  atomic.Int64 // questions to the store
	broken atomic.Bool
	panics atomic.Int64
	// panicking makes whoever asks panic.
	panicking atomic.Bool
	file      string // of callers, "" for none
	callers   *callers.File
	refused   *refusals.Log
	server    *respfront.Server
	addr      string
	// stop ends the server.
	stop func()
}

// counted counts the questions to a store, and can be broken.
type counted struct {
	store.Store
	store.Swapper
	b *bench
}

func (c counted) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	store.Waits(ctx)
	c.b.asked.Add(1)
	if c.b.broken.Load() {
		for i := range results {
			results[i] = store.Result{Err: &store.Error{Op: "take", Store: "test", Reason: store.Unavailable}}
		}
		return
	}
	c.Store.Take(ctx, takes, results)
}

// newBench starts a server. Callers are those of the file; without one everybody has rights.
func newBench(t *testing.T, file string, rights headgate.Rights) *bench {
	t.Helper()
	return newBenchOf(t, rulefile.File{Name: "api.yaml", Data: []byte(ruleText)}, file, rights, nil)
}

func newBenchOf(t *testing.T, rulesFile rulefile.File, file string, rights headgate.Rights, places *turns.Turns) *bench {
	t.Helper()
	b := &bench{t: t, refused: refusals.New(refusals.Options{})}
	b.now.Store(int64(noon))
	memory, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.Micros(b.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	limiter, err := headgate.New(headgate.Options{Store: counted{memory, memory, b}, Rules: load(t, rulesFile)})
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		b.file = filepath.Join(t.TempDir(), "callers.yaml")
		b.write(file)
		if b.callers, err = callers.Load(b.file); err != nil {
			t.Fatal(err)
		}
	}
	b.server, err = respfront.New(respfront.Options{
		Entrance: faulty{b, respfront.Callers(callers.New(callers.Options[*headgate.Door]{
			File: b.callers, Listener: callers.Redis, Anonymous: rights, Refusals: b.refused, Door: refusals.Redis,
			Open: func(_ string, r headgate.Rights) *headgate.Door {
				return limiter.Door(headgate.DoorOptions{Name: "redis", Rights: r})
			},
		}))},
		Turns:   places,
		OnPanic: func(any, []byte) { b.panics.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.serve()
	return b
}

// faulty is an Entrance whose Checkers panic when that is set.
type faulty struct {
	b *bench
	respfront.Entrance
}

func (f faulty) Enter(s callers.Shown) (respfront.Checker, error) {
	if f.b.panicking.Load() {
		return panicky{}, nil
	}
	return f.Entrance.Enter(s)
}

// panicky panics.
type panicky struct{ respfront.Checker }

func load(t testing.TB, file rulefile.File) *rules.Set {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{file}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (b *bench) write(file string) {
	b.t.Helper()
	if err := os.WriteFile(b.file, []byte(file), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) serve() {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.addr = l.Addr().String()
	served := make(chan error)
	go func() { served <- b.server.Serve(l) }()
	b.stop = sync.OnceFunc(func() {
		l.Close()
		if err := <-served; err != nil {
			b.t.Error(err)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		b.server.Shutdown(ended)
	})
	b.t.Cleanup(b.stop)
}

// client is a connection.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func (b *bench) dial() *client {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(eventually.Patience)); err != nil {
		b.t.Fatal(err)
	}
	return &client{b.t, conn, bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the next reply in the way of redis-cli, on one line.
func (c *client) receive() string {
	c.t.Helper()
	text, err := readReply(c.in)
	if err != nil {
		c.t.Fatalf("reply: %v", err)
	}
	return text
}

// ask sends a line as it is typed and returns the reply.
func (c *client) ask(line string) string {
	c.t.Helper()
	c.send(line + "\r\n")
	return c.receive()
}

// ended returns nil when the connection has ended, without another reply.
func (c *client) ended() error {
	if text, err := readReply(c.in); err == nil {
		return fmt.Errorf("got %s", text)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// readReply reads one reply: maps in braces, arrays in brackets, strings as they are.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(line, "\r\n") || len(line) < 3 {
		return "", fmt.Errorf("the line %q", line)
	}
	rest := line[1 : len(line)-2]
	switch line[0] {
	case '+', '-', ':':
		return line[:1] + rest, nil
	case '_':
		return "null", nil
	}
	var n int
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
		return "", fmt.Errorf("the line %q: %w", line, err)
	}
	switch line[0] {
	case '$':
		if n < 0 {
			return "nil", nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(in, text)
		return string(text[:n]), err
	case '*', '%':
		open, end := "[", "]"
		if line[0] == '%' {
			open, end, n = "{", "}", 2*n
		}
		var parts []string
		for range n {
			part, err := readReply(in)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return open + strings.Join(parts, " ") + end, nil
	}
	return "", fmt.Errorf("the line %q", line)
}

// everyRight is that of callers of whom nothing is asked.
var everyRight = headgate.Rights{Check: true, NameLimits: true, GiveBack: true}

// TestConversation: what one caller without a credential is answered, in turn. The clock stands.
func TestConversation(t *testing.T) {
	b := newBench(t, "", everyRight)
	c := b.dial()
	for _, step := range []struct{ ask, want string }{
		// The example of redis-cell.
		{"CL.THROTTLE user123 15 30 60", "[:0 :16 :15 :-1 :2]"},
		{"cl.throttle user123 15 30 60 15", "[:0 :16 :0 :-1 :32]"},
		{"CL.THROTTLE user123 15 30 60", "[:1 :16 :0 :2 :32]"},
		{"CL.THROTTLE user123 15 30 60 0", "[:0 :16 :0 :-1 :32]"},
		{"CL.THROTTLE user123 15 30 60 17", "[:1 :16 :0 :-1 :32]"}, // never
		{"CL.THROTTLE user123 15 30 60 -6", "[:0 :16 :6 :-1 :20]"},
		{"CL.THROTTLE none 0 1 1", "[:0 :1 :0 :-1 :1]"},
		{"CL.THROTTLE none 0 1 1", "[:1 :1 :0 :1 :1]"},
		{"CL.THROTTLE shut -1 1 1", "[:1 :0 :0 :-1 :0]"},
		{"CL.THROTTLE user123 15 30", "-Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"},
		{"CL.THROTTLE user123 15 30 60 1 1", "-Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"},
		{"CL.THROTTLE user123 15 x 60", "-Cell error: Couldn't parse as integer: x"},
		{"CL.THROTTLE user123 15 0 60", "-Cell error: Zero rates are not supported"},
		{"CL.THROTTLE user123 15 30 0", "-Cell error: Zero rates are not supported"},
		{"CL.THROTTLE user123 15 -1 60", "-Cell error: a limit below 0"},
		{"CL.THROTTLE user123 15 30 -1", "-Cell error: a limit below 0"},
		{"CL.THROTTLE user123 -2 30 60", "-Cell error: a limit below 0; hint: max_burst is 0 or more, count and period are 1 or more"},
		{"CL.THROTTLE user123 15 30 31622401", "-Cell error: a period of 31622401 seconds; hint: 31622400 at most"},
		{"CL.THROTTLE user123 9223372036854775807 30 60", "-Cell error: limit: burst"},
		{"CL.THROTTLE user123 15 9223372036854775807 60", "-Cell error: limit: quota"},
		{"CL.THROTTLE user123 15 30 60 9223372036854775807", "-Cell error: a quantity of 9223372036854775807; hint: 1125899906842624 at most"},
		{"CL.THROTTLE user123 15 30 60 -9223372036854775808", "-Cell error: a quantity of -9223372036854775808; hint: 1125899906842624 at most"},

		{"HEADGATE.CHECK api user=ann", "[:0 :5 :4 :-1 :60]"},
		{"HEADGATE.CHECK api user=ann HITS 3", "[:0 :5 :1 :-1 :60]"},
		{"HEADGATE.CHECK api user=ann HITS 0", "[:0 :5 :1 :-1 :60]"},
		{"headgate.check api user=ann hits 2", "[:1 :5 :1 :60 :60]"},
		{"HEADGATE.CHECK api user=ann HITS -2", "[:0 :5 :3 :-1 :60]"},
		{"HEADGATE.CHECK api user=ann HITS 6", "[:1 :5 :3 :-1 :60]"},
		{"HEADGATE.CHECK api user=ann path=/a=b HITS 0", "[:0 :2 :2 :-1 :0]"},
		{"HEADGATE.CHECK api user=ben ID 7", "[:0 :5 :4 :-1 :60]"},
		{"HEADGATE.CHECK api user=ben ID 7", "[:0 :5 :4 :-1 :60]"},
		{"HEADGATE.CHECK api user=ben ID 7 HITS 2", "-ERR "},
		{"HEADGATE.CHECK api user=ben ID 8", "[:0 :5 :3 :-1 :60]"},
		{"HEADGATE.CHECK api never=x", "[:1 :0 :0 :-1 :0]"},
		{"HEADGATE.CHECK api free=x", "[:0 :-1 :-1 :-1 :-1]"},
		{"HEADGATE.CHECK api other=x", "[:0 :-1 :-1 :-1 :-1]"},
		{"HEADGATE.CHECK nowhere user=x", "[:0 :-1 :-1 :-1 :-1]"},
		{"HEADGATE.CHECK api", "-ERR usage: HEADGATE.CHECK domain key=value [key=value ...] [HITS hits] [ID id]"},
		{"HEADGATE.CHECK api HITS 1", "-ERR usage: "},
		{"HEADGATE.CHECK api user=ann HITS", `-ERR "HITS" is no entry; usage: `},
		{"HEADGATE.CHECK api user=ann HITS x", `-ERR HITS "x" is no whole number; hint: `},
		{"HEADGATE.CHECK api user=ann HITS -9223372036854775808", `-ERR HITS "-9223372036854775808" is no whole number`},
		{"HEADGATE.CHECK api user=ann HITS 9223372036854775807", "-ERR HITS is more than 1125899906842624"},
		{"HEADGATE.CHECK api user=ann TIMES 2", `-ERR "TIMES" is neither an entry nor HITS nor ID; usage: `},
		{"HEADGATE.CHECK api =ann", "-ERR entry 0: "},
		{"HEADGATE.CHECK headgate.caller key=user123", "-ERR the domain headgate.caller is that of CL.THROTTLE; hint: ask by that command"},
	} {
		if got := c.ask(step.ask); got != step.want && !(step.want[0] == '-' && strings.HasPrefix(got, step.want)) {
			t.Errorf("%s: %s, want %s", step.ask, got, step.want)
		}
	}
}

// TestBytes: keys and values of any bytes are kept apart, and an answer stays one line.
func TestBytes(t *testing.T) {
	c := newBench(t, "", everyRight).dial()
	for _, key := range []string{"\r\n", "\x00", "\xff\xfe", " ", "+OK\r\n"} {
		for _, want := range []string{"[:0 :1 :0 :-1 :60]", "[:1 :1 :0 :60 :60]"} {
			c.send(respfront.Encode("CL.THROTTLE", key, "0", "1", "60"))
			if got := c.receive(); got != want {
				t.Errorf("%q: %s, want %s", key, got, want)
			}
		}
	}
	for _, args := range [][]string{{"CL.THROTTLE", "", "0", "1", "60"}, {"CL.THROTTLE", "k", "\r\n-1", "1", "60"}, {"a\r\n+OK\r\n"}, {"HEADGATE.CHECK", "api", "\r\n", "\r\n"}} {
		c.send(respfront.Encode(args...) + respfront.Encode("PING"))
		if got := c.receive(); got[0] != '-' {
			t.Errorf("%q: %s", args, got)
		}
		if got := c.receive(); got != "+PONG" {
			t.Errorf("after %q: %s", args, got)
		}
	}
}

// TestPipelines: what has come together is decided together, and answered in order.
func TestPipelines(t *testing.T) {
	b := newBench(t, "", everyRight)
	c := b.dial()
	var text strings.Builder
	const each = 40
	for range each {
		text.WriteString(respfront.Encode("CL.THROTTLE", "k", "9", "1", "60"))
	}
	text.WriteString("CL.THROTTLE k\r\nHEADGATE.CHECK api\r\nPING 1\r\nnonsense\r\n")
	for range each {
		text.WriteString(respfront.Encode("HEADGATE.CHECK", "api", "user=u"))
	}
	text.WriteString("ECHO 2\r\n")
	c.send(text.String())
	passed := func() (n int) {
		for range each {
			if strings.HasPrefix(c.receive(), "[:0 ") {
				n++
			}
		}
		return n
	}
	if n := passed(); n != 10 {
		t.Errorf("%d of 10 passed", n)
	}
	for _, want := range []string{"-Cell error: Usage", "-ERR usage"} {
		if got := c.receive(); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := c.receive(); got != "1" {
		t.Errorf("%s", got)
	}
	if got := c.receive(); got != "-ERR unknown command 'nonsense', with args beginning with: ; hint: nothing is stored here, CL.THROTTLE and HEADGATE.CHECK ask for a decision, and COMMAND lists all" {
		t.Errorf("%s", got)
	}
	if n := passed(); n != 5 {
		t.Errorf("%d of 5 passed", n)
	}
	if got := c.receive(); got != "2" {
		t.Errorf("%s", got)
	}
	// It is up to the network how much of it comes together; all of it does here as a rule.
	if n := b.asked.Load(); n >= 2*each {
		t.Errorf("%d questions to the store", n)
	}
}

// TestAnswersDoNotWait: a command that has come is answered, though the next one is not whole.
func TestAnswersDoNotWait(t *testing.T) {
	c := newBench(t, "", everyRight).dial()
	c.send(respfront.Encode("CL.THROTTLE", "k", "0", "1", "60") + "*2\r\n$4\r\nECH")
	if got := c.receive(); got != "[:0 :1 :0 :-1 :60]" {
		t.Error(got)
	}
	c.send("O\r\n$1\r\nx\r\n")
	if got := c.receive(); got != "x" {
		t.Error(got)
	}
}

// TestWithoutTheStore: failure modes answer, and what is not known is said to be so.
func TestWithoutTheStore(t *testing.T) {
	b := newBench(t, "", everyRight)
	b.broken.Store(true)
	c := b.dial()
	for ask, want := range map[string]string{
		"CL.THROTTLE k 4 1 60":        "[:0 :5 :-1 :-1 :-1]",
		"HEADGATE.CHECK api user=u":   "[:0 :5 :-1 :-1 :-1]",
		"HEADGATE.CHECK api closed=u": "[:1 :5 :-1 :1 :-1]",
	} {
		if got := c.ask(ask); got != want {
			t.Errorf("%s: %s, want %s", ask, got, want)
		}
	}
}

// TestNoCommands: bytes that are no command end the connection, and what came before is answered.
func TestNoCommands(t *testing.T) {
	b := newBench(t, "", everyRight)
	for _, text := range []string{"*1\r\n:1\r\n", "*99\r\n", "*1\r\n$65537\r\n", "*x\r\n"} {
		c := b.dial()
		c.send(respfront.Encode("CL.THROTTLE", text, "0", "1", "60") + text)
		if got := c.receive(); !strings.HasPrefix(got, "[:0 ") {
			t.Errorf("%.20q: %s", text, got)
		}
		if got := c.receive(); !strings.HasPrefix(got, "-ERR Protocol error: ") {
			t.Errorf("%.20q: %s", text, got)
		}
		if err := c.ended(); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	for _, count := range b.server.Commands() {
		if want := map[string]uint64{"cl.throttle": 4, "malformed": 4}[count.Command]; count.Count != want {
			t.Errorf("%+v, want %d", count, want)
		}
	}
}

// TestPagesOfBrowsers: commands in the body of a request over HTTP are not reached.
func TestPagesOfBrowsers(t *testing.T) {
	b := newBench(t, "", everyRight)
	for _, head := range []string{"POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"} {
		c := b.dial()
		c.send(head + "\r\nCL.THROTTLE k 0 1 1\r\n")
		answer := ""
		for answer != "-ERR HTTP is not spoken here" {
			answer = c.receive()
			if answer[0] != '-' {
				t.Fatal(answer)
			}
		}
		if err := c.ended(); err != nil {
			t.Error(err)
		}
	}
}
