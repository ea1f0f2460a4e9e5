package apikeys

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
)

// callerRequest is a request with a limit that its caller names.
func callerRequest(key string) []headgate.Request {
	return []headgate.Request{{Domain: headgate.CallerDomain, Descriptors: []headgate.Descriptor{{
		Entries: entries("key", key, "window_ms", "60000"), Hits: 1, Limit: limit.Must(limit.PerMinute(1)),
	}}}}
}

// TestKeysOfLimitsThatCallersName: an API key in the key of such a limit gets its name, and
// what is none stays the name of its bucket.
func TestKeysOfLimitsThatCallersName(t *testing.T) {
	h := hasher(t)
	name := h.APIKey("abc123")
	for _, test := range []struct {
		key, want string
		entries   []string
	}{
		{key: "user:42", want: "user:42"},
		{key: "user:a:b", want: "user:a:b"},
		{key: `a\x41:b`, want: `a\x41:b`},
		{key: "api_key:abc123", want: "api_key:" + name},
		{key: "api_key_hash:" + name, want: "api_key:" + name},
		{key: "user:42,api_key:abc123", want: "user:42,api_key:" + name},
		{key: "abc123", want: name},
		{key: ":abc123", want: h.APIKey(":abc123")},
		{key: "user:42,abc123", want: h.APIKey("user:42,abc123")},
		{key: "token:abc123", want: "api_key:" + name, entries: []string{"token"}},
		{key: "abc123", want: "abc123", entries: []string{}},
	} {
		r := callerRequest(test.key)
		New(Options{Hasher: h, Entries: test.entries}).Put(r)
		if got := r[0].Descriptors[0].Entries; got[0].Value != test.want || got[1].Value != "60000" {
			t.Errorf("%s of %v: %v, want %s", test.key, test.entries, got, test.want)
		}
	}
}

// onlooker keeps what an observer and a recorder were shown.
type onlooker struct{ texts []string }

func (s *onlooker) Decided(req *headgate.Request, _ *headgate.Response, _ time.Duration) {
	for _, d := range req.Descriptors {
		for _, e := range d.Entries {
			s.texts = append(s.texts, e.Key+"="+e.Value)
		}
	}
}

// TestVeil: who looks on sees no key, and what is decided is decided by it.
func TestVeil(t *testing.T) {
	var saw onlooker
	watching := NewVeil(func(string) string { return "HASH" }).Observer(&saw)
	for _, r := range [][]headgate.Request{
		requests("user", "42"), requests("op", "x", "api_key", "abc123"), requests("api_key", "abc123"), callerRequest("abc123"), callerRequest("user:42"),
	} {
		before := r[0].Descriptors[0].Entries[len(r[0].Descriptors[0].Entries)-1]
		watching.Decided(&r[0], nil, 0)
		if after := r[0].Descriptors[0].Entries[len(r[0].Descriptors[0].Entries)-1]; after != before {
			t.Errorf("the request has changed: %v, was %v", after, before)
		}
	}
	want := []string{"user=42", "op=x", "api_key=hidden:HASH", "api_key=hidden:HASH", "key=hidden:HASH", "window_ms=60000", "key=user:42", "window_ms=60000"}
	if len(saw.texts) != len(want) {
		t.Fatalf("%q, want %q", saw.texts, want)
	}
	for i := range want {
		if saw.texts[i] != want[i] {
			t.Errorf("%q, want %q", saw.texts[i], want[i])
		}
	}
	var none *Veil
	if none.Observer(&saw) != headgate.Observer(&saw) {
		t.Error("without a veil something is put over")
	}
}
