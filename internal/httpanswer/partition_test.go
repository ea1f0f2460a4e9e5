package httpanswer

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

// partitionOf returns pk of the RateLimit field, "" for none.
func partitionOf(t *testing.T, o Options, req *headgate.Request, resp *headgate.Response) string {
	t.Helper()
	e := encoder(t, o)
	s := e.Summarize(resp)
	for _, f := range e.AppendFields(nil, req, resp, &s, exampleNow) {
		if _, pk, ok := strings.Cut(f.Value, ";pk=:"); ok {
			if f.Name != rateLimitField {
				t.Errorf("pk in %s", f.Name)
			}
			canonicalList(t, f.Value)
			text, ok := strings.CutSuffix(pk, ":")
			if raw, err := base64.StdEncoding.DecodeString(text); !ok || err != nil || len(raw) != partitionBytes {
				t.Errorf("%s is no byte sequence of %d bytes", f.Value, partitionBytes)
			}
			return text
		}
	}
	return ""
}

// The same budget has the same partition key, another one another, and without the
// secret nobody can tell which is whose.
func TestPartitionKey(t *testing.T) {
	secret := Options{PartitionKey: []byte("a secret of more than 16 bytes")}
	req, resp := denialBy("no", "42")
	one := partitionOf(t, secret, req, resp)
	if one == "" || strings.Contains(one, "42") {
		t.Fatalf("pk %q", one)
	}
	again, allowed := denialBy("no", "42")
	allowed.Allowed, allowed.Verdicts[0].Decision.Allowed = true, true
	if got := partitionOf(t, secret, again, allowed); got != one {
		t.Errorf("another answer about the same bucket has %s, not %s", got, one)
	}
	seen := map[string]string{one: "first"}
	for what, change := range map[string]func(*headgate.Request, *headgate.Response, *Options){
		"user":   func(q *headgate.Request, _ *headgate.Response, _ *Options) { q.Descriptors[0].Entries[0].Value = "43" },
		"domain": func(q *headgate.Request, _ *headgate.Response, _ *Options) { q.Domain = "other" },
		"limit":  func(_ *headgate.Request, r *headgate.Response, _ *Options) { r.Verdicts[0].Name = "other" },
		"secret": func(_ *headgate.Request, _ *headgate.Response, o *Options) { o.PartitionKey = []byte("another secret") },
	} {
		req, resp := denialBy("no", "42")
		o := secret
		change(req, resp, &o)
		got := partitionOf(t, o, req, resp)
		if as, ok := seen[got]; ok {
			t.Errorf("another %s has the same pk as %s: %q", what, as, got)
		}
		seen[got] = what
	}
}

func TestNoPartitionKey(t *testing.T) {
	req, resp := denialBy("no", "42")
	secret := []byte("a secret of more than 16 bytes")
	for name, got := range map[string]string{
		"off":        partitionOf(t, Options{}, req, resp),
		"no request": partitionOf(t, Options{PartitionKey: secret}, nil, resp),
		"draft 7":    partitionOf(t, Options{PartitionKey: secret, Generation: Draft7}, req, resp),
	} {
		if got != "" {
			t.Errorf("%s: pk %s", name, got)
		}
	}
}
