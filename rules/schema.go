package rules

import (
	"slices"
)

// place is a kind of YAML mapping in a file of rules.
type place uint8

const (
	inFile place = iota
	inDescriptor
	inRateLimit
	inReplaces
	inCost
)

var placeNames = [...]string{
	inFile:       "the top of the file",
	inDescriptor: "a descriptor",
	inRateLimit:  "rate_limit",
	inReplaces:   "an entry of replaces",
	inCost:       "cost",
}

// keyInfo says where a key of the rule language belongs.
type keyInfo struct {
	places []place
	// envoy marks the keys of envoyproxy/ratelimit. That service accepts each of
	// them at any level and ignores it where it means nothing.
	envoy bool
}

// keys is every key of the rule language.
var keys = map[string]keyInfo{
	"domain":            {[]place{inFile}, true},
	"descriptors":       {[]place{inFile, inDescriptor}, true},
	"key":               {[]place{inDescriptor}, true},
	"value":             {[]place{inDescriptor}, true},
	"rate_limit":        {[]place{inDescriptor}, true},
	"shadow_mode":       {[]place{inDescriptor}, true},
	"quota_mode":        {[]place{inDescriptor}, true},
	"detailed_metric":   {[]place{inDescriptor}, true},
	"value_to_metric":   {[]place{inDescriptor}, true},
	"share_threshold":   {[]place{inDescriptor}, true},
	"metadata":          {[]place{inDescriptor}, true},
	"unit":              {[]place{inRateLimit}, true},
	"requests_per_unit": {[]place{inRateLimit}, true},
	"unlimited":         {[]place{inRateLimit}, true},
	"name":              {[]place{inDescriptor, inRateLimit, inReplaces, inCost}, true},
	"replaces":          {[]place{inRateLimit}, true},

	"match":            {[]place{inFile}, false},
	"consumption":      {[]place{inFile}, false},
	"value_cidr":       {[]place{inDescriptor}, false},
	"value_prefix":     {[]place{inDescriptor}, false},
	"value_regex":      {[]place{inDescriptor}, false},
	"always":           {[]place{inDescriptor}, false},
	"sensitive":        {[]place{inDescriptor}, false},
	"failure_mode":     {[]place{inDescriptor}, false},
	"consistency":      {[]place{inDescriptor}, false},
	"sync_interval":    {[]place{inDescriptor}, false},
	"lease_ttl":        {[]place{inDescriptor}, false},
	"local_share":      {[]place{inDescriptor}, false},
	"hot_keys":         {[]place{inDescriptor}, false},
	"sub_buckets":      {[]place{inDescriptor}, false},
	"remember_denials": {[]place{inDescriptor}, false},

	"valid_from":   {[]place{inDescriptor}, false},
	"valid_until":  {[]place{inDescriptor}, false},
	"cost":         {[]place{inDescriptor}, false},
	"limits":       {[]place{inDescriptor}, false},
	"algorithm":    {[]place{inRateLimit}, false},
	"burst":        {[]place{inRateLimit}, false},
	"window":       {[]place{inRateLimit}, false},
	"time_zone":    {[]place{inRateLimit}, false},
	"sub_windows":  {[]place{inRateLimit}, false},
	"mode":         {[]place{inRateLimit}, false},
	"count_denied": {[]place{inRateLimit}, false},
	"max_delay":    {[]place{inRateLimit}, false},
	"max_queue":    {[]place{inRateLimit}, false},
	"from":         {[]place{inCost}, false},
	"max":          {[]place{inCost}, false},
}

// belongs reports whether a key means something in p.
func (k keyInfo) belongs(p place) bool { return slices.Contains(k.places, p) }

// home names where the key belongs, for hints.
func (k keyInfo) home() string { return placeNames[k.places[0]] }

// nearestKey returns the known key that name is most likely a misspelling of,
// "" if none is near.
func nearestKey(name string) string {
	if len(name) > 2*longestKey {
		return ""
	}
	best, nearest := 1+len(name)/3, ""
	for k := range keys {
		if d := editDistance(name, k); d < best || d == best && nearest != "" && k < nearest {
			best, nearest = d, k
		}
	}
	return nearest
}

const longestKey = len("requests_per_unit")

// editDistance is the number of bytes to insert, delete or replace to turn a
// into b (Levenshtein), in the two-row form of Wagner and Fischer.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
