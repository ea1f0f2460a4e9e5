package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// An event has all that was asked, whatever spoke for the request.
func TestEventsHoldAllDescriptors(t *testing.T) {
	b := newBench(t, Options{Sample: 1})
	long := strings.Repeat("x", descriptor.MaxInline+1)
	req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{
		{Entries: []descriptor.Entry{{Key: "user", Value: "a,b\xff"}, {Key: "op", Value: ""}}, Hits: 3},
		{Entries: []descriptor.Entry{{Key: "path", Value: long}}, Hits: 0},
		{Entries: []descriptor.Entry{{Key: "user", Value: "u"}}, Hits: 2, Op: store.Charge},
		{Entries: []descriptor.Entry{{Key: "mine", Value: "m"}}, Hits: 1, Limit: limit.Must(limit.PerMinute(5))},
		{Hits: 1},
	}}
	b.check(req)
	got := b.latest()
	want := []view.EventDescriptor{
		{Entries: `user:a\,b\xff,op:`, Hits: 3},
		{Entries: "path:" + keyname.Bounded(long), Hits: 0},
		{Entries: "user:u", Hits: 2, Op: "charge"},
		{Entries: "mine:m", Hits: 1, OwnLimit: true},
		{Entries: "", Hits: 1},
	}
	if diff := cmp.Diff(want, got.Descriptors); diff != "" || got.DescriptorsCut {
		t.Errorf("cut %t: %s", got.DescriptorsCut, diff)
	}
	hidden := b.Redact(got)
	h := testHasher(t)
	want[0].Entries = "user:" + h.Hash("d", `user:a\,b\xff`) + ",op:"
	want[1].Entries = "path:" + h.Hash("d", "path:"+keyname.Bounded(long))
	want[2].Entries = "user:" + h.Hash("d", "user:u")
	want[3].Entries = "mine:" + h.Hash("d", "mine:m")
	if diff := cmp.Diff(want, hidden.Descriptors); diff != "" {
		t.Error(diff)
	}
	if got.Descriptors[2].Entries != "user:u" {
		t.Error("what is remembered was hidden too")
	}
	if value := h.HashValue("d", descriptor.Entry{Key: "path", Value: long}); "path:"+value != want[1].Entries {
		t.Errorf("the value of a long one is named %s", value)
	}
}

// What has no room is left out whole, and that is said.
func TestDescriptorsOfEventsAreBounded(t *testing.T) {
	for name, more := range map[string][]descriptor.Entry{
		"text":    {{Key: "k", Value: strings.Repeat(`\`, 128)}, {Key: "l", Value: strings.Repeat("\x01", 128)}, {Key: "m", Value: strings.Repeat("\x01", 128)}},
		"entries": slices.Repeat([]descriptor.Entry{{Key: "k", Value: "v"}}, descriptor.MaxEntries),
	} {
		b := newBench(t, Options{Sample: 1})
		req := headgate.Request{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: []descriptor.Entry{{Key: "user", Value: "u"}}, Hits: 1}}}
		for range 9 {
			req.Descriptors = append(req.Descriptors, headgate.Descriptor{Entries: more, Hits: 1})
		}
		b.check(req)
		e := b.latest()
		text, entries := 0, 0
		for _, d := range e.Descriptors {
			text += len(d.Entries)
			entries += strings.Count(d.Entries, ":")
		}
		if !e.DescriptorsCut || e.Descriptors[0].Entries != "user:u" || text > maxAskedText || entries > maxAskedEntries {
			t.Errorf("%s: cut %t, %d bytes, %d entries", name, e.DescriptorsCut, text, entries)
		}
		if line := appendEvent(nil, &e); len(line) > 7<<10 {
			t.Errorf("%s: an event of %d bytes", name, len(line))
		}
		hidden := b.Redact(e)
		if line := appendEvent(nil, &hidden); len(line) > 7<<10 {
			t.Errorf("%s: an event of %d bytes with hashes", name, len(line))
		}
	}
}
