package app

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

// TestFloodsAreCutOff: a flood of frames ends its connection on every port of HTTP/2
// without TLS, is counted, and is refused at once where only HTTP/1.1 is spoken.
func TestFloodsAreCutOff(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			s := settings()
			s.GRPCTransport = transport
			floodsAreCutOff(t, run(t, s, nil))
		})
	}
}

func floodsAreCutOff(t *testing.T, r *runner) {
	for name, addr := range map[string]string{"http": r.http, "grpc": r.grpc, "ops": r.ops} {
		flood(t, name, addr)
	}
	if _, text := get(t, "http://"+r.ops+"/metrics"); !strings.Contains(text, "\nheadgate_http2_floods_total 2\n") {
		t.Error("not 2 floods are counted")
	}
}

// flood sends frames of PRIORITY until the connection ends.
func flood(t *testing.T, name, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go io.Copy(io.Discard, conn)
	_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	frames := bytes.Repeat([]byte("\x00\x00\x05\x02\x00\x00\x00\x00\x03\x00\x00\x00\x00\x01"), 1000)
	for sent := 0; err == nil; sent += 1000 {
		if sent > 2_000_000 {
			t.Fatalf("%s: it goes on for ever", name)
		}
		_, err = conn.Write(frames)
	}
}
