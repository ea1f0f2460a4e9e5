package rulefile

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
	inConcurrency
	inSecondary
	inBan
	inSoft
	inAnswer
	inShift
	inCandidate
	inRollBack
)

var placeNames = [...]string{
	inFile:        "the top of the file",
	inDescriptor:  "a descriptor",
	inRateLimit:   "rate_limit",
	inReplaces:    "an entry of replaces",
	inCost:        "cost",
	inConcurrency: "concurrency",
	inSecondary:   "an entry of secondary_limits",
	inBan:         "ban",
	inSoft:        "soft_limit",
	inAnswer:      "answer",
	inShift:       "an entry of schedule",
	inCandidate:   "candidate",
	inRollBack:    "roll_back",
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

// keys is every key of the rule language.
var keys = map[string]keyInfo{
	"domain":            {[]place{inFile}, true},
	"descriptors":       {[]place{inFile, inDescriptor}, true},
	"key":               {[]place{inDescriptor}, true},
	"value":             {[]place{inDescriptor, inSoft}, true},
	"rate_limit":        {[]place{inDescriptor, inCandidate}, true},
	"shadow_mode":       {[]place{inDescriptor}, true},
	"quota_mode":        {[]place{inDescriptor}, true},
	"detailed_metric":   {[]place{inDescriptor}, true},
	"value_to_metric":   {[]place{inDescriptor}, true},
	"share_threshold":   {[]place{inDescriptor}, true},
	"metadata":          {[]place{inDescriptor}, true},
	"unit":              {[]place{inRateLimit, inSecondary}, true},
	"requests_per_unit": {[]place{inRateLimit, inSecondary}, true},
	"unlimited":         {[]place{inRateLimit}, true},
	"name":              {[]place{inDescriptor, inRateLimit, inReplaces, inCost, inSecondary}, true},
	"replaces":          {[]place{inRateLimit}, true},

	"match":            {[]place{inFile}, false},
	"consumption":      {[]place{inFile}, false},
	"value_cidr":       {[]place{inDescriptor}, false},
	"value_prefix":     {[]place{inDescriptor}, false},
	"value_regex":      {[]place{inDescriptor}, false},
	"always":           {[]place{inDescriptor}, false},
	"tenant":           {[]place{inDescriptor}, false},
	"on_change":        {[]place{inDescriptor}, false},
	"max_debt":         {[]place{inDescriptor}, false},
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
	"limits":       {[]place{inDescriptor, inCandidate}, false},
	"algorithm":    {[]place{inRateLimit, inSecondary}, false},
	"burst":        {[]place{inRateLimit, inSecondary}, false},
	"window":       {[]place{inRateLimit, inSecondary}, false},
	"time_zone":    {[]place{inRateLimit, inSecondary, inShift}, false},
	"sub_windows":  {[]place{inRateLimit, inSecondary}, false},
	"mode":         {[]place{inRateLimit, inSecondary}, false},
	"count_denied": {[]place{inRateLimit, inSecondary}, false},
	"max_delay":    {[]place{inRateLimit, inSecondary}, false},
	"max_queue":    {[]place{inRateLimit, inSecondary}, false},
	"from":         {[]place{inCost}, false},
	"max":          {[]place{inCost}, false},

	"concurrency":       {[]place{inDescriptor, inSecondary}, false},
	"limit":             {[]place{inConcurrency}, false},
	"timeout":           {[]place{inConcurrency}, false},
	"hold":              {[]place{inConcurrency}, false},
	"secondary_limits":  {[]place{inDescriptor}, false},
	"over":              {[]place{inSecondary, inRollBack}, false},
	"ban":               {[]place{inDescriptor}, false},
	"after":             {[]place{inBan}, false},
	"within":            {[]place{inBan}, false},
	"for":               {[]place{inBan, inShift}, false},
	"soft_limit":        {[]place{inDescriptor}, false},
	"at":                {[]place{inSoft}, false},
	"action":            {[]place{inSoft}, false},
	"header":            {[]place{inSoft}, false},
	"delay":             {[]place{inSoft}, false},
	"challenge":         {[]place{inSoft}, false},
	"answer":            {[]place{inFile, inDescriptor}, false},
	"body":              {[]place{inAnswer}, false},
	"headers":           {[]place{inAnswer}, false},
	"x_ratelimit":       {[]place{inAnswer}, false},
	"x_ratelimit_reset": {[]place{inAnswer}, false},
	"message":           {[]place{inAnswer}, false},
	"priority":          {[]place{inDescriptor}, false},

	"schedule":     {[]place{inDescriptor}, false},
	"cron":         {[]place{inShift}, false},
	"factor":       {[]place{inShift}, false},
	"tiers":        {[]place{inShift}, false},
	"candidate":    {[]place{inDescriptor}, false},
	"percent":      {[]place{inCandidate}, false},
	"tenants":      {[]place{inCandidate}, false},
	"roll_back":    {[]place{inCandidate}, false},
	"above":        {[]place{inRollBack}, false},
	"min_requests": {[]place{inRollBack}, false},
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
