package main

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
)

// Headgate sees what the client sent but for what speaks of a connection, or of what the plugin
// alone may say.
func TestFieldsForHeadgate(t *testing.T) {
	c := newConfig()
	c.CheckIDHeader = "X-Check"
	fields := map[string][]string{
		"x-api-key": {"a", "b"}, "user-agent": {"curl"},
		"x-kong-consumer": {"root"}, "X-KONG-CREDENTIAL": {"root"}, "x-check": {"1"},
		"x-headgate-token": {"guess"}, "x-original-uri": {"/free"}, "x-forwarded-for": {"192.0.2.1"}, "content-length": {"5"},
		"x_ratelimit_challenge": {"forged"}, "X-RateLimit-Challenge": {"forged"},
	}
	r := &client{header: http.Header{}}
	if err := c.copyFields(r, fields); err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.forged)
	if want := []string{"X-RateLimit-Challenge", "x_ratelimit_challenge"}; !slices.Equal(r.forged, want) {
		t.Errorf("forged are %q, want %q", r.forged, want)
	}
	want := http.Header{
		"X-Api-Key": {"a", "b"}, "User-Agent": {"curl"}, "X-Ratelimit-Challenge": {"forged"}, "X_ratelimit_challenge": {"forged"},
	}
	if !reflect.DeepEqual(r.header, want) {
		t.Errorf("%v, want %v", r.header, want)
	}

	c.RequestHeaders = names{"X-Api-Key"}
	r = &client{header: http.Header{}}
	if err := c.copyFields(r, fields); err != nil {
		t.Fatal(err)
	}
	if want := (http.Header{"X-Api-Key": {"a", "b"}, "User-Agent": {""}}); !reflect.DeepEqual(r.header, want) {
		t.Errorf("of one field: %v, want %v", r.header, want)
	}
}

// What cannot be told whole is not told at all.
func TestFieldsThatCannotBeTold(t *testing.T) {
	c := newConfig()
	for name, fields := range map[string]map[string][]string{
		"a name":            {"x y": {"a"}},
		"a line feed":       {"x": {"a", "b\nc"}},
		"a delete":          {"x": {"a\x7f"}},
		"an empty name":     {"": {"a"}},
		"a carriage return": {"x": {"\r"}},
	} {
		if err := c.copyFields(&client{header: http.Header{}}, fields); err == nil || errors.Is(err, errTooManyFields) {
			t.Errorf("%s: %v", name, err)
		}
	}
	many := map[string][]string{"x-two": {"1", "2"}}
	for i := range maxFields - 3 {
		many[fmt.Sprint("x-", i)] = []string{""}
	}
	if err := c.copyFields(&client{header: http.Header{}}, many); err != nil {
		t.Errorf("%d fields: %v", maxFields-1, err)
	}
	many["x-two"] = []string{"1", "2", "3"}
	if err := c.copyFields(&client{header: http.Header{}}, many); !errors.Is(err, errTooManyFields) {
		t.Errorf("%d fields: %v", maxFields, err)
	}
}

// Who has no name is told under none, and a name is looked at before it is told.
func TestNameOfACaller(t *testing.T) {
	r := &client{header: http.Header{}}
	if err := r.name("X-Kong-Consumer", ""); err != nil || len(r.header) > 0 {
		t.Errorf("%v, %v", r.header, err)
	}
	if err := r.name("X-Kong-Consumer", "ann\r\nX-Vip: 1"); err == nil || len(r.header) > 0 {
		t.Errorf("%v, %v", r.header, err)
	}
	if err := r.name("X-Kong-Consumer", "ann"); err != nil || r.header.Get("X-Kong-Consumer") != "ann" {
		t.Errorf("%v, %v", r.header, err)
	}
}
