package rulefile

import (
	_ "embed"
	"encoding/json"
	"slices"
	"sync"
)

// place is a kind of YAML mapping in a file of rules.
type place uint8

const (
	inFile place = iota
	inDescriptor
	inRateLimit
	inReplaces
	inCost
	inConcurrency
	inSecondary
	inBan
	inSoft
	inAnswer
	inShift
	inCandidate
	inRollBack
	inHotRaise
)

// places says what errors call each place, and which definition of the JSON Schema has
// its keys; inFile has those of the schema as a whole.
var places = [...]struct{ name, definition string }{
	inFile:        {"the top of the file", ""},
	inDescriptor:  {"a descriptor", "descriptor"},
	inRateLimit:   {"rate_limit", "rate_limit"},
	inReplaces:    {"an entry of replaces", ""},
	inCost:        {"cost", "cost"},
	inConcurrency: {"concurrency", "concurrency"},
	inSecondary:   {"an entry of secondary_limits", "secondary_limit"},
	inBan:         {"ban", "ban"},
	inSoft:        {"soft_limit", "soft_limit"},
	inAnswer:      {"answer", "answer"},
	inShift:       {"an entry of schedule", "shift"},
	inCandidate:   {"candidate", "candidate"},
	inRollBack:    {"roll_back", "roll_back"},
	inHotRaise:    {"raise_hot_keys", "raise_hot_keys"},
}

// isHeadgates reports whether envoyproxy/ratelimit has no such mapping, so that
// no file of that service relies on what stands in one.
func (p place) isHeadgates() bool { return p >= inCost }

// keyInfo says where a key of the rule language belongs.
type keyInfo struct {
	places []place
	// envoy marks the keys of envoyproxy/ratelimit. That service accepts each of
	// them at any level and ignores it where it means nothing.
	envoy bool
}

// envoyKeys are the keys of envoyproxy/ratelimit.
var envoyKeys = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric",
	"share_threshold", "metadata", "unit", "requests_per_unit", "unlimited", "name", "replaces",
}

// keys returns every key of the rule language, which are those of the JSON Schema.
var keys = sync.OnceValue(func() map[string]keyInfo {
	type properties struct{ Properties map[string]json.RawMessage }
	var schema struct {
		properties
		Defs map[string]properties `json:"$defs"`
	}
	if err := json.Unmarshal(schemaJSON, &schema); err != nil {
		panic("rulefile: schema.json: " + err.Error()) // it is part of the program
	}
	all := make(map[string]keyInfo)
	for p := range place(len(places)) {
		found := schema.Defs[places[p].definition].Properties
		switch p {
		case inFile:
			found = schema.Properties
		case inReplaces: // no definition of its own
			found = map[string]json.RawMessage{"name": nil}
		}
		for name := range found {
			all[name] = keyInfo{append(all[name].places, p), slices.Contains(envoyKeys, name)}
		}
	}
	return all
})

// belongs reports whether a key means something in p.
func (k keyInfo) belongs(p place) bool { return slices.Contains(k.places, p) }

// home names where the key belongs, for hints.
func (k keyInfo) home() string { return places[k.places[0]].name }

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema (draft 2020-12) of rule files, for editors. It
// describes files as they should be written: what envoyproxy/ratelimit accepts
// and ignores is not in it.
func Schema() []byte { return slices.Clone(schemaJSON) }
