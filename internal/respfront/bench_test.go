package respfront_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/respfront"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store/memstore"
)

// endless is a connection on which the same commands come again and again, n times.
type endless struct {
	wire
	text string
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, net.ErrClosed
	}
	e.n--
	return copy(p, e.text), nil
}

func (e *endless) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkPipeline: what one command costs of those that come together, over memory and without
// a network.
func BenchmarkPipeline(b *testing.B) {
	for name, command := range map[string]string{
		"throttle": respfront.Encode("CL.THROTTLE", "user123", "15", "30", "60"), "check": respfront.Encode("HEADGATE.CHECK", "api", "user=42"), "ping": respfront.Encode("PING"),
	} {
		for _, together := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, together), func(b *testing.B) {
				memory, err := memstore.New(memstore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer memory.Close()
				limiter, err := headgate.New(headgate.Options{Store: memory, Rules: load(b, rulefile.File{Name: "api.yaml", Data: []byte(ruleText)})})
				if err != nil {
					b.Fatal(err)
				}
				server, err := respfront.New(respfront.Options{
					Entrance: respfront.Callers(callers.New(callers.Options[*headgate.Door]{
						Listener: callers.Redis, Anonymous: everyRight,
						Open: func(_ string, r headgate.Rights) *headgate.Door { return limiter.Door(headgate.DoorOptions{Rights: r}) },
					})),
					OnPanic: func(cause any, _ []byte) { b.Error(cause) },
				})
				if err != nil {
					b.Fatal(err)
				}
				e := &endless{wire: wire{closed: make(chan struct{})}, text: strings.Repeat(command, together), n: max(b.N/together, 1)}
				l := once{conns: make(chan net.Conn, 1)}
				l.conns <- e
				close(l.conns)
				b.ReportAllocs()
				b.ResetTimer()
				if err := server.Serve(l); err != nil {
					b.Fatal(err)
				}
				<-e.closed
			})
		}
	}
}
