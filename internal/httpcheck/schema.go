package httpcheck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/repeat"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/tenant"
)

// What the decoder reads, for the document. Nothing is decoded into these types: a body is read
// without any.
type (
	ruleCheck struct {
		Domain      string            `json:"domain"`
		Descriptors []descriptorBody  `json:"descriptors"`
		Attributes  map[string]string `json:"attributes,omitempty"`
		ID          string            `json:"id,omitempty"`
		Hold        any               `json:"hold,omitempty"`
		ClientIP    string            `json:"client_ip,omitempty"`
		UserAgent   string            `json:"user_agent,omitempty"`
	}
	plainCheck struct {
		Key       string `json:"key"`
		Limit     int64  `json:"limit"`
		WindowMS  int64  `json:"window_ms"`
		Hits      int64  `json:"hits,omitempty"`
		Weight    int64  `json:"weight,omitempty"`
		Algorithm string `json:"algorithm,omitempty"`
		Burst     int64  `json:"burst,omitempty"`
		ID        string `json:"id,omitempty"`
		ClientIP  string `json:"client_ip,omitempty"`
		UserAgent string `json:"user_agent,omitempty"`
	}
	keyCheck struct {
		plainCheck
		Op   string `json:"op,omitempty"`
		Hold any    `json:"hold,omitempty"`
	}
	batchBody struct {
		Checks []any `json:"checks"`
	}
	descriptorBody struct {
		Entries    []entryBody `json:"entries,omitempty"`
		Descriptor string      `json:"descriptor,omitempty"`
		Hits       int64       `json:"hits,omitempty"`
		Op         string      `json:"op,omitempty"`
	}
	entryBody struct {
		Key   string `json:"key"`
		Value string `json:"value,omitempty"`
	}
	// What says that a request is still in flight or has ended.
	inFlight struct {
		Hold       string `json:"hold,omitempty"`
		InFlightMS int64  `json:"in_flight_ms,omitempty"`
	}
	ruleInFlight struct {
		Domain      string               `json:"domain"`
		Descriptors []inFlightDescriptor `json:"descriptors"`
		Attributes  map[string]string    `json:"attributes,omitempty"`
		ID          string               `json:"id,omitempty"`
		ClientIP    string               `json:"client_ip,omitempty"`
		UserAgent   string               `json:"user_agent,omitempty"`
		inFlight
	}
	keyInFlight struct {
		plainCheck
		inFlight
	}
	inFlightBatch struct {
		Checks []any `json:"checks"`
	}
	inFlightDescriptor struct {
		Entries    []entryBody `json:"entries,omitempty"`
		Descriptor string      `json:"descriptor,omitempty"`
		Hits       int64       `json:"hits,omitempty"`
	}
	estimate struct {
		Entries    []entryBody `json:"entries,omitempty"`
		Descriptor string      `json:"descriptor,omitempty"`
		Hits       int64       `json:"hits,omitempty"`
	}
	reserveBody struct {
		Domain      string            `json:"domain"`
		Descriptors []estimate        `json:"descriptors"`
		Attributes  map[string]string `json:"attributes,omitempty"`
		ID          string            `json:"id,omitempty"`
		TTLMS       int64             `json:"ttl_ms,omitempty"`
		Hold        any               `json:"hold,omitempty"`
		ClientIP    string            `json:"client_ip,omitempty"`
		UserAgent   string            `json:"user_agent,omitempty"`
	}
	cancelBody struct {
		Reservation string `json:"reservation"`
	}
	commitBody struct {
		cancelBody
		Hits       any               `json:"hits,omitempty"`
		Attributes map[string]string `json:"attributes,omitempty"`
	}
)

// What is answered, for the document: the answers are written without any types.
type (
	left struct {
		Remaining    int64 `json:"remaining,omitempty"`
		ResetMS      int64 `json:"reset_ms,omitempty"`
		WindowEndsMS int64 `json:"window_ends_ms,omitempty"`
	}
	plainDecision struct {
		Allowed bool `json:"allowed"`
		left
		RetryAfterS int64  `json:"retry_after_s,omitempty"`
		DelayMS     int64  `json:"delay_ms,omitempty"`
		Matched     bool   `json:"matched"`
		Degraded    string `json:"degraded"`
	}
	checkDecision struct {
		plainDecision
		Limit    int64      `json:"limit,omitempty"`
		Rule     string     `json:"rule"`
		Role     string     `json:"role,omitempty"`
		Tier     string     `json:"tier,omitempty"`
		Source   string     `json:"source,omitempty"`
		Hold     *heldSlot  `json:"hold,omitempty"`
		Soft     []softBody `json:"soft,omitempty"`
		Name     string     `json:"name,omitempty"`
		WindowS  int64      `json:"window_s,omitempty"`
		Status   int64      `json:"status,omitempty"`
		Reserved string     `json:"reservation,omitempty"`
		Expires  string     `json:"expires_at,omitempty"`
	}
	heldSlot struct {
		ID            string `json:"id"`
		RenewWithinMS int64  `json:"renew_within_ms"`
	}
	softBody struct {
		Action    string `json:"action"`
		Rule      string `json:"rule"`
		Name      string `json:"name,omitempty"`
		Percent   int64  `json:"percent"`
		Limit     int64  `json:"limit"`
		Remaining int64  `json:"remaining"`
		DelayMS   int64  `json:"delay_ms,omitempty"`
		Header    string `json:"header,omitempty"`
		Value     string `json:"value,omitempty"`
		Challenge string `json:"challenge,omitempty"`
	}
	batchAnswer struct {
		Results []checkDecision `json:"results"`
	}
	settledBody struct {
		Settled bool   `json:"settled"`
		Outcome string `json:"outcome"`
		Rule    string `json:"rule"`
		Limit   int64  `json:"limit,omitempty"`
		left
		Degraded string `json:"degraded"`
	}
	problemBody struct {
		problems.Body
		Hint string `json:"hint,omitempty"`
	}
)

// note is a schema that adds to what a type says of a member.
type note = openapi.Schema

// Notes that several members have.
var (
	hitsNote    = note{"minimum": -int64(limit.MaxQuota), "maximum": int64(limit.MaxQuota), "default": 1, "description": "What the request costs. 0 is a peek, one below 0 a refund."}
	opNote      = note{"enum": []string{"hit", "charge", "refund", "reset", "renew", "release"}, "default": "hit"}
	entriesNote = note{"minItems": 1, "maxItems": descriptor.MaxDescriptors, "description": "What the request is limited on."}
	limitNote   = openapi.Said("The quota of a window, or the burst of a bucket. Left out where nothing limits.")
	leftNotes   = map[string]note{
		"remaining":      openapi.Said("Hits that would pass now. Left out where nothing was counted, as the next two are."),
		"reset_ms":       openapi.Said("Milliseconds, rounded up, until the limit is as if unused; with --reset window until its window ends."),
		"window_ends_ms": openapi.Said("Milliseconds, rounded up, until its window ends."),
		"degraded":       openapi.Said(`Why the store did not decide; "" when it did.`),
	}
	decisionNotes = with(leftNotes, map[string]note{
		"matched":       openapi.Said("false when no rule and no limit of the caller applied: the request passes unchecked."),
		"retry_after_s": openapi.Said("Seconds, rounded up and with jitter, until this request would pass; 0 when it may now. Left out where it never will, at this cost."),
		"delay_ms":      openapi.Said("How long an allowed request is to be held back."),
	})
	commonNotes = map[string]note{
		"id":         {"minLength": 1, "maxLength": repeat.MaxID, "description": "Names the check: a repeat is charged nothing and gets the first answer. In bytes."},
		"hold":       {"oneOf": []any{note{"type": "string", "minLength": 1, "maxLength": maxHoldID}, note{"const": true, "type": "boolean"}}, "description": "Who takes a slot of limits on concurrency; true has an id drawn. In bytes."},
		"client_ip":  openapi.Said("Whom the caller asks for, for events. Nothing is decided by it."),
		"user_agent": openapi.Said("The same."),
	}
	ruleNotes = map[string]note{
		"domain":      {"minLength": 1, "description": "The namespace of the rules."},
		"descriptors": entriesNote,
		"attributes":  {"maxProperties": maxAttributes, "description": "Facts for rules that take their cost from the request: content_length, header:NAME (lower case), claim:NAME."},
	}
	inFlightNotes = map[string]note{
		"id":           commonNotes["id"],
		"hold":         {"minLength": 1, "maxLength": maxHoldID, "description": "Who holds, as /v1/check was told or has answered. In bytes."},
		"in_flight_ms": {"maximum": maxInFlight, "default": 0, "description": "The time in flight since the last call."},
		"client_ip":    commonNotes["client_ip"],
		"user_agent":   commonNotes["user_agent"],
	}
	descriptorNotes = map[string]note{
		"entries":    {"minItems": 1, "maxItems": descriptor.MaxEntries},
		"descriptor": {"examples": []string{"user:42,endpoint:POST /orders"}, "description": "The same in text form."},
	}
	plainNotes = map[string]note{
		"key":        {"minLength": 1, "description": "Who is limited, best with the kind of it in front: user:42. Key and window belong together."},
		"limit":      {"maximum": int64(limit.MaxQuota), "description": fmt.Sprintf("Hits per window; 0 denies all. Of buckets at most 2^45, of sliding_log %d.", limit.MaxLogQuota)},
		"window_ms":  {"minimum": 1, "maximum": maxWindow, "description": "The length of the window in milliseconds."},
		"hits":       hitsNote,
		"weight":     {"minimum": hitsNote["minimum"], "maximum": hitsNote["maximum"], "default": 1, "deprecated": true, "description": "The older name of hits, in place of it."},
		"algorithm":  {"enum": algorithms(), "default": limit.SlidingWindow.String()},
		"burst":      {"minimum": 1, "maximum": int64(limit.MaxBucketQuota), "description": "Of token_bucket and gcra; left out, it is limit."},
		"id":         commonNotes["id"],
		"client_ip":  commonNotes["client_ip"],
		"user_agent": commonNotes["user_agent"],
	}
)

// with returns the notes of a and of b; those of b count where both have one.
func with(a, b map[string]note) map[string]note {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// algorithms are those that a caller may name.
func algorithms() (names []string) {
	for a := limit.SlidingWindow; a < limit.Ban; a++ {
		names = append(names, a.String())
	}
	return names
}

// noKey are schemas that a check with a key never has: one of its cost under two names, and one of a
// burst that its algorithm has not.
var noKey = []openapi.Schema{openapi.Both("hits", "weight"), {"required": []string{"burst"}, "properties": note{"algorithm": note{"enum": withoutBurst()}}}}

// noCheck are schemas that neither /v1/check nor /ratelimit/check takes with a key: those, and
// one of requests in flight that would hold nothing.
var noCheck = append(slices.Clone(noKey), openapi.Schema{
	"required": []string{"algorithm"}, "not": note{"anyOf": []openapi.Schema{{"required": []string{"hold"}}}},
	"properties": note{"algorithm": note{"enum": []string{limit.Concurrency.String()}}, "hits": note{"minimum": 1}, "weight": note{"minimum": 1}, "op": note{"enum": []string{"hit"}}},
})

// withoutBurst are the algorithms that have no burst.
func withoutBurst() (names []string) {
	for a := limit.SlidingWindow; a < limit.Ban; a++ {
		if _, err := limit.New(limit.Spec{Algorithm: a, Quota: 1, Period: time.Second, Burst: 1}); err != nil {
			names = append(names, a.String())
		}
	}
	return names
}

// either are the members of which a descriptor has one.
var either = []string{"descriptor", "entries"}

// The schemas of one check, and of one request in flight.
var (
	checkForms    = []any{openapi.Ref("RuleCheck"), openapi.Ref("KeyCheck")}
	inFlightForms = []any{openapi.Ref("RuleInFlight"), openapi.Ref("KeyInFlight")}
)

// components are what the document has by name.
var components = openapi.New([]openapi.Component{
	{Name: "RuleCheck", Of: ruleCheck{}, About: "A check by the rules of the server.", Notes: with(ruleNotes, commonNotes)},
	{Name: "KeyCheck", Of: keyCheck{}, Never: noCheck, About: "A check by a limit that the caller names; it takes the right to.", Notes: with(plainNotes, with(commonNotes, map[string]note{"op": opNote}))},
	{Name: "PlainCheck", Of: plainCheck{}, Never: noCheck, About: "One key by a limit that the caller names; it takes the right to.", Notes: plainNotes},
	{Name: "Batch", Of: batchBody{}, About: "Checks that are decided in their order and in one call. Together they have up to 1,000 descriptors.", Notes: map[string]note{
		"checks": {"items": note{"oneOf": checkForms}, "minItems": 1, "maxItems": maxChecks},
	}},
	{Name: "Descriptor", Of: descriptorBody{}, Either: either, About: "Entries, or a descriptor in its text form.", Notes: with(descriptorNotes, map[string]note{"hits": hitsNote, "op": opNote})},
	{Name: "Entry", Of: entryBody{}, About: "An entry.", Notes: map[string]note{"key": {"minLength": 1}}},
	{Name: "RuleInFlight", Of: ruleInFlight{}, About: "The body of the check that let a request pass, by the rules of the server.", Notes: with(ruleNotes, inFlightNotes)},
	{Name: "KeyInFlight", Of: keyInFlight{}, Never: noKey, About: "The body of the check that let a request pass, by a limit that the caller named.", Notes: with(plainNotes, inFlightNotes)},
	{Name: "InFlightBatch", Of: inFlightBatch{}, About: "Several at once. Together they have up to 1,000 descriptors.", Notes: map[string]note{
		"checks": {"items": note{"oneOf": inFlightForms}, "minItems": 1, "maxItems": maxChecks},
	}},
	{Name: "InFlightDescriptor", Of: inFlightDescriptor{}, Either: either, About: "A descriptor of a request in flight.", Notes: with(descriptorNotes, map[string]note{
		"hits": {"minimum": hitsNote["minimum"], "maximum": hitsNote["maximum"], "description": "They say nothing here."},
	})},
	{Name: "Estimate", Of: estimate{}, Either: either, About: "A descriptor of which a cost is reserved.", Notes: with(descriptorNotes, map[string]note{
		"hits": {"maximum": int64(limit.MaxQuota), "default": 1, "description": "What the request will cost, as far as one knows."},
	})},
	{Name: "Reserve", Of: reserveBody{}, About: "A cost that is known only afterwards. Hits alone can be reserved.", Notes: with(ruleNotes, map[string]note{
		"id":         {"minLength": 1, "maxLength": reservation.MaxID, "description": "Names the reservation: what is asked for once more with it reserves nothing more. In bytes."},
		"ttl_ms":     {"minimum": reservation.MinTTL.Milliseconds(), "maximum": maxTTL, "default": reservation.DefaultTTL.Milliseconds()},
		"hold":       commonNotes["hold"],
		"client_ip":  commonNotes["client_ip"],
		"user_agent": commonNotes["user_agent"],
	})},
	{Name: "Commit", Of: commitBody{}, About: "What was used of a reservation.", Notes: map[string]note{
		"hits": {"oneOf": []any{
			note{"type": "integer", "minimum": 0, "maximum": int64(limit.MaxQuota)},
			note{"type": "array", "minItems": 1, "maxItems": descriptor.MaxDescriptors, "items": note{"type": "integer", "minimum": 0, "maximum": int64(limit.MaxQuota)}},
		}, "description": "One number, or one for each descriptor. Left out, what was reserved."},
	}},
	{Name: "Cancel", Of: cancelBody{}, About: "A reservation of which nothing was used."},

	{Name: "Decision", Of: checkDecision{}, About: "The answer to one check. A denial also has the members of --body.", Open: true, Notes: with(decisionNotes, map[string]note{
		"limit":       limitNote,
		"rule":        openapi.Said(`The id of the rule whose limit speaks; "" for a limit of the caller.`),
		"role":        {"enum": []string{rules.InFlight.String(), rules.Secondary.String(), rules.Sustained.String(), rules.Banning.String()}, "description": "Not of a main limit: then limit and remaining count something else than requests."},
		"source":      {"enum": []string{tenant.FromRule.String(), tenant.FromTier.String(), tenant.FromOverride.String(), tenant.FromTopUp.String(), tenant.FromPool.String()}},
		"name":        openapi.Said("In a batch: the name of the limit."),
		"window_s":    openapi.Said("In a batch: its window in seconds."),
		"status":      openapi.Said("In a batch: the status of a denial without counts."),
		"reservation": openapi.Said("Of /v1/reserve: what settles it."),
		"expires_at":  {"format": "date-time"},
	})},
	{Name: "Held", Of: heldSlot{}, About: "A slot that is held.", Notes: map[string]note{"renew_within_ms": openapi.Said("Until when to renew or release.")}},
	{Name: "Soft", Of: softBody{}, About: "A soft limit that the request is above.", Notes: map[string]note{
		"action": {"enum": []string{rules.Warn.String(), rules.Delay.String(), rules.Degrade.String(), rules.Challenge.String()}},
	}},
	{Name: "PlainDecision", Of: plainDecision{}, About: "The answer to a plain check.", Notes: decisionNotes},
	{Name: "Results", Of: batchAnswer{}, About: "One for each check, in their order."},
	{Name: "Settled", Of: settledBody{}, About: "What became of a reservation, and what is left of the tightest limit.", Notes: with(leftNotes, map[string]note{
		"limit":   limitNote,
		"outcome": {"enum": []string{reservation.Settled.String(), reservation.SettledBefore.String(), reservation.Unknown.String(), reservation.Undecided.String()}},
	})},
	{Name: "Problem", Of: problemBody{}, About: "RFC 9457: what is wrong with the call. Nothing was decided or charged."},
})
