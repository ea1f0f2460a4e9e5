package conn

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openOne returns the server of o, after the first attempt to connect to it.
func openOne(t *testing.T, o Options) *Server {
	t.Helper()
	o.Budget = time.Minute
	o, err := o.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	late := NewLateness(o.Budget)
	t.Cleanup(late.Close)
	s := OpenServer(&o, late, nil)
	t.Cleanup(func() { s.Close(ErrClosed) })
	<-s.link.first
	return s
}
