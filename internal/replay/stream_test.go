package replay

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// However many inputs there are, no more records than maxHeld wait, and one of each input.
func TestWaitingRecordsAreBounded(t *testing.T) {
	const inputs, lines = 4, 40_000
	var list []Input
	for range inputs {
		var b strings.Builder
		for i := range lines {
			fmt.Fprintf(&b, "{\"schema\":1,\"ts\":%d,\"domain\":\"d\",\"outcome\":\"allowed\",\"allowed\":true,\"key\":\"a:b\"}\n", 1+i)
		}
		list = append(list, Input{
			Open:    func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(b.String())), nil },
			Decoder: func() (Decoder, error) { return Events(nil), nil },
		})
	}
	m, err := newMerge(list, time.Hour) // longer than all
	if err != nil {
		t.Fatal(err)
	}
	most, n := 0, 0
	for {
		r, err := m.next()
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			break
		}
		n++
		most = max(most, m.waiting)
		m.done(r)
	}
	if n != inputs*lines || most > maxHeld+inputs || most < maxHeld/2 || m.waiting != 0 {
		t.Errorf("%d records, at most %d of them waited, and %d at the end", n, most, m.waiting)
	}
}
