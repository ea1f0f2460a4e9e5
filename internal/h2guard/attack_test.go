package h2guard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// servers are those that a guard stands before: each serves on l until it is closed.
var servers = map[string]func(t *testing.T, l net.Listener){
	"grpc": func(t *testing.T, l net.Listener) {
		s := grpc.NewServer(grpc.MaxConcurrentStreams(1024))
		healthpb.RegisterHealthServer(s, health.NewServer())
		go s.Serve(l)
		t.Cleanup(s.Stop)
	},
	"net/http": func(t *testing.T, l net.Listener) {
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		s := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, r.Body)
		})}
		go s.Serve(l)
		t.Cleanup(func() { s.Close() })
	},
}

// serve starts a server under guard, and counts the floods.
func serve(t *testing.T, name string) (addr string, floods *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	floods = new(atomic.Int64)
	// The clock of the guard stands still: what comes no faster than time refills is no flood,
	// and a busy machine may be that slow.
	noon := time.Now()
	servers[name](t, &listener{l, func(net.Addr) { floods.Add(1) }, func() time.Time { return noon }})
	return l.Addr().String(), floods
}

// request is the header of a POST, in HPACK without any table.
var request = func() []byte {
	b := []byte{0x83, 0x86}
	for _, pair := range [][2]string{{":path", "/grpc.health.v1.Health/Check"}, {":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		b = append(b, 0, byte(len(pair[0])))
		b = append(append(b, pair[0]...), byte(len(pair[1])))
		b = append(b, pair[1]...)
	}
	return b
}()

// attacks write frames that ask for nothing; stream is the next one that can be opened.
var attacks = map[string]func(stream uint32) []byte{
	"rapid reset": func(stream uint32) []byte {
		return append(frameWith(typeHeaders, 4, stream, request), frame(typeReset, 0, stream, 4)...)
	},
	"SETTINGS":           func(uint32) []byte { return frame(typeSettings, 0, 0, 0) },
	"PING":               func(uint32) []byte { return frame(typePing, 0, 0, 8) },
	"acknowledged PING":  func(uint32) []byte { return frame(typePing, flagAck, 0, 8) },
	"unknown":            func(uint32) []byte { return frame(77, 0, 0, 0) },
	"WINDOW_UPDATE":      func(uint32) []byte { return frameWith(typeWindowUpdate, 0, 0, []byte{0, 0, 0, 1}) },
	"PRIORITY":           func(stream uint32) []byte { return frameWith(2, 0, stream, []byte{0, 0, 0, 0, 1}) },
	"empty DATA":         func(uint32) []byte { return frame(typeData, 0, 1, 0) },
	"DATA of one byte":   func(uint32) []byte { return frame(typeData, 0, 1, 1) },
	"DATA of padding":    func(uint32) []byte { return frameWith(typeData, flagPadded, 1, append([]byte{9}, make([]byte, 9)...)) },
	"empty CONTINUATION": func(uint32) []byte { return frame(9, 0, 1, 0) },
	"streams reset by the server": func(stream uint32) []byte {
		// The server resets the stream itself, for a window that grows by 0.
		return append(frameWith(typeHeaders, 4, stream, request), frame(typeWindowUpdate, 0, stream, 4)...)
	},
}

// TestAttacks: each flood is cut off after a bounded number of frames, and the reason
// is told where the server itself has none. What a server tells by itself may get lost
// with its connection, so it may take some tries.
func TestAttacks(t *testing.T) {
	const tries = 10
	for server := range servers {
		for name, attack := range attacks {
			t.Run(server+"/"+strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				for range tries {
					addr, floods := serve(t, server)
					sent, why := assault(t, addr, name, attack)
					t.Logf("%d frames, floods %d, told %v", sent, floods.Load(), why)
					if floods.Load() > 0 || why != 0 {
						return
					}
				}
				t.Errorf("the server ended it by itself, without a reason")
			})
		}
	}
}

// maxFrames is what no attack gets through.
const maxFrames = 2_000_000

// assault writes until the connection ends, and returns how often, and the error code
// of GOAWAY, if one came.
func assault(t *testing.T, addr, name string, attack func(uint32) []byte) (sent int, code uint32) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	told := make(chan uint32, 1)
	go func() { told <- readGoAway(conn) }()
	flags := byte(4)
	if name == "empty CONTINUATION" {
		flags = 0
	}
	begin := append([]byte(preface), frame(typeSettings, 0, 0, 0)...)
	if strings.Contains(name, "DATA") || flags == 0 {
		begin = append(begin, frameWith(typeHeaders, flags, 1, request)...)
	}
	_, err = conn.Write(begin)
	for stream := uint32(3); err == nil; {
		var burst bytes.Buffer
		for range 500 {
			burst.Write(attack(stream))
			stream += 2
		}
		if sent += 500; sent > maxFrames {
			t.Fatal("it goes on for ever")
		}
		_, err = conn.Write(burst.Bytes())
	}
	return sent, <-told
}

func readGoAway(r io.Reader) (code uint32) {
	for {
		var header [headerSize]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return code
		}
		payload := make([]byte, binary.BigEndian.Uint32(append([]byte{0}, header[:3]...)))
		if _, err := io.ReadFull(r, payload); err != nil {
			return code
		}
		if header[3] == 7 {
			code = binary.BigEndian.Uint32(payload[4:])
		}
	}
}

// TestGoAway: who is cut off is told ENHANCE_YOUR_CALM, at the end of a whole frame, and
// nothing else. Where the server is just writing nobody is told, so it may take some tries.
func TestGoAway(t *testing.T) {
	const tries = 50
	for _, name := range []string{"PRIORITY", "unknown", "acknowledged PING"} {
		told := false
		for try := 0; try < tries && !told; try++ {
			addr, floods := serve(t, "grpc")
			_, code := assault(t, addr, name, attacks[name])
			if told = code == 11; code != 0 && !told || floods.Load() != 1 {
				t.Errorf("%s: GOAWAY %d, %d floods", name, code, floods.Load())
			}
		}
		if !told {
			t.Errorf("%s: nobody was told in %d tries", name, tries)
		}
	}
}

// TestFullSpeed: real clients are not hit, however fast, on one connection.
func TestFullSpeed(t *testing.T) {
	addr, floods := serve(t, "grpc")
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	each(t, func(ctx context.Context) error {
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	})
	webAddr, webFloods := serve(t, "net/http")
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	each(t, func(ctx context.Context) error {
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+webAddr+"/", strings.NewReader(strings.Repeat("x", 3000)))
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || len(text) != 3000 || resp.ProtoMajor != 2 {
			return errors.Join(err, fmt.Errorf("%d bytes of %s", len(text), resp.Proto))
		}
		return nil
	})
	if floods.Load()+webFloods.Load() != 0 {
		t.Errorf("%d and %d connections were cut off", floods.Load(), webFloods.Load())
	}
}

// each calls call 20,000 times from 50 goroutines; with the race detector a tenth of that.
func each(t *testing.T, call func(context.Context) error) {
	t.Helper()
	calls := 400
	if raceEnabled {
		calls = 40
	}
	faults := make(chan error, 50)
	for range cap(faults) {
		go func() {
			for range calls {
				if err := call(t.Context()); err != nil {
					faults <- err
					return
				}
			}
			faults <- nil
		}()
	}
	for range cap(faults) {
		if err := <-faults; err != nil {
			t.Error(err)
		}
	}
}

// TestHTTP1: what is no HTTP/2 passes as it is, however it begins.
func TestHTTP1(t *testing.T) {
	addr, floods := serve(t, "net/http")
	for _, method := range []string{"GET", "POST", "PUT", "PRI", "PRIX"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, b := range []byte(method + " / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi") {
			if _, err := conn.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 200") || !strings.HasSuffix(string(answer), "hi") {
			t.Errorf("%s: %q %v", method, answer, err)
		}
	}
	if floods.Load() != 0 {
		t.Error("a flood")
	}
}

// TestRefill: time alone refills no more than the budget.
func TestRefill(t *testing.T) {
	c := newConn(nil, nil, time.Now)
	now := c.client.refilled
	c.budget.Store(-5)
	if c.refill(now.Add(time.Second)); c.budget.Load() != perSecond-5 {
		t.Errorf("%d after a second", c.budget.Load())
	}
	if c.refill(now.Add(100 * 365 * 24 * time.Hour)); c.budget.Load() != fullBudget {
		t.Errorf("%d after a century", c.budget.Load())
	}
	if c.refill(now); c.budget.Load() != fullBudget {
		t.Errorf("%d after a step back", c.budget.Load())
	}
}
