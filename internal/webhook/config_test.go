package webhook

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/identity"
)

// keysByName has the files "a.key" and "short.key".
func keysByName(name string) ([]identity.Secret, error) {
	if name == "a.key" {
		return []identity.Secret{testKey}, nil
	}
	return nil, errors.New("no such file")
}

func TestParse(t *testing.T) {
	const secret = "SeCrEt"
	for _, c := range []struct{ text, want string }{
		{"", "no hooks; hint: out with a list of receivers, or in with a secret_file"},
		{"out:\n- {url: https://h.example/" + secret + ", secret_file: a.key}", ""},
		{"out:\n- {url: http://localhost:8000/" + secret + ", secret_file: a.key, thresholds: [1, 100], events: [quota.exhausted]}", ""},
		{"out:\n- {url: 'http://[::1]:8000/', secret_file: a.key}", ""},
		{"in: {secret_file: a.key}", ""},
		{"outs: []", `line 1: unknown key "outs"; hint: did you mean "out"?`},
		{"out:\n- {url: https://h.example/, secret_file: a.key, secret: x}", "line 2: unknown key; hint: there is url, secret_file, thresholds, events"},
		{"out:\n- secret_file: a.key", "line 2: out[0]: url: missing; hint: https://hooks.example.com/headgate"},
		{"out:\n- {url: ftp://h.example/" + secret + ", secret_file: a.key}", "line 2: out[0]: url: it is not https; hint: http is for localhost, 127.0.0.0/8 and ::1 alone"},
		{"out:\n- {url: http://h.example/" + secret + ", secret_file: a.key}", "line 2: out[0]: url: it is not https; hint: http is for localhost, 127.0.0.0/8 and ::1 alone"},
		{"out:\n- {url: http://10.0.0.1/" + secret + ", secret_file: a.key}", "line 2: out[0]: url: it is not https; hint: http is for localhost, 127.0.0.0/8 and ::1 alone"},
		{"out:\n- {url: 'https:///" + secret + "', secret_file: a.key}", "line 2: out[0]: url: no address; hint: https://hooks.example.com/headgate"},
		{"out:\n- {url: 'https://h.example/%zz" + secret + "', secret_file: a.key}", "line 2: out[0]: url: no address; hint: https://hooks.example.com/headgate"},
		{"out:\n- {url: 'https://u:" + secret + "@h.example/', secret_file: a.key}", "line 2: out[0]: url: it holds a user, a password or a fragment; hint: leave them out, what is sent is signed"},
		{"out:\n- {url: https://169.254.169.254/" + secret + ", secret_file: a.key}", "line 2: out[0]: url: " + errMetadata.Error()},
		{"out:\n- {url: 'https://[fd00:ec2::254]/', secret_file: a.key}", "line 2: out[0]: url: " + errMetadata.Error()},
		{"out:\n- {url: https://h.example/}", "line 2: out[0]: secret_file: missing; hint: openssl rand -base64 32 > hooks.key"},
		{"out:\n- {url: https://h.example/, secret_file: none.key}", "line 2: out[0]: secret_file: no such file"},
		{"out:\n- {url: https://h.example/, secret_file: a.key}\n- {url: https://h.example/, secret_file: a.key, thresholds: [0]}", "line 3: out[1]: thresholds: 0; hint: percent of a limit, 1 to 100"},
		{"out:\n- {url: https://h.example/, secret_file: a.key, thresholds: [101]}", "line 2: out[0]: thresholds: 101; hint: percent of a limit, 1 to 100"},
		{"out:\n- {url: https://h.example/, secret_file: a.key, thresholds: [1,2,3,4,5,6,7,8,9,10,11]}", "line 2: out[0]: thresholds: 11 of them; hint: at most 10"},
		{"out:\n- {url: https://h.example/, secret_file: a.key, events: [quota.gone]}", `line 2: out[0]: events: unknown event; hint: quota.near_exhaustion, quota.exhausted`},
		{"out:" + strings.Repeat("\n- {url: https://h.example/, secret_file: a.key}", 17), "out: 17 receivers; hint: at most 16"},
		{"in: {}", "in: secret_file: missing; hint: openssl rand -base64 32 > hooks.key"},
		{"in: {secret_file: none.key}", "in: secret_file: no such file"},
	} {
		got := ""
		if _, err := parse([]byte(c.text), keysByName); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.text, got, c.want)
		}
		if strings.Contains(got, secret) {
			t.Errorf("an error tells an address: %s", got)
		}
	}
}

// TestLoad: files named in the file lie beside it, and what is not said is as usual.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hooks.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hooks.yaml", "out:\n- {url: https://h.example/x, secret_file: out.key}\n- {url: https://i.example/, secret_file: "+filepath.Join(dir, "out.key")+", thresholds: [90, 50, 90]}\nin: {secret_file: in.key}\n")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+":2:3: out[0]: secret_file: ") {
		t.Errorf("without a key: %v", err)
	}
	write("out.key", testKey.Reveal())
	write("in.key", "hunter2")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "a key of 7 bytes") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("with a short key: %v", err)
	}
	write("in.key", otherKey.Reveal())
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Out) != 2 || c.Out[0].URL.String() != "https://h.example/x" || c.Out[0].Keys[0].Reveal() != testKey.Reveal() ||
		!slices.Equal(c.Out[0].Thresholds, []int{80, 100}) || !slices.Equal(c.Out[1].Thresholds, []int{50, 90}) ||
		!slices.Equal(c.Out[0].Events, []Type{NearExhaustion, Exhausted}) || c.In[0].Reveal() != otherKey.Reveal() {
		t.Errorf("%+v", c)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// FuzzParse: a file is refused, or all of its receivers can be sent to.
func FuzzParse(f *testing.F) {
	f.Add("out:\n- {url: https://h.example/, secret_file: a.key, thresholds: [80], events: [quota.exhausted]}\nin: {secret_file: a.key}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse([]byte(text), keysByName)
		if err != nil {
			return
		}
		for _, r := range c.Out {
			if r.URL == nil || r.URL.Host == "" || len(r.Keys) == 0 || len(r.Thresholds) == 0 || len(r.Events) == 0 || r.URL.Scheme == "http" && !loopbackName(r.URL.Hostname()) {
				t.Errorf("%+v", r)
			}
		}
	})
}
