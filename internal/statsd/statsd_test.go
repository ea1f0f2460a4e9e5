package statsd

import (
	"bufio"
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// counted returns Read of what a test changes.
func counted(s *Snapshot) func() Snapshot { return func() Snapshot { return *s } }

func TestLines(t *testing.T) {
	now := Snapshot{Counts: []Count{{"a.b", 3}, {"c", 0}}, Times: []Time{{"t", 5 * time.Millisecond, 1}, {"t", 1500 * time.Microsecond, 4}}}
	for _, tt := range []struct {
		options Options
		want    []string
	}{
		{Options{}, []string{"a.b:3|c\n", "t:5|ms\n", "t:1.5|ms|@0.25\n"}},
		{Options{Tags: []Tag{{"zone", "z"}, {"env", "prod"}}}, []string{"a.b.__env=prod.__zone=z:3|c\n", "t.__env=prod.__zone=z:5|ms\n", "t.__env=prod.__zone=z:1.5|ms|@0.25\n"}},
		{Options{Dog: true, Tags: []Tag{{"zone", "z"}, {"env", "prod"}}}, []string{"a.b:3|c|#env:prod,zone:z\n", "t:5|ms|#env:prod,zone:z\n", "t:1.5|ms|@0.25|#env:prod,zone:z\n"}},
	} {
		if got, _ := New(tt.options).lines(now); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q", tt.options, got)
		}
	}
}

// What was sent is not sent again, what has another start is sent from that, and counts of one
// name are one.
func TestWhatHasGrown(t *testing.T) {
	s := New(Options{})
	var got []string
	for _, now := range []Snapshot{{Counts: []Count{{"a", 3}}}, {Counts: []Count{{"a", 3}}}, {Counts: []Count{{"a", 10}, {"b", 1}}}, {Counts: []Count{{"a", 2}}}, {Counts: []Count{{"a", 2}, {"a", 5}}}} {
		var lines []string
		lines, s.sent = s.lines(now)
		got = append(got, strings.Join(lines, ""))
	}
	if want := []string{"a:3|c\n", "", "a:7|c\nb:1|c\n", "a:2|c\n", "a:5|c\n"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A server by TCP gets it all, also what could not be sent while it was away.
func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const nobody = "127.0.0.1:1"
	failed := 0
	now := Snapshot{Counts: []Count{{"a", 1}}}
	s := New(Options{Network: "tcp", Address: nobody, Read: counted(&now), OnFailure: func(err error) {
		if failed++; !strings.Contains(err.Error(), "send to statsd at tcp://"+nobody) {
			t.Error(err)
		}
	}})
	s.Send()
	now.Counts[0].N = 3
	s.options.Address = listener.Addr().String()
	s.Send()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "a:3|c\n" || err != nil || failed != 1 {
		t.Errorf("%q, %v, failed %d times", line, err, failed)
	}
}

// Datagrams are no longer than a frame, and no line is cut.
func TestUDP(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var now Snapshot
	for range 100 {
		now.Counts = append(now.Counts, Count{strings.Repeat("n", 50+len(now.Counts)), 1})
	}
	New(Options{Network: "udp", Address: server.LocalAddr().String(), Read: counted(&now)}).Send()
	lines, buffer := 0, make([]byte, 1<<16)
	for lines < len(now.Counts) {
		n, _, err := server.ReadFrom(buffer)
		if err != nil {
			t.Fatal(err)
		}
		text := string(buffer[:n])
		if n > maxDatagram || !strings.HasSuffix(text, ":1|c\n") {
			t.Errorf("%d bytes, %q", n, text[max(n-20, 0):])
		}
		lines += strings.Count(text, "\n")
	}
}

// It is sent every interval, and once more at the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, sent := Snapshot{Counts: []Count{{"a", 1}}}, atomic.Int64{}
		s := New(Options{Network: "none", Interval: 10 * time.Second, Read: counted(&now), OnFailure: func(error) { sent.Add(1) }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		_ = sleep.For(t.Context(), 25*time.Second)
		if sent.Load() != 2 {
			t.Errorf("sent %d times in 25 s", sent.Load())
		}
		cancel()
		<-done
		if sent.Load() != 3 {
			t.Errorf("sent %d times at the end", sent.Load())
		}
	})
}

func TestParseURL(t *testing.T) {
	if network, address, err := ParseURL("udp://h:8125"); network != "udp" || address != "h:8125" || err != nil {
		t.Error(network, address, err)
	}
	for _, text := range []string{"", "h:8125", "udp://h", "udp://:1", "http://h:1", "udp://u:p@h:1", "tcp://h:1/x", "tcp://h:1?x"} {
		if _, _, err := ParseURL(text); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// FuzzParseTags: what is taken makes one line with the others.
func FuzzParseTags(f *testing.F) {
	for _, seed := range []string{"", "a:b", "a:b,c:d", "a", "a:b|c:d", ":", "a:b\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tags, err := ParseTags(text)
		if err != nil {
			if !strings.Contains(err.Error(), "hint") {
				t.Error(err)
			}
			return
		}
		for _, dog := range []bool{false, true} {
			lines, _ := New(Options{Dog: dog, Tags: tags}).lines(Snapshot{Counts: []Count{{"a", 1}}})
			if len(lines) != 1 || strings.Count(lines[0], "\n") != 1 || strings.Count(lines[0], "|c") < 1 {
				t.Errorf("%q: %q", text, lines)
			}
		}
	})
}
