package conn

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/resp"
)

// deadlines notes the last deadline of a connection.
type deadlines struct {
	net.Conn
	last time.Time
}

func (d *deadlines) SetDeadline(at time.Time) error { d.last = at; return d.Conn.SetDeadline(at) }

// answered asks what answers in these pieces, and ends after them if they are no whole line.
func answered(pieces ...string) (err error, unbounded bool) {
	here, there := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer there.Close()
		question := make([]byte, len(firstQuestion))
		if _, err := io.ReadFull(there, question); err != nil || string(question) != firstQuestion {
			return
		}
		for _, piece := range pieces {
			if _, err := io.WriteString(there, piece); err != nil {
				return // more than is read
			}
		}
		if strings.HasSuffix(strings.Join(pieces, ""), "\r\n") {
			io.Copy(io.Discard, there) // a whole answer: the server stays
		}
	}()
	d := &deadlines{Conn: here}
	err = AskFirst(d, time.Now().Add(eventually.Patience))
	here.Close()
	<-ended
	return err, d.last.IsZero()
}

// What a Redis says that knows the client not yet, or is busy, lets the client go on, and
// then no deadline is left on the connection.
func TestFirstReplies(t *testing.T) {
	for _, pieces := range [][]string{
		{"+PONG\r\n"}, {"+PO", "NG\r", "\n"}, {"-NOAUTH Authentication required.\r\n"}, {"-NOPERM no\r\n"}, {"-LOADING Redis is loading\r\n"},
		{"-BUSY Redis is busy\r\n"}, {"-MASTERDOWN Link with MASTER is down\r\n"}, {"-MISCONF Redis\r\n"},
	} {
		if err, unbounded := answered(pieces...); err != nil || !unbounded {
			t.Errorf("%q: %v, without a deadline %t", pieces, err, unbounded)
		}
	}
	for _, text := range []string{"DENIED Redis is running in protected mode", "ERR max number of clients reached"} {
		var refusal *resp.Error
		if err, _ := answered("-" + text + "\r\n"); !errors.As(err, &refusal) || refusal.Text != text {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is no Redis is not taken for one, and what said nothing at all is not judged.
func TestFirstRepliesOfOthers(t *testing.T) {
	for _, pieces := range [][]string{
		{"HTTP/1.1 400 Bad Request\r\n"}, {"+OK\r\n"}, {"PONG\r\n"}, {"\r\n"}, {"-ERROR\r\n"}, {"-ERR syntax error\r\n"},
		{"+PONG\r\n+PONG\r\n"}, {"+PONG\r\n "}, {"+PONG"}, {"+PONG\n"}, {strings.Repeat("+", maxFirstReply)}, {strings.Repeat("+", 2*maxFirstReply)},
	} {
		if err, _ := answered(pieces...); !errors.Is(err, ErrNotRedis) {
			t.Errorf("%.40q: %v", pieces, err)
		}
	}
	if err, _ := answered(); err == nil || errors.Is(err, ErrNotRedis) {
		t.Errorf("nothing: %v", err)
	}
}
