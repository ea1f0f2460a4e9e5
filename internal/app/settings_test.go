package app

import (
	"maps"
	"slices"
	"testing"

	"github.com/headgate/headgate/internal/view"
)

// TestSettingDigests: nodes tell each other of those settings that are given and that alike
// nodes share, by a digest that tells their values apart and does not have them.
func TestSettingDigests(t *testing.T) {
	given := func(name, value string) view.Setting {
		return view.Setting{Name: name, Value: value, From: view.FromFile, Default: "info"}
	}
	of := func(list ...view.Setting) map[string]string { return settingDigests(view.Settings{Settings: list}) }
	one := of(given("store", "redis://a"), given("log-level", "info"), given("node-name", "gate-1"), given("http-addr", ":1"), given("state-dir", "/a"),
		view.Setting{Name: "rules-poll", Value: "10s", From: view.FromDefault, Default: "10s"})
	if names := slices.Collect(maps.Keys(one)); !slices.Equal(names, []string{"store"}) || len(one["store"]) != 8 {
		t.Errorf("%v", one)
	}
	if same, other := of(given("store", "redis://a")), of(given("store", "redis://b")); same["store"] != one["store"] || other["store"] == one["store"] {
		t.Errorf("%v, %v and %v", one, same, other)
	}
	if unknown := settingDigests(view.Settings{}); unknown != nil {
		t.Errorf("not known: %v", unknown)
	}
	if none := settingDigests(view.Settings{Settings: []view.Setting{}}); none == nil || len(none) != 0 {
		t.Errorf("none given: %v", none)
	}
}
