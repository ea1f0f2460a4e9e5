package storetest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/headgate/headgate/store"
)

// RunRegister checks the store that open returns, which must be a store.Register, as Run
// does.
func RunRegister(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runAll(t, open, []test{
		{"registers", testRegister},
		{"long registers", testLongRegisters},
		{"one of many writers", testRegisterWriters},
	})
}

func (h Harness) register(t *testing.T) store.Register {
	t.Helper()
	return as[store.Register](t, h.Store)
}

// holds fails the test unless the register is in a version and has a text.
func (h Harness) holds(t *testing.T, name string, known, version int64, text string) {
	t.Helper()
	got, read, err := h.register(t).ReadRegister(t.Context(), name, known)
	if err != nil || got != version || string(read) != text {
		t.Errorf("%s, of which version %d is known: version %d, %.40q, %v; want %d, %.40q", name, known, got, read, err, version, text)
	}
}

// replaces fails the test unless a register is replaced, or is not.
func (h Harness) replaces(t *testing.T, name string, from, to int64, text string, want bool) {
	t.Helper()
	done, err := h.register(t).ReplaceRegister(t.Context(), name, from, to, []byte(text))
	if err != nil || done != want {
		t.Errorf("%s from %d to %d: %t, %v; want %t", name, from, to, done, err, want)
	}
}

func testRegister(t *testing.T, h Harness) {
	h.holds(t, "a", 0, 0, "")
	h.holds(t, "a", 7, 0, "")
	h.replaces(t, "a", 1, 2, "no", false)
	h.replaces(t, "a", 0, 5, "one", true)
	h.replaces(t, "a", 0, 6, "no", false)
	h.holds(t, "a", 0, 5, "one")
	h.holds(t, "a", 5, 5, "")
	h.replaces(t, "a", 5, 3, "two\x00\r\n\xff", true)
	h.holds(t, "a", 5, 3, "two\x00\r\n\xff")
	h.replaces(t, "a", 3, store.MaxRegisterVersion, "", true)
	h.holds(t, "a", 3, store.MaxRegisterVersion, "")
	h.holds(t, "b", 0, 0, "")
	h.replaces(t, "b", 0, 1, "other", true)
	h.holds(t, "a", 3, store.MaxRegisterVersion, "")
	for _, name := range []string{"", string(make([]byte, 65))} {
		if _, _, err := h.register(t).ReadRegister(t.Context(), name, 0); store.ReasonOf(err) != store.Misconfigured {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
	for _, to := range []int64{0, -1, store.MaxRegisterVersion + 1} {
		if _, err := h.register(t).ReplaceRegister(t.Context(), "c", 0, to, nil); store.ReasonOf(err) != store.Misconfigured {
			t.Errorf("version %d: %v", to, err)
		}
	}
}

func testLongRegisters(t *testing.T, h Harness) {
	longest := string(bytes.Repeat([]byte{0, '\r', '\n', 0xff}, store.MaxRegister/4))
	h.replaces(t, "a", 0, 1, longest, true)
	h.holds(t, "a", 0, 1, longest)
	if _, err := h.register(t).ReplaceRegister(t.Context(), "a", 1, 2, []byte(longest+"x")); store.ReasonOf(err) != store.Misconfigured {
		t.Errorf("too long: %v", err)
	}
	h.holds(t, "a", 1, 1, "")
}

// Of writers who all have read the same version one replaces it.
func testRegisterWriters(t *testing.T, h Harness) {
	r := h.register(t)
	var mu sync.Mutex
	var won []string
	crowd(20, func(i int) {
		text := fmt.Sprint("writer ", i)
		done, err := r.ReplaceRegister(t.Context(), "a", 0, int64(1+i), []byte(text))
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		} else if done {
			won = append(won, text)
		}
	})
	_, text, err := r.ReadRegister(t.Context(), "a", 0)
	if err != nil || len(won) != 1 || string(text) != won[0] {
		t.Errorf("%q have replaced it, it has %q, %v", won, text, err)
	}
}
