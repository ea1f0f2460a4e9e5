package h2

import (
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// The fields of a call are told in the order in which they came, as far as somebody wants them.
func TestHeader(t *testing.T) {
	fields := []hpack.HeaderField{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}, {Name: "b", Value: ""}, {Name: "a", Value: "3"}}
	for most := 1; most <= len(fields); most++ {
		var got []hpack.HeaderField
		for name, value := range (Header{&block{fields: fields}}).All() {
			if got = append(got, hpack.HeaderField{Name: name, Value: value}); len(got) == most {
				break
			}
		}
		if !slices.Equal(got, fields[:most]) {
			t.Errorf("%v, want the first %d", got, most)
		}
	}
	for name, want := range map[string][]string{"a": {"1", "3"}, "b": {"2", ""}, "c": nil} {
		h := Header{&block{fields: fields}}
		if got := h.Values(name); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if got, ok := h.Value(name); ok != (want != nil) || ok && got != want[0] {
			t.Errorf("%s is first %q, %v", name, got, ok)
		}
	}
	for name, value := range (Header{}).All() {
		t.Errorf("no header has %s: %s", name, value)
	}
}
