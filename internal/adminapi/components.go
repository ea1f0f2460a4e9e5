package adminapi

import (
	"fmt"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/usageview"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// said is a note that describes.
func said(about string) schema { return schema{"description": about} }

// oneOf is a note of a text that is one of some.
func oneOf[T fmt.Stringer](values ...T) schema {
	list := make([]string, len(values))
	for i := range values {
		list[i] = values[i].String()
	}
	return schema{"enum": list}
}

// Notes that several members have.
var (
	masked         = said("Masked; of a tenant its name.")
	mayBeMore      = said("There when there may be more.")
	unitNote       = said("second, minute, hour, day, week, month, year, or a length such as 10s, 5m, 36h, 7d.")
	descriptorNote = said("default, or entries such as endpoint:POST /v1/orders.")
	atLeastOne     = schema{"minimum": 1}
	orNull         = schema{"type": []string{"string", "null"}, "description": "null is all.", "required": false}
	sourceNote     = oneOf(tenant.FromOverride, tenant.FromTier, tenant.FromRule)
	countNotes     = map[string]schema{
		"limit":    said("How much may be used: the quota of a window, the burst of a bucket."),
		"reset_at": said("When all of it may be used again, if nothing more is."),
		"source":   oneOf(tenant.FromOverride, tenant.FromTier, tenant.FromRule, tenant.FromPool),
		"degraded": said("Why the store did not tell; then there are no counts, or with local those of this node alone."),
		"unit":     unitNote,
	}
	documentNotes = map[string]schema{
		"tier":      {"maxLength": tenant.MaxName, "description": "Left out, the fallback tier counts."},
		"tiers":     {"maxItems": tenant.MaxAssignments, "description": "Further tiers that the account had or will have."},
		"overrides": {"maxItems": tenant.MaxOverrides},
		"top_ups":   {"maxItems": tenant.MaxTopUps, "description": "Left out, those that the account has stay."},
	}
	rowNotes = map[string]schema{
		"scope": {"enum": []string{"user", "ip", "apikey"}}, "route": orNull, "method": orNull,
		"window_ms":    atLeastOne,
		"weight_field": said("Where the cost of a request comes from; left out, it is 1."),
		"failure_mode": oneOf(rules.Open, rules.Closed, rules.FailLocal, rules.OpenUnbounded),
		"is_active":    {"default": true, "required": false},
	}
)

// components are what the document has by name. Their members are those of their types.
var components = []component{
	{name: "Document", of: quotas.Document{}, about: "An account, whole. What has no effective_at counts always, what has no expires_at for ever; of several the one that began last counts. Those at the top hold for the tier, and for each override that has none of its own.", notes: documentNotes},
	{name: "Assignment", of: quotas.Assignment{}, about: "A tier for a time."},
	{name: "Override", of: quotas.Override{}, about: "The quota of one descriptor: requests_per_unit and unit, or unlimited.", notes: map[string]schema{
		"descriptor": {"maxLength": tenant.MaxDescriptor, "description": "default for all that the account does, else entries such as endpoint:POST /v1/orders."},
		"unit":       unitNote,
	}},
	{name: "TopUpBody", of: quotas.TopUp{}, about: "A top-up: hits beyond a quota, each of which can be used once.", notes: map[string]schema{
		"id":         {"maxLength": tenant.MaxName, "description": "Left out, one is drawn."},
		"descriptor": {"description": descriptorNote["description"], "required": false}, "hits": atLeastOne,
		"effective_at": said("Left out, now."),
	}},
	{name: "Limit", of: limitView{}, about: "One limit.", notes: map[string]schema{"unit": unitNote}},
	{name: "ResolvedQuota", of: quotaOfView{}, about: "A quota that counts now. Of several limits, all of which count, the first stands in its fields and all stand in limits.", notes: map[string]schema{
		"source": sourceNote, "unit": unitNote,
	}},
	{name: "Quota", of: quotaView{}, about: "An account, and what counts of it now.", notes: map[string]schema{
		"api_key": masked, "name": said("What the account can be asked for by."), "tier": said("The tier that counts now."), "quotas": said("What counts now."),
		"invalid": said("Why the account is not in force: somebody else than Headgate has written it."),
	}},
	{name: "Page", of: accountsPage{}, about: "Accounts in the order of their names.", notes: map[string]schema{"next_cursor": mayBeMore}},
	{name: "Tiers", of: tiersView{}, about: "What the tenants of each tier may use.", notes: map[string]schema{"fallback": said("The tier of those without an account.")}},
	{name: "Tier", of: tierView{}, about: "A tier."},
	{name: "Changes", of: changesPage{}, about: "The log of changes."},
	{name: "Change", of: changeView{}, about: "A change.", notes: map[string]schema{
		"kind": {"enum": []sqltenant.Kind{sqltenant.AccountEntry, sqltenant.RulesDocument, sqltenant.TiersDocument, sqltenant.SwitchDocument, sqltenant.RuleRowEntry, sqltenant.ActionEntry}}, "name": said("Of the account or the document, or the id of the row."),
		"hash": said("SHA-256 over the hash before it and all fields: whoever alters a change breaks the chain."),
	}},
	{name: "Line", of: quotas.Line{}, about: "An account to a line.", notes: documentNotes},
	{name: "Imported", of: imported{}, about: "What an import has done, or would do."},
	{name: "BillingEvent", of: billingEvent{}, about: `An event of billing. Of two events for one thing the one with the later "at" counts, in whatever order they come.`, notes: map[string]schema{
		"id":      {"maxLength": maxEvent, "description": "Sent again, the event changes nothing more."},
		"type":    {"enum": []string{tierSet, quotaSet, topUpAdd}},
		"subject": said("The account, as paths name it."),
	}},
	{name: "BillingTopUp", of: billingTopUp{}, about: "Hits beyond a quota.", notes: map[string]schema{"hits": atLeastOne}},
	{name: "BillingResult", of: billingView{}, about: "What an event has done."},
	{name: "Problem", of: problem{}, about: "RFC 9457. Answers of 429 have violated-policies besides.", open: true},
	{name: "FieldError", of: fieldError{}, about: "What is wrong with one field."},

	{name: "Window", of: usageview.Window{}, about: "The time that is counted: of a fixed window the one that it is now, of all others the period that ends now."},
	{name: "Used", of: usageview.Count{}, about: "What was used of one limit.", notes: countNotes},
	{name: "UsageOf", of: usageview.Quota{}, about: "What was used for one descriptor. Of several limits, all of which count, the tightest stands in its fields and all stand in limits.", notes: countNotes},
	{name: "Usage", of: usageview.Tenant{}, about: "What an account has used.", notes: map[string]schema{
		"api_key":    {"description": masked["description"], "required": true},
		"usage":      said("By descriptor. Nothing is in it where no rule counts by the account."),
		"burst_pool": said("What may be used where quotas deny, of all descriptors together."),
		"cut":        said("There are more descriptors."),
	}},
	{name: "UsedTopUp", of: usageview.TopUp{}, about: "What was used of a top-up."},
	{name: "Usages", of: usagesView{}, about: "What several accounts have used."},
	{name: "ResetBody", of: resetBody{}, about: "What is forgotten: of all descriptors, or of one; in all domains, or in one.", notes: map[string]schema{"descriptor": descriptorNote}},
	{name: "RefundBody", of: refundBody{}, about: "What is given back. The domain can be left out where the account counts in one only.", notes: map[string]schema{"descriptor": descriptorNote, "hits": atLeastOne}},
	{name: "UsageTokenBody", of: usageTokenBody{}, about: "How long a token is good.", notes: map[string]schema{"ttl": said("From 1m to 8784h, such as 720h.")}},
	{name: "UsageToken", of: usageTokenView{}, about: "A token for a customer."},
	{name: "TopUp", of: topUpView{}, about: "A top-up: hits beyond a quota, each of which can be used once.", notes: map[string]schema{"descriptor": descriptorNote, "hits": atLeastOne}},
	{name: "TopUps", of: topUpsView{}, about: "The top-ups of an account, in the order in which they begin."},

	{name: "Rules", of: rulesPage{}, about: "Rules in force on this node, in the order of their ids.", notes: map[string]schema{"next_cursor": mayBeMore}},
	{name: "Rule", of: ruleView{}, about: "A rule.", notes: map[string]schema{"source": {"enum": []string{"file", "document", "row"}}}},
	{name: "RuleDocuments", of: documentsPage{}, about: "Documents of rules, in the order of their names.", notes: map[string]schema{"next_cursor": mayBeMore}},
	{name: "StoredDocument", of: documentView{}, about: "A document."},
	{name: "RuleDocument", of: putView{}, about: "A document of rules, without its text.", notes: map[string]schema{"warnings": said("What is probably not meant, as errors are told.")}},
	{name: "Candidates", of: candidatesPage{}, about: "How candidate limits compare with the main ones.", notes: map[string]schema{"next_cursor": mayBeMore}},
	{name: "Candidate", of: candidateView{}, about: "The candidate of one rule.", notes: map[string]schema{
		"added": said("Requests that the candidate alone denies."), "avoided": said("Requests that the main limits alone deny."),
	}},
	{name: "RowBody", of: rowBody{}, about: "A row of the table rate_limit_rules, whole.", notes: rowNotes},
	{name: "Rows", of: rowsPage{}, about: "Rows of the table rate_limit_rules.", notes: map[string]schema{"next_cursor": mayBeMore}},
	{name: "Row", of: rowView{}, about: "A row.", notes: rowNotes},
	{name: "ChangedRow", of: changedRow{}, about: "A row that was changed.", notes: rowNotes},
	{name: "Switch", of: switches.Document{}, about: "A decision of an operator.", notes: map[string]schema{
		"target":  {"description": "As in the path; it can be left out.", "required": false},
		"state":   oneOf(switches.On, switches.Shadow, switches.Off, switches.Raised),
		"percent": {"minimum": 1, "maximum": 100, "description": "For this share of the tenants only."},
		"tenants": {"maxItems": switches.MaxTenants, "description": "KEY:VALUE of tenants that it is for whatever the share."},
		"raise":   {"minimum": 1, "maximum": switches.MaxRaise, "description": "By how many per cent the limits of a target raise:ID are larger; it takes an until."},
		"reason":  {"maxLength": switches.MaxReason},
	}},
	{name: "SwitchState", of: switchView{}, about: "A switch and what became of it.", notes: map[string]schema{
		"invalid": said("Why it is not in force: somebody else than Headgate has written it."),
		"known":   said("Whether the rule that it is for is in force on this node."),
	}},
	{name: "Switches", of: switchesPage{}, about: "Switches, in the order of their targets.", notes: map[string]schema{"next_cursor": mayBeMore}},

	{name: "Me", of: meView{}, about: "Who asks.", notes: map[string]schema{
		"scope": oneOf(Read, Write, Admin), "names": said("Whether keys and addresses of clients are named to this scope, or hashed."),
	}},
	{name: "Overview", of: view.Overview{}, about: "How this node is. Counts are since its start, rates per second over the last " + view.RateSpan.String() + ", latencies in seconds of the last " + view.LatencySpan.String() + "."},
	{name: "TopKeys", of: view.TopKeys{}, about: "Keys with the most requests of late. A count is off by error at most, but for what sampling adds."},
	{name: "BothTopKeys", of: view.BothTopKeys{}, about: "Keys with the most requests of late, in both orders."},
	{name: "Fleet", of: view.Fleet{}, about: "What this node knows of all nodes."},
	{name: "HotRaises", of: view.HotRaises{}, about: "Hot keys whose limits are raised for a time, because their rules say so."},
	{name: "Accuracy", of: view.Accuracy{}, about: "How exact decisions were, measured on a sample of keys."},
	{name: "Events", of: view.Events{}, about: "Events that are remembered, the latest first."},
	{name: "Event", of: view.Event{}, about: "A decision."},
	{name: "Explanation", of: view.Explanation{}, about: "How a request would be decided now, and why."},
	{name: "ExplainBody", of: explainBody{}, about: "A request that is not made.", notes: map[string]schema{
		"descriptors": {"minItems": 1, "maxItems": descriptor.MaxDescriptors},
		"attributes":  said("Facts about the request from which a rule may take its cost."),
	}},
	{name: "ExplainDescriptor", of: explainDescriptor{}, about: "Entries, or a descriptor as people write it.", notes: map[string]schema{
		"entries": {"maxItems": descriptor.MaxEntries}, "hits": {"maximum": int64(limit.MaxQuota), "default": 1},
	}},
	{name: "ExplainEntry", of: explainEntry{}, about: "An entry."},
}

// What explain.Decode reads, for the document.
type (
	explainBody struct {
		Domain      string              `json:"domain"`
		Descriptors []explainDescriptor `json:"descriptors"`
		Attributes  map[string]string   `json:"attributes,omitempty"`
	}
	explainDescriptor struct {
		Entries    []explainEntry `json:"entries,omitempty"`
		Descriptor string         `json:"descriptor,omitempty"`
		Hits       int64          `json:"hits,omitempty"`
	}
	explainEntry struct {
		Key   string `json:"key"`
		Value string `json:"value,omitempty"`
	}
)
