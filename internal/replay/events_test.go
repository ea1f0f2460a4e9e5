package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/view"
)

// FuzzEvents holds what is read of a line against encoding/json: whatever is read is what that reads.
func FuzzEvents(f *testing.F) {
	for _, e := range []view.Event{
		{Schema: 1, TS: 1795348800123, EventID: "019dfe03-6d7b-7a31-9c55-2f6d0f4be0c8", Domain: "api", Key: "user:42", Outcome: "denied", SampleRate: 1, Rule: `a"\é`,
			Descriptors: []view.EventDescriptor{{Entries: `user:4\,2`, Hits: 3}, {Entries: "user:42,op:x", Hits: 0, Op: "charge"}, {Entries: "a:b", OwnLimit: true}}},
		{Schema: 1, TS: 1795348800123, Domain: "api", Key: "user:42", Outcome: "allowed", Allowed: true, SampleRate: 100, Hits: 2},
		{Schema: 1, TS: 1795348800123, Domain: "api", KeyHashed: true, Key: "abc", Outcome: "unmatched", Allowed: true, SampleRate: 1},
	} {
		line, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"schema":1,"x":[{"a":"]}\"\\"},[]],"ts":1,"domain":"d","outcome":"allowed","key":"a:b","sample_rate":1}`))
	f.Add([]byte(` { } `))
	f.Fuzz(func(t *testing.T, line []byte) {
		decode := Events(nil)
		r := new(Record)
		if err := decode(line, r); err != nil {
			return
		}
		var want view.Event
		if err := json.Unmarshal(line, &want); err != nil {
			// What nobody asks for is not looked into.
			var syntax *json.SyntaxError
			var kind *json.UnmarshalTypeError
			if !errors.As(err, &syntax) && !errors.As(err, &kind) {
				t.Fatalf("%s: %v", line, err)
			}
			return
		}
		var asked [][]descriptor.Entry
		for _, d := range want.Descriptors {
			if !d.OwnLimit {
				entries, err := descriptor.Parse(d.Entries)
				if err != nil {
					t.Fatalf("%s: %v was taken", line, err)
				}
				asked = append(asked, entries)
			}
		}
		if len(want.Descriptors) == 0 {
			entries, err := descriptor.Parse(want.Key)
			if err != nil {
				t.Fatalf("%s: %v was taken", line, err)
			}
			asked = append(asked, entries)
		}
		var got [][]descriptor.Entry
		for _, d := range r.Descriptors {
			got = append(got, d.Entries)
		}
		// Names of members in other letters are for encoding/json alone.
		if diff := cmp.Diff(asked, got, cmpopts.EquateEmpty()); diff != "" && !bytes.ContainsAny(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ\\\xc5\xe2") {
			t.Errorf("%s: %s", line, diff)
		}
	})
}

func TestEventMembers(t *testing.T) {
	decode := Events(nil)
	read := func(line string) (r Record, err error) {
		err = decode([]byte(line), &r)
		return r, err
	}
	// A line says nothing for the next one.
	if _, err := read(`{"schema":1,"ts":1000,"domain":"d","rule":"r","outcome":"denied","key":"a:b"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := read(`{"schema":1,"ts":1000,"outcome":"denied","key":"a:b"}`); err == nil {
		t.Error("a line without a domain was taken")
	}
	r, err := read(` {"rule" : "x\u0041" , "schema":1,"ts":1000,"domain":"d","outcome":"denied","key":"a:b","unknown":{"a":["\"}",1,null]}} `)
	if err != nil || r.Rule != "xA" || r.Domain != "d" || r.At != 1_000_000 || r.Allowed || r.Descriptors[0].Entries[0].Value != "b" {
		t.Errorf("%v %+v", err, r)
	}
	for _, line := range []string{
		`{"schema":1,"ts":1000,"domain":"d","outcome":"denied","key":"a:b"} x`, `{"schema":1 "ts":1000}`, `{"schema":1,"ts":1000,"domain":"d","outcome":"denied","key":"a:b","hits":-1}`,
		`{"schema":1,"ts":1000,"domain":"d","outcome":"denied","key":"a:b","sample_rate":0}`, `{"schema":1,"ts":99999999999999,"domain":"d","outcome":"denied","key":"a:b"}`,
		`{"schema":1,"ts":1000,"domain":"d","outcome":"denied","descriptors":[{"entries":"x","hits":1}]}`, `{"schema":1,"ts":1000,"domain":"d","outcome":"denied","descriptors":[{"entries":"a:b","hits":1,"op":"steal"}]}`,
	} {
		if _, err := read(line); err == nil || errors.Is(err, ErrSkip) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
