package switchboard

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// drawEntries draws a copy of few names and versions, so that copies differ in little.
func drawEntries(t *rapid.T, label string) entries {
	all := entries{}
	for range rapid.IntRange(0, 4).Draw(t, label) {
		name := rapid.SampledFrom([]string{"all", "rule:a", "rule:b"}).Draw(t, "name")
		all[name] = entry{
			Name: name, Text: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "text"),
			Version: rapid.Int64Range(1, 3).Draw(t, "version"), UpdatedBy: rapid.SampledFrom([]string{"ann", "ben"}).Draw(t, "by"),
		}
	}
	return all
}

// However copies meet, they end up the same.
func TestMergesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawEntries(t, "a"), drawEntries(t, "b"), drawEntries(t, "c")
		if left, right := merge(merge(a, b), c), merge(a, merge(c, b)); !maps.Equal(left, right) {
			t.Fatalf("%v and %v", left, right)
		}
		if again := merge(a, a); !maps.Equal(again, a) {
			t.Fatalf("%v became %v", a, again)
		}
	})
}

// What was cleared is remembered, else a node that was away would switch it again.
func TestClearedIsNewer(t *testing.T) {
	old := entries{"all": {Name: "all", Text: "x", Version: 5}}
	cleared := entries{"all": {Name: "all", Version: 6, UpdatedAt: noon.UnixMicro()}}
	if got := merge(old, cleared); got["all"].Text != "" || len(got.documents()) != 0 {
		t.Errorf("%v", got)
	}
	data, err := cleared.encode(noon.Add(clearedFor - time.Second))
	if err != nil || !bytes.Contains(data, []byte(`"all"`)) {
		t.Errorf("%s, %v", data, err)
	}
	if data, err = cleared.encode(noon.Add(clearedFor)); err != nil || bytes.Contains(data, []byte(`"all"`)) {
		t.Errorf("for ever: %s, %v", data, err)
	}
}

// There is an end to what a store keeps: what was cleared goes before a switch is refused.
func TestEntriesAreBounded(t *testing.T) {
	all := entries{}
	for i := range 3000 {
		name := fmt.Sprint("rule:", i)
		all[name] = entry{Name: name, Version: int64(i + 1), UpdatedAt: noon.UnixMicro(), UpdatedBy: strings.Repeat("x", 200)}
	}
	all["all"] = entry{Name: "all", Text: "kept", Version: 1}
	data, err := all.encode(noon)
	if err != nil || len(data) > store.MaxRegister {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	kept, err := decode(data)
	if err != nil || kept["all"].Text != "kept" || kept["rule:2999"].Version != 3000 || kept["rule:0"].Version != 0 {
		t.Errorf("%d entries, %v", len(kept), err)
	}
	for name, e := range all {
		e.Text = "kept"
		all[name] = e
	}
	if _, err := all.encode(noon); !errors.Is(err, sqltenant.ErrInvalid) || !strings.Contains(err.Error(), "hint") {
		t.Errorf("too many: %v", err)
	}
}

func TestBadTexts(t *testing.T) {
	good := `{"name":"all","text":"x","version":1,"updated_at_us":1,"updated_by":"ann"}`
	for _, c := range []struct{ text, want string }{
		{`{"format":1,"entries":[` + good + `]}`, ""},
		{`{"format":1,"entries":[` + good, "end"},
		{`{"format":2,"entries":[]}`, "format 2"},
		{`{"format":1,"entries":[` + good + `,` + good + `]}`, "twice"},
		{`{"format":1,"entries":[` + strings.Replace(good, `"all"`, `""`, 1) + `]}`, "its name"},
		{`{"format":1,"entries":[` + strings.Replace(good, `"version":1`, `"version":0`, 1) + `]}`, "version 0"},
		{`{"format":1,"entries":[` + strings.Replace(good, `"version":1`, `"version":9007199254740992`, 1) + `]}`, "version 9007199254740992"},
		{`{"format":1,"entries":[` + strings.Replace(good, `_us":1`, `_us":-1`, 1) + `]}`, "time"},
		{`{"format":1,"more":1,"entries":[]}`, "more"},
		{strings.Repeat(" ", store.MaxRegister+1), "at most"},
		{"", "value"},
	} {
		_, err := decode([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.80q: %v, want %q", c.text, err, c.want)
		}
	}
}

// FuzzDecode holds that what is taken is written as it can be taken again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"format":1,"entries":[{"name":"all","text":"{}","version":1,"updated_at_us":1,"updated_by":"ann"}]}`))
	f.Add([]byte(`{"format":1,"entries":[{"name":"rule:a","version":9007199254740991,"updated_at_us":253402300799999999,"updated_by":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := decode(data)
		if err != nil {
			return
		}
		text, err := all.encode(time.UnixMicro(0))
		if err != nil {
			t.Skip("more than there is room for once it is escaped")
		}
		if again, err := decode(text); err != nil || len(again) > len(all) {
			t.Fatalf("%q became %q: %v", data, text, err)
		}
	})
}
