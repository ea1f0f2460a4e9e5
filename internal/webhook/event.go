package webhook

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/tenant"
)

// Event is what a receiver is told: JSON, one event to a request.
type Event struct {
	// ID is the same on every node that tells of the same thing: the limit of a
	// tenant, the threshold, and the window.
	ID   string    `json:"id"`
	Type Type      `json:"type"`
	At   time.Time `json:"at"`
	// Tenant is named as the admin API names it, such as tenant:acme or hash:HASH. Of
	// an API key that requests carry as it is, only the last four letters are told.
	Tenant string `json:"tenant"`
	// Tier is left out when there are no tiers.
	Tier   string `json:"tier,omitempty"`
	Domain string `json:"domain"`
	// Descriptor says what the limit counts: "default" for all that the tenant does.
	Descriptor string `json:"descriptor"`
	// LimitName is the name of the limit; of one without a name, that of its rule.
	LimitName string `json:"limit_name"`
	// Threshold is the share of the limit that has been reached, in percent.
	Threshold int `json:"threshold"`
	// Limit, Used and Remaining are what the decision at At said.
	Limit     int64 `json:"limit"`
	Used      int64 `json:"used"`
	Remaining int64 `json:"remaining"`
	// ResetAt is when the limit is as if unused, if nothing else is asked.
	ResetAt time.Time `json:"reset_at"`
}

// apiKeyEntry is the key of entries that hold the hash of an API key.
const apiKeyEntry = string(identity.KindAPIKey)

// eventOf returns the event of a verdict, without what depends on the threshold.
// Verdicts that it is called with name a tenant.
func eventOf(req *headgate.Request, v *headgate.Verdict, at time.Time) Event {
	entries := req.Descriptors[v.Descriptor].Entries
	e := Event{
		At: at.UTC().Truncate(time.Millisecond), Tier: v.Tier, Domain: req.Domain,
		Tenant: quotas.NameText(entries[v.Tenant-1]), LimitName: cmp.Or(v.Name, v.Rule.ID),
		Limit: v.Decision.Limit, Used: used(v), Remaining: v.Decision.Remaining,
		ResetAt: at.Add(v.Decision.ResetAfter).UTC().Truncate(time.Millisecond),
	}
	if bare(entries[v.Tenant-1]) {
		e.Tenant = masked(entries[v.Tenant-1]).Value
	}
	var rest []descriptor.Entry
	for entry := range counted(req, v, v.Tenant) {
		rest = append(rest, masked(entry))
	}
	e.Descriptor = tenant.DescriptorText(descriptor.Format(rest))
	return e
}

// counted are the entries that a limit counts by, those before from left out.
func counted(req *headgate.Request, v *headgate.Verdict, from int) iter.Seq[descriptor.Entry] {
	return func(yield func(descriptor.Entry) bool) {
		for _, e := range req.Descriptors[v.Descriptor].Entries[from:max(from, v.Depth)] {
			if !v.Rule.Aside(e.Key) && !yield(e) {
				return
			}
		}
	}
}

// used returns what has been used of a limit.
func used(v *headgate.Verdict) int64 { return max(0, v.Decision.Limit-v.Decision.Remaining) }

// bare reports whether an entry holds an API key that nobody has hashed.
func bare(e descriptor.Entry) bool {
	const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return e.Key == apiKeyEntry && (len(e.Value) != identity.HashLength || strings.Trim(e.Value, base64url) != "")
}

// masked returns an entry without the API key that it may hold.
func masked(e descriptor.Entry) descriptor.Entry {
	if !bare(e) {
		return e
	}
	return descriptor.Entry{Key: e.Key, Value: "****" + quotas.Last4(e.Value)}
}

// identify gives e, the event of a verdict in a window, its ID. Every part is preceded
// by its length, so that no two events have one text.
func (e *Event) identify(req *headgate.Request, v *headgate.Verdict, window int64) {
	var text []byte
	part := func(s string) {
		text = binary.AppendUvarint(text, uint64(len(s)))
		text = append(text, s...)
	}
	part(e.Domain)
	part(v.Rule.ID)
	part(e.LimitName)
	for entry := range counted(req, v, 0) {
		part(entry.Key)
		part(entry.Value)
	}
	text = binary.AppendVarint(text, window)
	text = binary.AppendUvarint(text, uint64(e.Threshold))
	sum := sha256.Sum256(text)
	e.ID = hex.EncodeToString(sum[:idLength])
}

// idLength is the length of an ID, in bytes.
const idLength = 16
