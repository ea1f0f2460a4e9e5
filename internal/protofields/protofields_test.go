package protofields

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestMerge: of a field that came twice both parts count, and neither what lies behind the first
// one in memory, which may be another field, nor the first one itself is written over.
func TestMerge(t *testing.T) {
	memory := []byte("abcdef")
	if got := Merge(memory[:2], []byte("XY")); string(got) != "abXY" || string(memory) != "abcdef" {
		t.Errorf("got %q, and %q is left of the message", got, memory)
	}
	if got := Merge(nil, memory[:2]); string(got) != "ab" {
		t.Errorf("the first one: %q", got)
	}
	if got := Merge([]byte{}, []byte("b")); string(got) != "b" {
		t.Errorf("after an empty one: %q", got)
	}
}

// TestFields: a field counts when it has its number and its kind, and all others are passed over.
func TestFields(t *testing.T) {
	message := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 300)
	message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), nil)
	message = protowire.AppendFixed32(protowire.AppendTag(message, 1, protowire.Fixed32Type), 7)
	message = protowire.AppendFixed64(protowire.AppendTag(message, 2, protowire.Fixed64Type), 7)
	message = protowire.AppendGroup(protowire.AppendTag(message, 1, protowire.StartGroupType), 1, message)
	message = protowire.AppendBytes(protowire.AppendTag(message, 2, protowire.BytesType), []byte("end"))
	var numbers []uint64
	var bodies []string
	for f, ok := range Fields(message) {
		switch {
		case !ok:
			t.Fatal("malformed")
		case f.IsNumber(1):
			numbers = append(numbers, f.Value)
		case f.IsBytes(1), f.IsBytes(2):
			if f.Body == nil {
				t.Error("an empty body is nil, as if there were none")
			}
			bodies = append(bodies, string(f.Body))
		case f.IsNumber(2):
			t.Error("eight bytes are taken for a number")
		}
	}
	if !slices.Equal(numbers, []uint64{300}) || !slices.Equal(bodies, []string{"", "end"}) {
		t.Errorf("numbers %v, bodies %q", numbers, bodies)
	}
}

// TestMalformedFields: what comes before the fault is read, the fault is told once, and nothing after it is read.
func TestMalformedFields(t *testing.T) {
	good := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 5)
	for name, bad := range map[string][]byte{
		"a tag without an end":     {0xff},
		"a number without an end":  {0x08, 0xff},
		"bytes that are too few":   {0x0a, 5, 'd'},
		"a group without an end":   {0x0b},
		"a field of number 0":      {0x00, 0x01},
		"a kind that there is not": {0x0f},
	} {
		var told []bool
		for f, ok := range Fields(slices.Concat(good, bad)) {
			if ok && f.Value != 5 {
				t.Errorf("%s: %d is read", name, f.Value)
			}
			told = append(told, ok)
		}
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("%s: %v", name, told)
		}
	}
	for range Fields(bytes.Repeat(good, 2)) {
		break // who has seen enough may stop
	}
}
