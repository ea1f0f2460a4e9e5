package candidates_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/candidates"
	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/rulefile"
)

func load(t testing.TB, o rulefile.Options, files ...rulefile.File) *rules.Set {
	t.Helper()
	set, err := rulefile.Load(files, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// tripled wants three times the quota for each rule that has one.
func tripled(set *rules.Set) (list []candidates.Wanted) {
	for _, r := range set.Rules() {
		var limits []*limit.Limit
		for i := range r.Limits {
			if r.Limits[i].Role != rules.Main {
				continue
			}
			spec := r.Limits[i].Limit.Spec
			spec.Quota *= 3
			switch spec.Algorithm {
			case limit.TokenBucket, limit.GCRA:
				spec.Burst *= 3
			default:
				spec.Burst = 0
			}
			l, err := limit.New(spec)
			if err != nil {
				return nil
			}
			limits = append(limits, l)
		}
		if limits != nil {
			list = append(list, candidates.Wanted{Rule: r.ID, Limits: limits})
		}
	}
	return list
}

// TestWrite: what people wrote stays, and the candidate stands below its limits.
func TestWrite(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{
			"last key", `# rules of ours
domain: api
match: path
descriptors:
  - key: user # all of them
    rate_limit: {unit: minute, requests_per_unit: 100}

  # the costly one
  - key: search
    rate_limit:
      unit: second # short
      requests_per_unit: 5
    name: searches
`, `# rules of ours
domain: api
match: path
descriptors:
  - key: user # all of them
    rate_limit: {unit: minute, requests_per_unit: 100}
    candidate:
      rate_limit: {unit: minute, requests_per_unit: 300}

  # the costly one
  - key: search
    rate_limit:
      unit: second # short
      requests_per_unit: 5
    candidate:
      rate_limit: {unit: second, requests_per_unit: 15}
    name: searches
`,
		},
		{
			"several limits, nested, without a last newline", `domain: api
match: path
descriptors:
  - key: user
    limits:
      - {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 40}
      - name: daily
        unit: day
        time_zone: "Europe/Berlin"
        algorithm: fixed_window
        requests_per_unit: 1000
    descriptors:
      -
        key: op
        value: "ä"
        rate_limit: {
          window: 90s, requests_per_unit: 3
        }`, `domain: api
match: path
descriptors:
  - key: user
    limits:
      - {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 40}
      - name: daily
        unit: day
        time_zone: "Europe/Berlin"
        algorithm: fixed_window
        requests_per_unit: 1000
    candidate:
      limits:
        - {unit: second, requests_per_unit: 30, algorithm: token_bucket, burst: 120}
        - {unit: day, time_zone: "Europe/Berlin", algorithm: fixed_window, requests_per_unit: 3000}
    descriptors:
      -
        key: op
        value: "ä"
        rate_limit: {
          window: 90s, requests_per_unit: 3
        }
        candidate:
          rate_limit: {window: 90s, requests_per_unit: 9}
`,
		},
		{
			"braces", `domain: api
match: path
descriptors:
- {key: user, value: "größer", rate_limit: {unit: minute, requests_per_unit: 100}, name: big}
- {key: host, limits: [{unit: minute, requests_per_unit: 7}, {unit: hour, requests_per_unit: 70}]}
`, `domain: api
match: path
descriptors:
- {key: user, value: "größer", candidate: {rate_limit: {unit: minute, requests_per_unit: 300}}, rate_limit: {unit: minute, requests_per_unit: 100}, name: big}
- {key: host, candidate: {limits: [{unit: minute, requests_per_unit: 21}, {unit: hour, requests_per_unit: 210}]}, limits: [{unit: minute, requests_per_unit: 7}, {unit: hour, requests_per_unit: 70}]}
`,
		},
		{
			"an alias, and lines of Windows", "domain: api\r\nmatch: path\r\ndescriptors:\r\n- key: a\r\n  rate_limit: &slow {unit: minute, requests_per_unit: 2}\r\n- key: b\r\n  rate_limit: *slow\r\n",
			"domain: api\r\nmatch: path\r\ndescriptors:\r\n- key: a\r\n  rate_limit: &slow {unit: minute, requests_per_unit: 2}\r\n  candidate:\r\n    rate_limit: {unit: minute, requests_per_unit: 6}\r\n- key: b\r\n  rate_limit: *slow\r\n  candidate:\r\n    rate_limit: {unit: minute, requests_per_unit: 6}\r\n",
		},
		{
			"always, with another limit beside", `domain: api
match: path
descriptors:
  - always: true
    name: everything
    rate_limit: {unit: second, requests_per_unit: 50}
    concurrency: 20
`, `domain: api
match: path
descriptors:
  - always: true
    name: everything
    rate_limit: {unit: second, requests_per_unit: 50}
    candidate:
      rate_limit: {unit: second, requests_per_unit: 150}
    concurrency: 20
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := rulefile.File{Name: "rules.yaml", Data: []byte(c.text)}
			set := load(t, rulefile.Options{}, file)
			written, refused := candidates.Write([]rulefile.File{file}, rulefile.Options{}, set, tripled(set))
			if len(refused) > 0 {
				t.Fatal(refused)
			}
			if got := string(written[0].Data); got != c.want {
				t.Errorf("it is\n%s\nand not\n%s", got, c.want)
			}
			if string(file.Data) != c.text {
				t.Error("the text that was given has changed")
			}
		})
	}
}

// TestWriteRefuses: what cannot have a candidate is left as it is, and the others get theirs.
func TestWriteRefuses(t *testing.T) {
	const text = `domain: api
match: path
descriptors:
  - key: tried
    rate_limit: {unit: minute, requests_per_unit: 100}
    candidate: {rate_limit: {unit: minute, requests_per_unit: 60}}
  - key: quota
    rate_limit: {unit: minute, requests_per_unit: 100}
    quota_mode: true
  - {key: left, rate_limit: {unit: minute, requests_per_unit: 1}, descriptors: [{key: right, rate_limit: {unit: minute, requests_per_unit: 2}}]}
  - key: merged
    rate_limit: {<<: {unit: minute}, requests_per_unit: 100}
  - &twice
    key: twice
    rate_limit: {unit: minute, requests_per_unit: 100}
    descriptors:
      - key: inner
  - <<: *twice
    key: again
  - key: good
    rate_limit: {unit: minute, requests_per_unit: 100}
`
	file := rulefile.File{Name: "rules.yaml", Data: []byte(text)}
	set := load(t, rulefile.Options{}, file)
	list := append(tripled(set), candidates.Wanted{Rule: "api.nothing"})
	written, refused := candidates.Write([]rulefile.File{file}, rulefile.Options{}, set, list)
	var got []string
	for _, r := range refused {
		got = append(got, r.String())
	}
	want := []string{
		"api.again: its limits do not stand beside its key; hint: write the candidate by hand",
		"api.left: several rules stand on its line; hint: begin each on a line of its own",
		"api.left.right: several rules stand on its line; hint: begin each on a line of its own",
		"api.merged: '<<' of its limit is no word or number; hint: write the candidate by hand",
		"api.nothing: there is no such rule",
		"api.quota: candidates do not go with quota_mode",
		"api.tried: it has a candidate already; hint: take that over or delete it first",
		"api.twice: its text cannot be changed by itself; hint: write the candidate by hand",
	}
	if !slices.Equal(got, want) {
		t.Errorf("refused are\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := text + "    candidate:\n      rate_limit: {unit: minute, requests_per_unit: 300}\n"; string(written[0].Data) != want {
		t.Errorf("written is\n%s", written[0].Data)
	}
}

// TestWriteCompat: in files of envoyproxy/ratelimit a candidate has the defaults of its limit.
func TestWriteCompat(t *testing.T) {
	o := rulefile.Options{Compat: true}
	file := rulefile.File{Name: "rules.yaml", Data: []byte("domain: api\ndescriptors:\n- key: user\n  rate_limit:\n    unit: minute\n    requests_per_unit: 10\n")}
	set := load(t, o, file)
	written, refused := candidates.Write([]rulefile.File{file}, o, set, tripled(set))
	if len(refused) > 0 || !strings.HasSuffix(string(written[0].Data), "  candidate:\n    rate_limit: {unit: minute, requests_per_unit: 30}\n") {
		t.Errorf("refused are %v, written is\n%s", refused, written[0].Data)
	}
}

// TestWriteFiles: a rule is written where it stands.
func TestWriteFiles(t *testing.T) {
	o := rulefile.Options{MergeDomains: true}
	var files []rulefile.File
	for _, key := range []string{"a", "b", "c"} {
		files = append(files, rulefile.File{Name: key + ".yaml", Data: fmt.Appendf(nil, "domain: api\nmatch: path\ndescriptors:\n- key: %s\n  rate_limit: {unit: minute, requests_per_unit: 10}\n", key)})
	}
	set := load(t, o, files...)
	list := slices.DeleteFunc(tripled(set), func(w candidates.Wanted) bool { return w.Rule != "api.b" })
	written, refused := candidates.Write(files, o, set, list)
	for i, f := range written {
		if changed := string(f.Data) != string(files[i].Data); changed != (f.Name == "b.yaml") {
			t.Errorf("%s changed: %v", f.Name, changed)
		}
	}
	if changes := diff.Sets(set, load(t, o, written...)); len(refused) > 0 || len(changes) != 1 || changes[0].Subject != "api.b" {
		t.Errorf("refused are %v, changed is %v", refused, changes)
	}
}

// FuzzWrite: whatever the file, what is written loads, changes nothing but candidates, and has
// one for each rule that was not refused.
func FuzzWrite(f *testing.F) {
	f.Add("domain: api\nmatch: path\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 100}\n")
	f.Add("domain: a\nmatch: path\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}, {key: c}]\n---\n...\n")
	f.Add("domain: a\r\nmatch: path\r\ndescriptors:\r\n-\r\n  key: b\r\n  limits:\r\n  - {unit: hour, requests_per_unit: 3}\r\n  # end")
	f.Add("{domain: a, match: path, descriptors: [{key: ü, limits: [{window: 3s, requests_per_unit: 1, algorithm: gcra, burst: 2}]}]}")
	f.Fuzz(func(t *testing.T, text string) {
		file := rulefile.File{Name: "rules.yaml", Data: []byte(text)}
		set, err := rulefile.Load([]rulefile.File{file}, rulefile.Options{})
		if err != nil {
			return
		}
		list := tripled(set)
		written, refused := candidates.Write([]rulefile.File{file}, rulefile.Options{}, set, list)
		after, err := rulefile.Load(written, rulefile.Options{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, written[0].Data)
		}
		changes := diff.Sets(set, after)
		if len(changes)+len(refused) != len(list) {
			t.Errorf("%d of %d have a candidate, and %d are refused", len(changes), len(list), len(refused))
		}
		for _, c := range changes {
			if c.Field != "candidate" {
				t.Errorf("changed: %v", c)
			}
		}
	})
}
