package diff

import (
	"cmp"
	"fmt"

	"github.com/headgate/headgate/rules"
)

// modeFacts returns the mode by the keys of the rule language.
func modeFacts(m *rules.Mode) map[string]string {
	facts := map[string]string{
		"consistency": m.Consistency.String(), "local_share": "share", "hot_keys": m.HotKeys.String(), "remember_denials": "true",
	}
	if m.Consistency == rules.Synced {
		facts["sync_interval"] = rules.DurationText(cmp.Or(m.SyncInterval, rules.DefaultSyncInterval))
	}
	if m.Leases() {
		facts["lease_ttl"] = rules.DurationText(cmp.Or(m.LeaseTTL, rules.DefaultLeaseTTL))
	}
	if m.Whole {
		facts["local_share"] = "whole"
	}
	if m.SubBuckets > 0 {
		facts["sub_buckets"] = fmt.Sprint(m.SubBuckets)
	}
	if m.AskAlways {
		facts["remember_denials"] = "false"
	}
	if m.Store != "" {
		facts["store"] = m.Store
	}
	return facts
}
