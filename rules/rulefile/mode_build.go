package rulefile

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
)

// modeSpec is what a descriptor says about how its decisions are made.
type modeSpec struct {
	consistency, localShare, hotKeys string
	syncInterval, leaseTTL           time.Duration
	subBuckets                       int64
	askAlways                        bool
	store, regions                   string
	// at says where the values of the keys stand that were given.
	at map[string]position
}

// modeKeys are the keys of a modeSpec.
var modeKeys = []string{"consistency", "sync_interval", "lease_ttl", "local_share", "hot_keys", "sub_buckets", "remember_denials", "store", "regions"}

// modeField decodes the keys that say how decisions are made.
func (d *decoder) modeField(s *descriptorSpec, f field) bool {
	m := &s.mode
	if own, given := d.own(f, modeKeys...); !given {
		return own
	}
	switch f.name {
	case "consistency":
		m.consistency = d.text(f)
	case "sync_interval":
		m.syncInterval = d.durationWithin(f, rules.MinSyncInterval, rules.MaxSyncInterval)
	case "lease_ttl":
		m.leaseTTL = d.durationWithin(f, rules.MinLeaseTTL, rules.MaxLeaseTTL)
	case "local_share":
		m.localShare = d.text(f)
	case "hot_keys":
		m.hotKeys = d.text(f)
	case "sub_buckets":
		m.subBuckets = d.number(f, rules.MinSubBuckets, rules.MaxSubBuckets)
	case "remember_denials":
		m.askAlways = !d.flag(f)
	case "store":
		m.store = d.storeName(f)
	case "regions":
		m.regions = d.text(f)
	}
	if m.at == nil {
		m.at = make(map[string]position)
	}
	m.at[f.name] = d.valueAt(f)
	s.flags = append(s.flags, f)
	return true
}

// storeName reads the name of a store; "" after reporting what is none.
func (d *decoder) storeName(f field) string {
	if !d.hasValue(f) {
		return ""
	}
	before := len(d.diagnostics)
	name := d.text(f)
	if d.failedSince(before) {
		return ""
	}
	if err := rules.CheckStoreName(name); err != nil {
		what, hint := hinted(err)
		d.errorf(d.valueAt(f), hint, "store: %s", what)
		return ""
	}
	return name
}

// durationWithin reads a duration in [low, high]; 0 after reporting another one.
func (d *decoder) durationWithin(f field, low, high time.Duration) time.Duration {
	before := len(d.diagnostics)
	t := d.duration(f)
	if d.failedSince(before) {
		return 0
	}
	if t < low || t > high {
		d.errorf(d.valueAt(f), fmt.Sprintf("write a duration from %s to %s", rules.DurationText(low), rules.DurationText(high)),
			"%s %s is out of range", f.name, rules.DurationText(t))
		return 0
	}
	return t
}

// mode compiles how the decisions of r are made. Its limits are known by then.
func (c *compiler) mode(r *rules.Rule, s *modeSpec) rules.Mode {
	m := rules.Mode{SyncInterval: s.syncInterval, LeaseTTL: s.leaseTTL, SubBuckets: int(s.subBuckets), AskAlways: s.askAlways}
	m.Consistency = rules.Consistency(c.word(s.at, "consistency", s.consistency, "exact", "leased", "synced", "local"))
	m.Whole = c.word(s.at, "local_share", s.localShare, "share", "whole") == 1
	m.HotKeys = c.hotKeys(s)
	m.Regions = rules.Regions(c.word(s.at, "regions", s.regions, "each", "leased", "shared"))
	if r.Unlimited {
		for key, at := range s.at {
			c.errorf(at, "delete it, or delete unlimited", "%s means nothing when unlimited", key)
		}
		return m
	}
	m.Store = s.store
	if m.Store == "" && m.Consistency != rules.Local {
		m.Store = c.fileStore
	}
	c.checkMode(r, &m, s)
	for i := range r.Limits {
		switch r.Limits[i].Role {
		case rules.Main, rules.Candidate, rules.Secondary:
			c.checkModeOf(r.Limits[i].Limit, &m, s)
		default:
			c.checkModeOfRole(r.Limits[i].Role, &m, s)
		}
	}
	return m
}

// hotKeys compiles what is done for hot keys. Whoever writes consistency: exact means
// each request.
func (c *compiler) hotKeys(s *modeSpec) rules.HotKeys {
	h := rules.HotKeys(c.word(s.at, "hot_keys", s.hotKeys, "auto", "coalesce", "lease"))
	if _, given := s.at["hot_keys"]; !given && s.consistency == rules.Exact.String() {
		return rules.HotCoalesce
	}
	return h
}

// word returns the index of the word that a key has; 0 when it was not given. at
// says where the values of the keys stand that were.
func (c *compiler) word(at map[string]position, key, have string, words ...string) int {
	for i, word := range words {
		if have == word {
			return i
		}
	}
	if at, given := at[key]; given {
		c.errorf(at, "write "+wordsOf(words), "%s '%s' is unknown", key, have)
	}
	return 0
}

// checkMode refuses keys that contradict each other or mean nothing.
func (c *compiler) checkMode(r *rules.Rule, m *rules.Mode, s *modeSpec) {
	refuse := func(key, hint, format string, args ...any) {
		if at, given := s.at[key]; given {
			c.errorf(at, hint, format, args...)
		}
	}
	if m.Consistency != rules.Synced {
		refuse("sync_interval", "write consistency: synced, or delete sync_interval", "sync_interval is for consistency: synced, not %v", m.Consistency)
	}
	if !m.Leases() {
		refuse("lease_ttl", "write consistency: leased or hot_keys: lease, or delete lease_ttl", "lease_ttl is for rules that lease")
	}
	if m.Consistency != rules.Local && r.Failure != rules.FailLocal {
		refuse("local_share", "write consistency: local or failure_mode: local, or delete local_share", "local_share is for rules whose nodes decide alone")
	}
	if m.Consistency != rules.Exact {
		refuse("hot_keys", "delete one of them", "hot_keys is for consistency: exact, not %v", m.Consistency)
		refuse("sub_buckets", "delete one of them", "sub_buckets is for consistency: exact, not %v", m.Consistency)
	} else if m.HotKeys == rules.HotLease {
		refuse("sub_buckets", "delete one of them: both relieve a hot key", "sub_buckets does not go with hot_keys: lease")
	}
	if m.Consistency == rules.Local {
		refuse("store", "delete one of them", "consistency: local asks no store")
	}
}

// checkModeOf refuses a mode that one of the limits cannot be decided by.
func (c *compiler) checkModeOf(l *limit.Limit, m *rules.Mode, s *modeSpec) {
	const exact = "use consistency: exact for it, or another algorithm"
	if l.Carry != limit.CarryUsed && (m.Consistency == rules.Leased || m.Consistency == rules.Synced || m.HotKeys == rules.HotLease) {
		at := s.at["consistency"]
		if m.HotKeys == rules.HotLease {
			at = s.at["hot_keys"]
		}
		c.errorf(at, "delete on_change, or use consistency: exact and hot_keys: coalesce",
			"on_change: %v needs every hit where the limit is decided: hits cannot be leased", l.Carry)
		return
	}
	switch {
	case m.Consistency == rules.Leased && !l.Leasable():
		c.errorf(s.at["consistency"], exact, "hits of %v cannot be leased", l.Algorithm)
	case m.HotKeys == rules.HotLease && !l.Leasable():
		c.errorf(s.at["hot_keys"], "write hot_keys: coalesce, or another algorithm", "hits of %v cannot be leased", l.Algorithm)
	case m.Consistency == rules.Synced && !l.Leasable():
		c.errorf(s.at["consistency"], exact, "%v cannot be synced: each of its hits has to be placed when it passes", l.Algorithm)
	}
	if m.SubBuckets == 0 {
		return
	}
	at := s.at["sub_buckets"]
	atOnce := l.Quota
	if l.Burst > 0 {
		atOnce = min(atOnce, l.Burst)
	}
	switch {
	case l.Algorithm == limit.LeakyBucket || l.Algorithm == limit.LeakyQueue:
		c.errorf(at, "use token_bucket or a window, or delete sub_buckets", "sub_buckets would undo the even spacing of %v", l.Algorithm)
	case l.CountDenied:
		c.errorf(at, "write count_denied: false, or delete sub_buckets", "sub_buckets do not count denied hits: one would count in several")
	case int64(m.SubBuckets) > atOnce:
		hint := "delete sub_buckets: so small a limit makes no hot key"
		if atOnce >= rules.MinSubBuckets {
			hint = fmt.Sprintf("write at most %d", atOnce)
		}
		c.errorf(at, hint, "%d sub_buckets of a limit of %d: each needs at least one hit", m.SubBuckets, atOnce)
	}
}

// checkModeOfRole refuses a mode by which a limit that is no ordinary one cannot
// be decided: a slot belongs to one request, time in flight is charged when it
// has passed, and denials are counted in one place.
func (c *compiler) checkModeOfRole(role rules.Role, m *rules.Mode, s *modeSpec) {
	what := map[rules.Role]string{rules.InFlight: "concurrency", rules.Sustained: "a secondary limit on concurrency", rules.Banning: "a ban"}[role]
	if m.Consistency == rules.Leased || m.Consistency == rules.Synced {
		c.errorf(s.at["consistency"], "write consistency: exact or local, or move one of them to another rule", "%s cannot be %v", what, m.Consistency)
	}
	if m.HotKeys == rules.HotLease {
		c.errorf(s.at["hot_keys"], "write hot_keys: coalesce", "%s cannot be leased", what)
	}
	if m.SubBuckets > 0 {
		c.errorf(s.at["sub_buckets"], "delete sub_buckets, or move one of them to another rule", "%s cannot be spread over sub_buckets", what)
	}
}
