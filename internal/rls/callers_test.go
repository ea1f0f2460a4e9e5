package rls

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/alloctest"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/rules/rulefile"
)

// gateOf returns a gate that knows one token, which may check.
func gateOf(t *testing.T) (gate *callers.Gate[*headgate.Door], token string) {
	t.Helper()
	token, lines, err := callers.NewToken("one", []string{"check"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(path, []byte("tokens:\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := callers.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	now := noon
	l := limiter(t, rightsRules, rulefile.Options{}, false, &now)
	return callers.New(callers.Options[*headgate.Door]{File: file, Listener: callers.GRPC, Open: func(_ string, r headgate.Rights) *headgate.Door {
		return l.Door(headgate.DoorOptions{Rights: r})
	}}), token
}

// askFrom asks as whoever makes the call of ctx.
func askFrom(t *testing.T, ctx context.Context, s *service, text string) error {
	t.Helper()
	b, err := proto.Marshal(parseRequest(t, text))
	if err != nil {
		t.Fatal(err)
	}
	_, err = handle(s, ctx, func(v any) error { return newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, v) }, nil)
	return err
}

// TestCallers: what a call shows in its metadata, and how one that is refused is answered.
func TestCallers(t *testing.T) {
	gate, token := gateOf(t)
	s := newService(Options{Checker: new(headgate.Limiter).Door(headgate.DoorOptions{}), Admit: Callers(gate)})
	from := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}})
	for _, c := range []struct {
		md   metadata.MD
		want codes.Code
	}{
		{metadata.MD{"authorization": {"Bearer " + token}}, codes.OK},
		{metadata.MD{"x-headgate-token": {token}}, codes.OK},
		{metadata.MD{"x-headgate-token": {token}, "authorization": {"Basic eA=="}}, codes.OK},
		{metadata.MD{}, codes.Unauthenticated},
		{nil, codes.Unauthenticated},
		{metadata.MD{"authorization": {"Bearer " + token + "x"}}, codes.Unauthenticated},
		{metadata.MD{"authorization": {token}}, codes.Unauthenticated},
		{metadata.MD{"authorization": {"Bearer " + token, "Bearer x"}}, codes.Unauthenticated},
	} {
		ctx := context.Context(from)
		if c.md != nil {
			ctx = metadata.NewIncomingContext(from, c.md)
		}
		if err := askFrom(t, ctx, s, "d: user=u"); status.Code(err) != c.want {
			t.Errorf("%v: %v", c.md, err)
		}
	}
	ctx := metadata.NewIncomingContext(from, metadata.MD{"authorization": {"Bearer " + token}})
	if err := askFrom(t, ctx, s, "d: user=u -5"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without the right: %v", err)
	}
}

// TestEnterAllocatesNothing: who makes a call is found without memory.
func TestEnterAllocatesNothing(t *testing.T) {
	gate, token := gateOf(t)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{"authorization": {"Bearer " + token}})
	if n := alloctest.PerRun(200, func() { _, _ = Enter(ctx, gate) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
