package keyname_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/internal/testrules"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/memstore"
)

const policy = `
domain: d
match: path
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 10}
  descriptors: [{key: call, concurrency: {limit: 2, hold: call_id}}]
- {key: file, value: a*, share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 10}}
`

func TestEntries(t *testing.T) {
	set := testrules.Load(t, policy)
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	ten := limit.Must(limit.PerMinute(10))
	for _, tt := range []struct {
		asked  string
		caller *limit.Limit
		want   string
	}{
		{asked: "user:a", want: "user:a"},
		{asked: "call_id:7,user:a,call:b", want: "user:a user:a,call:b"},
		{asked: "file:abc", want: "file:a*"},
		{asked: "what:ever,you:like", caller: ten, want: "what:ever,you:like"},
	} {
		entries, err := descriptor.Parse(tt.asked)
		if err != nil {
			t.Fatal(err)
		}
		requests := []headgate.Request{{Domain: "d", Descriptors: []headgate.Descriptor{{Entries: entries, Hits: 1, Limit: tt.caller}}}}
		responses := make([]headgate.Response, 1)
		if err := limiter.Check(t.Context(), requests, responses); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range responses[0].Verdicts {
			v := &responses[0].Verdicts[i]
			got = append(got, string(keyname.AppendText(nil, v.Entries(nil, &requests[0]))))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s is counted by %q, want %q", tt.asked, got, tt.want)
		}
	}
}

func TestTextIsBoundedAndPrintable(t *testing.T) {
	for _, entries := range [][]descriptor.Entry{
		{{Key: "k", Value: strings.Repeat("é", 1<<16)}},
		{{Key: strings.Repeat("\x00", 1<<16), Value: "v"}, {Key: "k", Value: "v"}},
		{{Key: "k", Value: "a\nb\x1b[2J</script>"}},
		nil,
	} {
		text := string(keyname.AppendText([]byte("before "), entries))
		if len(text) > len("before ")+keyname.MaxText || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\x1b") {
			t.Errorf("%.80q", text)
		}
	}
}

func TestCutTextsNameOneKey(t *testing.T) {
	long := strings.Repeat("x", 2000)
	a := string(keyname.AppendText(nil, []descriptor.Entry{{Key: "k", Value: long + "a"}}))
	b := string(keyname.AppendText(nil, []descriptor.Entry{{Key: "k", Value: long + "b"}}))
	if a == b || a != string(keyname.AppendText(nil, []descriptor.Entry{{Key: "k", Value: long + "a"}})) {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestHash(t *testing.T) {
	h, err := keyname.NewHasher(identity.NewSecret(strings.Repeat("k", identity.MinHashKey)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := keyname.NewHasher(identity.NewSecret(strings.Repeat("k", identity.MinHashKey)))
	if err != nil {
		t.Fatal(err)
	}
	const a = "k:v"
	name := h.Hash("d", a)
	if len(name) != identity.HashLength || name != again.Hash("d", a) {
		t.Errorf("%q and %q", name, again.Hash("d", a))
	}
	for _, other := range []string{h.Hash("e", a), h.Hash("d", ""), h.Hash("d", "k:v,k:v"), keyname.Random().Hash("d", a)} {
		if other == name {
			t.Error("two keys, or two hashers, give one name")
		}
	}
	if _, err := keyname.NewHasher(identity.NewSecret("short")); err == nil {
		t.Error("a short key is taken")
	}
}

// A key in what is no file is not waited for, and a file that is too long is not read.
func TestReadHasher(t *testing.T) {
	dir := t.TempDir()
	for name, put := range map[string]func(path string) error{
		"good":                        func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("k", 44)+"\r\n"), 0o600) },
		"short: the key is too short": func(path string) error { return os.WriteFile(path, []byte("k\n"), 0o600) },
		"pipe: not a regular file":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"long: more than 65536 bytes": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 20<<30))
		},
	} {
		file, _, _ := strings.Cut(name, ":")
		if err := put(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
		h, err := keyname.ReadHasher(filepath.Join(dir, file))
		if file == "good" {
			if same, bad := keyname.NewHasher(identity.NewSecret(strings.Repeat("k", 44))); err != nil || bad != nil || h.Hash("d", "x") != same.Hash("d", "x") {
				t.Errorf("%v, %v, or another key", err, bad)
			}
		} else if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}
