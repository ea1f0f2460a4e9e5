package respfront_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/respfront"
)

const (
	noAuth    = "-NOAUTH Authentication required."
	wrongPass = "-WRONGPASS invalid username-password pair or user is disabled."
)

func token(t *testing.T, rights ...string) (token, line string) {
	t.Helper()
	token, line, err := callers.NewToken("t", rights, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return token, line
}

// TestLogin: who shows a token may do what it is good for, and nobody else anything.
func TestLogin(t *testing.T) {
	all, allLine := token(t, headgate.RightCheck, headgate.RightNameLimits, headgate.RightGiveBack, headgate.RightReserve, headgate.RightExplain)
	checks, checksLine := token(t, "check")
	elsewhere, elsewhereLine := token(t, "check")
	b := newBench(t, "tokens:\n"+allLine+checksLine+elsewhereLine+"    listeners: [http]\n", headgate.Rights{})
	for _, talk := range [][][2]string{
		{
			{"PING", noAuth}, {"COMMAND", noAuth}, {"nonsense", noAuth}, {"SELECT 0", noAuth}, {"HEADGATE.CHECK api user=u", noAuth},
			{"CL.THROTTLE k 0 1 1", noAuth}, {"CL.THROTTLE k -1 1 1", noAuth}, {"CL.THROTTLE k", noAuth}, {"HELLO", "-NOAUTH HELLO must be called"},
			{"AUTH wrong", wrongPass}, {"PING", noAuth}, {"AUTH " + all, "+OK"}, {"PING", "+PONG"}, {"CL.THROTTLE k 0 1 60", "[:0 :1 :0 :-1 :60]"},
			{"AUTH wrong", wrongPass}, {"PING", "+PONG"}, {"CL.THROTTLE k 0 1 60 -1", "[:0 :1 :1 :-1 :0]"}, {"HEADGATE.CHECK api user=all HITS -1", "[:0 :5 :5 :-1 :0]"},
			{"RESET", "+RESET"}, {"PING", noAuth}, {"AUTH " + checks, "+OK"}, {"PING", "+PONG"},
		},
		{
			{"AUTH anybody " + checks, "+OK"}, {"HEADGATE.CHECK api user=u", "[:0 :5 :4 :-1 :60]"}, {"CL.THROTTLE k 0 1 60", "-NOPERM "},
			{"CL.THROTTLE k 0 1 60 -1", "-NOPERM "}, {"HEADGATE.CHECK api user=u HITS -1", "-NOPERM "}, {"HEADGATE.CHECK api user=u HITS 0", "[:0 :5 :4 :-1 :60]"},
		},
		{{"AUTH " + elsewhere, "-NOPERM the credential has not the right that this takes ("}, {"PING", noAuth}, {"AUTH", "-ERR wrong number"}, {"QUIT", "+OK"}},
		{
			{"HELLO 3 AUTH default wrong", wrongPass}, {"HELLO 3 AUTH default " + checks, "{server redis version 7.4.0 proto :3 id :4 mode standalone role master modules []}"},
			{"HELLO 4", "-NOPROTO unsupported protocol version"}, {"HELLO x", "-ERR Protocol version"}, {"HELLO 2 AUTH", "-ERR Syntax error in HELLO option 'AUTH'"}, {"HELLO 2 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'"}, {"HELLO 2 SETNAME", "-ERR Syntax error"},
			{"CLIENT GETNAME", "null"}, {"HELLO 2 SETNAME me", "[server redis version 7.4.0 proto :2 id :4 mode standalone role master modules []]"}, {"CLIENT GETNAME", "me"},
		},
	} {
		c := b.dial()
		for _, step := range talk {
			if got := c.ask(step[0]); got != step[1] && !(step[1][0] == '-' && strings.HasPrefix(got, step[1])) {
				t.Errorf("%.40s: %s, want %s", step[0], got, step[1])
			}
		}
	}
	c := b.dial()
	c.send(respfront.Encode("AUTH", ""))
	if got := c.receive(); got != wrongPass {
		t.Errorf("an empty token: %s", got)
	}
	c = b.dial() // what a pipeline holds before AUTH is not decided by what comes after it
	c.send(respfront.Encode("HEADGATE.CHECK", "api", "user=u") + respfront.Encode("AUTH", checks) + respfront.Encode("HEADGATE.CHECK", "api", "user=u"))
	for _, want := range []string{noAuth, "+OK", "[:0 :5 :3 :-1 :60]"} {
		if got := c.receive(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c = b.dial()
	c.send("*11\r\n")
	if got := c.receive(); got != "-ERR Protocol error: invalid multibulk length; hint: at most 10 arguments before AUTH" {
		t.Error(got)
	}
}

// TestTakenBack: a token that is taken out of the file is good no longer, on connections that
// are open too.
func TestTakenBack(t *testing.T) {
	checks, line := token(t, "check")
	_, other := token(t, "check")
	b := newBench(t, "tokens:\n"+line+other, headgate.Rights{})
	c := b.dial()
	c.ask("AUTH " + checks)
	if got := c.ask("HEADGATE.CHECK api user=u"); got != "[:0 :5 :4 :-1 :60]" {
		t.Fatal(got)
	}
	b.write("tokens:\n" + other)
	if changed, err := b.callers.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if got := c.ask("HEADGATE.CHECK api user=u"); got != "-NOAUTH the token is not known" {
		t.Error(got)
	}
}

// TestRightsTakenBack: a credential that is still good, and lets its caller do nothing here any
// more, is told from one that is not good.
func TestRightsTakenBack(t *testing.T) {
	checks, line := token(t, "check")
	b := newBench(t, "tokens:\n"+line, headgate.Rights{})
	c := b.dial()
	if got := c.ask("AUTH " + checks); got != "+OK" {
		t.Fatal(got)
	}
	b.write("tokens:\n" + line + "    listeners: [http]\n")
	if changed, err := b.callers.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	for _, ask := range []string{"HEADGATE.CHECK api user=u", "HEADGATE.CHECK api", "PING", "HELLO 3", "nonsense"} {
		if got := c.ask(ask); !strings.HasPrefix(got, "-NOPERM the credential has not the right that this takes (") {
			t.Errorf("%s: %s", ask, got)
		}
	}
}

// TestManyWrongTokens: who has shown many of them loses the connection with each further one.
func TestManyWrongTokens(t *testing.T) {
	_, line := token(t, "check")
	b := newBench(t, "tokens:\n"+line, headgate.Rights{})
	for c, shown := b.dial(), 0; ; shown++ {
		if shown > 1000 {
			t.Fatal("the connection lasts")
		}
		c.send(fmt.Sprintf("AUTH wrong%d\r\n", shown))
		text, err := readReply(c.in)
		if err != nil {
			if shown < 10 {
				t.Errorf("the connection ended after %d", shown)
			}
			return
		}
		if text != wrongPass {
			t.Fatal(text)
		}
	}
}

// TestWithoutCallers: where nobody is asked for a token, one that shows it has made a mistake.
func TestWithoutCallers(t *testing.T) {
	b := newBench(t, "", headgate.Rights{Check: true})
	c := b.dial()
	for ask, want := range map[string]string{
		"AUTH x": "-ERR Client sent AUTH, but no password is set", "HELLO 3 AUTH default x": "-ERR Client sent AUTH, but no password is set",
		"CL.THROTTLE k 0 1 1": "-NOPERM check: request 0: descriptor 0: limits named by the caller are not served here",
	} {
		if got := c.ask(ask); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", ask, got)
		}
	}
}

// TestConnectCommands: what clients send when they connect.
func TestConnectCommands(t *testing.T) {
	c := newBench(t, "", everyRight).dial()
	for _, step := range [][2]string{
		{"PING", "+PONG"}, {"PING hi", "hi"}, {"PING a b", "-ERR wrong number of arguments for 'ping' command"}, {"ECHO hi", "hi"},
		{"SELECT 0", "+OK"}, {"SELECT 1", "-ERR DB index is out of range"}, {"SELECT x", "-ERR value is not an integer or out of range"},
		{"CLIENT SETINFO LIB-NAME go", "+OK"}, {"CLIENT SETNAME a", "+OK"}, {"CLIENT GETNAME", "a"}, {"CLIENT ID", ":1"}, {"CLIENT NO-EVICT on", "+OK"},
		{"CLIENT SETNAME " + strings.Repeat("a", 129), "-ERR Client names cannot"}, {"CLIENT TRACKING OFF", "+OK"}, {"CLIENT TRACKING", "-ERR unknown subcommand"}, {"CLIENT NO-EVICT", "-ERR unknown subcommand"}, {"CLIENT SETINFO LIB-NAME", "-ERR unknown subcommand"}, {"CLIENT ID x", "-ERR unknown subcommand"}, {"READONLY x", "-ERR wrong number"}, {"RESET x", "-ERR wrong number"}, {"CLIENT TRACKING ON", "-ERR unknown subcommand 'TRACKING' of 'client'"},
		{"CLIENT MAINT_NOTIFICATIONS ON", "-ERR unknown subcommand"}, {"READONLY", "+OK"}, {"READWRITE", "+OK"}, {"CLUSTER SLOTS", "-ERR This instance has cluster support disabled"},
		{"CONFIG GET timeout", "[]"}, {"CONFIG SET timeout 1", "-ERR unknown subcommand"}, {"COMMAND COUNT", ":16"}, {"COMMAND DOCS", "[]"},
		{"COMMAND INFO auth echo headgate.check", "[[auth :-2 [+fast] :0 :0 :0 [] [] [] []] [echo :2 [+fast] :0 :0 :0 [] [] [] []] [headgate.check :-3 [+fast] :0 :0 :0 [] [] [] []]]"}, {"COMMAND INFO cl.throttle get", "[[cl.throttle :-5 [+fast] :1 :1 :1 [] [] [] []] nil]"}, {"COMMAND LIST", "-ERR unknown subcommand"},
		{"EVAL return 0", "-ERR unknown command 'EVAL', with args beginning with: "}, {"MULTI", "-ERR unknown command 'MULTI'"}, {"GET a", "-ERR unknown command"},
		{"FLUSHALL", "-ERR unknown command"}, {"HELLO", "[server redis version 7.4.0 proto :2 id :1 mode standalone role master modules []]"},
		{"HELLO 3 SETNAME b", "{server redis version 7.4.0 proto :3 id :1 mode standalone role master modules []}"}, {"CLIENT GETNAME", "b"},
		{"CONFIG GET timeout", "{}"}, {"COMMAND DOCS ping", "{}"}, {"COMMAND INFO get", "[null]"}, {"RESET", "+RESET"}, {"CLIENT GETNAME", "nil"},
	} {
		if got := c.ask(step[0]); got != step[1] && !(step[1][0] == '-' && strings.HasPrefix(got, step[1])) {
			t.Errorf("%s: %s, want %s", step[0], got, step[1])
		}
	}
	if got := c.ask("INFO"); !strings.Contains(got, "redis_version:7.4.0\r\n") || !strings.Contains(got, "loading:0\r\n") || !strings.Contains(got, "role:master\r\n") {
		t.Errorf("INFO: %s", got)
	}
	if got := c.ask("CLIENT INFO"); !strings.HasPrefix(got, "id=1 addr=127.0.0.1:") {
		t.Errorf("CLIENT INFO: %s", got)
	}
	if got := c.ask("COMMAND"); strings.Count(got, "+fast") != 16 {
		t.Errorf("COMMAND: %s", got)
	}
	if got := c.ask("QUIT"); got != "+OK" {
		t.Error(got)
	}
	if err := c.ended(); err != nil {
		t.Error(err)
	}
}

// TestShutdown: what has come is answered, connections end, and so does Shutdown.
func TestShutdown(t *testing.T) {
	b := newBench(t, "", everyRight)
	quiet, busy := b.dial(), b.dial()
	if got := quiet.ask("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	busy.send(respfront.Encode("CL.THROTTLE", "k", "0", "1", "60"))
	if got := busy.receive(); got != "[:0 :1 :0 :-1 :60]" {
		t.Fatal(got)
	}
	busy.send("*2\r\n$4\r\nECHO")
	b.server.Shutdown(context.Background())
	for _, c := range []*client{quiet, busy} {
		if err := c.ended(); err != nil {
			t.Error(err)
		}
	}
}

// TestPanic: a fault ends its connection and no other one.
func TestPanic(t *testing.T) {
	b := newBench(t, "", everyRight)
	other := b.dial()
	if got := other.ask("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	b.panicking.Store(true)
	c := b.dial()
	c.send("PING\r\nHEADGATE.CHECK api user=u\r\n")
	if err := c.ended(); err != nil {
		t.Error(err)
	}
	b.panicking.Store(false)
	if got := other.ask("HEADGATE.CHECK api user=u"); got != "[:0 :5 :4 :-1 :60]" || b.panics.Load() != 1 {
		t.Errorf("%s, %d panics", got, b.panics.Load())
	}
}

var _ respfront.Checker = (*headgate.Door)(nil)
