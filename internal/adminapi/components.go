package adminapi

import (
	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/recommend"
	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/usageview"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// schema is a JSON schema, or any other object of the document.
type schema = openapi.Schema

// Notes that several members have.
var (
	masked         = openapi.Said("Masked; of a tenant its name.")
	mayBeMore      = openapi.Said("There when there may be more.")
	unitNote       = openapi.Said("second, minute, hour, day, week, month, year, or a length such as 10s, 5m, 36h, 7d.")
	descriptorNote = openapi.Said("default, or entries such as endpoint:POST /v1/orders.")
	atLeastOne     = schema{"minimum": 1}
	orNull         = schema{"type": []string{"string", "null"}, "description": "null is all.", "required": false}
	sourceNote     = openapi.OneOf(tenant.FromOverride, tenant.FromTier, tenant.FromRule)
	countNotes     = map[string]schema{
		"limit":    openapi.Said("How much may be used: the quota of a window, the burst of a bucket."),
		"reset_at": openapi.Said("When all of it may be used again, if nothing more is."),
		"source":   openapi.OneOf(tenant.FromOverride, tenant.FromTier, tenant.FromRule, tenant.FromPool),
		"degraded": openapi.Said("Why the store did not tell; then there are no counts, or with local those of this node alone."),
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
		"weight_field": openapi.Said("Where the cost of a request comes from; left out, it is 1."),
		"failure_mode": openapi.OneOf(rules.Open, rules.Closed, rules.FailLocal, rules.OpenUnbounded),
		"is_active":    {"default": true, "required": false},
	}
)

// components are what the document has by name. Their members are those of their types.
var components = openapi.New(append([]openapi.Component{
	{Name: "Document", Of: quotas.Document{}, About: "An account, whole. What has no effective_at counts always, what has no expires_at for ever; of several the one that began last counts. Those at the top hold for the tier, and for each override that has none of its own.", Notes: documentNotes},
	{Name: "Assignment", Of: quotas.Assignment{}, About: "A tier for a time."},
	{Name: "Override", Of: quotas.Override{}, About: "The quota of one descriptor: requests_per_unit and unit, several limits, or unlimited.", Notes: map[string]schema{
		"limits":     {"maxItems": tenant.MaxLimits, "description": "Several limits, which all count, each of a length of its own; in place of requests_per_unit, unit, algorithm and burst."},
		"descriptor": {"maxLength": tenant.MaxDescriptor, "description": "default for all that the account does, else entries such as endpoint:POST /v1/orders."},
		"unit":       unitNote,
	}},
	{Name: "OverrideLimit", Of: quotas.Limit{}, About: "One of several limits of an override.", Notes: map[string]schema{"unit": unitNote}},
	{Name: "TopUpBody", Of: quotas.TopUp{}, About: "A top-up: hits beyond a quota, each of which can be used once.", Notes: map[string]schema{
		"id":         {"maxLength": tenant.MaxName, "description": "Left out, one is drawn."},
		"descriptor": {"description": descriptorNote["description"], "required": false}, "hits": atLeastOne,
		"effective_at": openapi.Said("Left out, now."),
	}},
	{Name: "Limit", Of: limitView{}, About: "One limit.", Notes: map[string]schema{"unit": unitNote}},
	{Name: "ResolvedQuota", Of: quotaOfView{}, About: "A quota that counts now. Of several limits, all of which count, the first stands in its fields and all stand in limits.", Notes: map[string]schema{
		"source": sourceNote, "unit": unitNote,
	}},
	{Name: "Quota", Of: quotaView{}, About: "An account, and what counts of it now.", Notes: map[string]schema{
		"api_key": masked, "name": openapi.Said("What the account can be asked for by."), "tier": openapi.Said("The tier that counts now."), "quotas": openapi.Said("What counts now."),
		"invalid": openapi.Said("Why the account is not in force: somebody else than Headgate has written it."),
	}},
	{Name: "Page", Of: accountsPage{}, About: "Accounts in the order of their names.", Notes: map[string]schema{"next_cursor": mayBeMore}},
	{Name: "Tiers", Of: tiersView{}, About: "What the tenants of each tier may use.", Notes: map[string]schema{"fallback": openapi.Said("The tier of those without an account.")}},
	{Name: "Tier", Of: tierView{}, About: "A tier."},
	{Name: "Changes", Of: changesPage{}, About: "The log of changes."},
	{Name: "Change", Of: changeView{}, About: "A change.", Notes: map[string]schema{
		"kind": {"enum": []sqltenant.Kind{sqltenant.AccountEntry, sqltenant.RulesDocument, sqltenant.TiersDocument, sqltenant.SwitchDocument, sqltenant.RuleRowEntry, sqltenant.ActionEntry}}, "name": openapi.Said("Of the account or the document, or the id of the row."),
		"hash": openapi.Said("SHA-256 over the hash before it and all fields: whoever alters a change breaks the chain."),
	}},
	{Name: "Line", Of: quotas.Line{}, About: "An account to a line.", Notes: documentNotes},
	{Name: "Imported", Of: imported{}, About: "What an import has done, or would do."},
	{Name: "BillingEvent", Of: billingEvent{}, About: `An event of billing. Of two events for one thing the one with the later "at" counts, in whatever order they come.`, Notes: map[string]schema{
		"id":      {"maxLength": maxEvent, "description": "Sent again, the event changes nothing more."},
		"type":    {"enum": []string{tierSet, quotaSet, topUpAdd}},
		"subject": openapi.Said("The account, as paths name it."),
	}},
	{Name: "BillingTopUp", Of: billingTopUp{}, About: "Hits beyond a quota.", Notes: map[string]schema{"hits": atLeastOne}},
	{Name: "BillingResult", Of: billingView{}, About: "What an event has done."},
	{Name: "Problem", Of: problem{}, About: "RFC 9457. Answers of 429 have violated-policies besides.", Open: true},
	{Name: "FieldError", Of: fieldError{}, About: "What is wrong with one field."},

	{Name: "Window", Of: usageview.Window{}, About: "The time that is counted: of a fixed window the one that it is now, of all others the period that ends now."},
	{Name: "Used", Of: usageview.Count{}, About: "What was used of one limit.", Notes: countNotes},
	{Name: "UsageOf", Of: usageview.Quota{}, About: "What was used for one descriptor. Of several limits, all of which count, the tightest stands in its fields and all stand in limits.", Notes: countNotes},
	{Name: "Usage", Of: usageview.Tenant{}, About: "What an account has used.", Notes: map[string]schema{
		"api_key":    {"description": masked["description"], "required": true},
		"usage":      openapi.Said("By descriptor. Nothing is in it where no rule counts by the account."),
		"burst_pool": openapi.Said("What may be used where quotas deny, of all descriptors together."),
		"cut":        openapi.Said("There are more descriptors."),
		"stale_s":    openapi.Said("Replicas have told some of it: so many seconds ago at most, one of them had heard of its primary. Not there where no replica has."),
	}},
	{Name: "UsedTopUp", Of: usageview.TopUp{}, About: "What was used of a top-up."},
	{Name: "Usages", Of: usagesView{}, About: "What several accounts have used."},
	{Name: "ResetBody", Of: resetBody{}, About: "What is forgotten: of all descriptors, or of one; in all domains, or in one.", Notes: map[string]schema{"descriptor": descriptorNote}},
	{Name: "RefundBody", Of: refundBody{}, About: "What is given back. The domain can be left out where the account counts in one only.", Notes: map[string]schema{"descriptor": descriptorNote, "hits": atLeastOne}},
	{Name: "UsageTokenBody", Of: usageTokenBody{}, About: "How long a token is good.", Notes: map[string]schema{"ttl": openapi.Said("From 1m to 8784h, such as 720h.")}},
	{Name: "UsageToken", Of: usageTokenView{}, About: "A token for a customer."},
	{Name: "TopUp", Of: topUpView{}, About: "A top-up: hits beyond a quota, each of which can be used once.", Notes: map[string]schema{"descriptor": descriptorNote, "hits": atLeastOne}},
	{Name: "TopUps", Of: topUpsView{}, About: "The top-ups of an account, in the order in which they begin."},

	{Name: "Rules", Of: rulesPage{}, About: "Rules in force on this node, in the order of their ids.", Notes: map[string]schema{"next_cursor": mayBeMore}},
	{Name: "Rule", Of: ruleView{}, About: "A rule.", Notes: map[string]schema{"source": {"enum": []string{"file", "document", "row"}}}},
	{Name: "RuleVersions", Of: versionsPage{}, About: "Versions of a document of rules, the latest first.", Notes: map[string]schema{"next_before": mayBeMore}},
	{Name: "RuleVersion", Of: versionView{}, About: "A version of a document of rules, without its text.", Notes: map[string]schema{"bytes": openapi.Said("0 where the document was taken out.")}},
	{Name: "RuleFiles", Of: filesPage{}, About: "Rule files of a node, in the order of their names.", Notes: map[string]schema{"next_cursor": mayBeMore}},
	{Name: "RuleFile", Of: fileView{}, About: "A rule file."},
	{Name: "ReviewBody", Of: reviewBody{}, About: "Rules that are not in force, as the text of a document or of a file.", Notes: map[string]schema{
		"document": openapi.Said("What the document is called, or is to be called."), "file": openapi.Said("The rule file that the text is to replace."),
		"tests": openapi.Said("Unit tests, as headgate rules test reads them; they are asked of all rules that there would be."),
	}},
	{Name: "Review", Of: reviewView{}, About: "What a text of rules would change.", Notes: map[string]schema{
		"problems": openapi.Said("Why it cannot be in force; with any of them only diff is there besides."), "warnings": openapi.Said("What is probably not meant."),
		"test_problems": openapi.Said("Why the tests cannot be read."), "diff": openapi.Said("How the lines differ from those that there are, as diff -u does."),
	}},
	{Name: "RuleChanges", Of: rulereview.Changes{}, About: "What is new for requests, the first 500 of it."},
	{Name: "RuleChange", Of: rulereview.Change{}, About: "One difference.", Notes: map[string]schema{"kind": {"enum": []string{"added", "removed", "changed"}}}},
	{Name: "RuleTests", Of: rulereview.Tests{}, About: "How unit tests of rules went."},
	{Name: "RuleTestFailure", Of: rulereview.Failure{}, About: "A step that was not as wanted."},
	{Name: "RuleEffect", Of: rulereview.Effect{}, About: "What the rules would have changed of the requests that this node remembers of the last hour.", Notes: map[string]schema{
		"unknown": openapi.Said("Why nothing can be told; then the rest says nothing."), "cut": openapi.Said("There are more than the 20,000 that were asked about."),
		"notes": openapi.Said("What cannot be told."),
	}},
	{Name: "RuleEffectRow", Of: replay.RuleRow{}, About: "The denials of one rule; the one without a name are those of which no rule is known."},
	{Name: "AdviceBody", Of: adviceBody{}, About: "A rule whose limits are asked about, and what they shall be like.", Notes: map[string]schema{
		"head_room_thousandths":          openapi.Said("How much more than was needed is recommended, from 0 to 9000; else 200, which is a fifth more."),
		"may_hit_thousandths_of_percent": openapi.Said("Share of the keys that needed more than is counted as needed, from 0 to 50000; else 1000, which is 1 %."),
		"partial":                        openapi.Said("Go on where events lack something, as with a sample of them."),
	}},
	{Name: "Advice", Of: adviceView{}, About: "What is recommended for the limits of a rule.", Notes: map[string]schema{
		"unknown": openapi.Said("Why nothing can be told; then the rest says nothing."), "lacking": openapi.Said("Events lack something, so that partial would help."),
		"cut": openapi.Said("Nodes remember more of the hour than was asked about."), "notes": openapi.Said("What the numbers do not say."),
		"no_draft": openapi.Said("Why there is no draft. With neither, no limit should be another one."),
	}},
	{Name: "AdviceDraft", Of: adviceDraft{}, About: "The text of a document or of a file, with a candidate in it.", Notes: map[string]schema{"version": openapi.Said("Of the document that it was made from.")}},
	{Name: "AdvisedLimit", Of: recommend.Row{}, About: "What was asked of a limit, and what is recommended in its place.", Notes: map[string]schema{
		"recommended": openapi.Said("The quota that is recommended; where there is none, why says why."), "one_in": openapi.Said("Of how many keys one was looked at."),
	}},
	{Name: "KeyNeeds", Of: recommend.Needs{}, About: "Percentiles of the smallest quotas by which nothing of a key would have been denied."},
	{Name: "AdvisedEffect", Of: recommend.Effect{}, About: "Whom a limit denies something, of the keys on which it was tried."},
	{Name: "RuleDocuments", Of: documentsPage{}, About: "Documents of rules, in the order of their names.", Notes: map[string]schema{"next_cursor": mayBeMore}},
	{Name: "StoredDocument", Of: documentView{}, About: "A document."},
	{Name: "RuleDocument", Of: putView{}, About: "A document of rules, without its text.", Notes: map[string]schema{"warnings": openapi.Said("What is probably not meant, as errors are told.")}},
	{Name: "Candidates", Of: candidatesPage{}, About: "How candidate limits compare with the main ones.", Notes: map[string]schema{"next_cursor": mayBeMore}},
	{Name: "Candidate", Of: candidateView{}, About: "The candidate of one rule.", Notes: map[string]schema{
		"added": openapi.Said("Requests that the candidate alone denies."), "avoided": openapi.Said("Requests that the main limits alone deny."),
	}},
	{Name: "RowBody", Of: rowBody{}, About: "A row of the table rate_limit_rules, whole.", Notes: rowNotes},
	{Name: "Rows", Of: rowsPage{}, About: "Rows of the table rate_limit_rules.", Notes: map[string]schema{"next_cursor": mayBeMore}},
	{Name: "Row", Of: rowView{}, About: "A row.", Notes: rowNotes},
	{Name: "ChangedRow", Of: changedRow{}, About: "A row that was changed.", Notes: rowNotes},
	{Name: "Switch", Of: switches.Document{}, About: "A decision of an operator.", Notes: map[string]schema{
		"target":  {"description": "As in the path; it can be left out.", "required": false},
		"state":   openapi.OneOf(switches.On, switches.Shadow, switches.Off, switches.Raised),
		"percent": {"minimum": 1, "maximum": 100, "description": "For this share of the tenants only."},
		"tenants": {"maxItems": switches.MaxTenants, "description": "KEY:VALUE of tenants that it is for whatever the share."},
		"raise":   {"minimum": 1, "maximum": switches.MaxRaise, "description": "By how many per cent the limits of a target raise:ID are larger; it takes an until."},
		"reason":  {"maxLength": switches.MaxReason},
	}},
	{Name: "SwitchState", Of: switchView{}, About: "A switch and what became of it.", Notes: map[string]schema{
		"invalid": openapi.Said("Why it is not in force: somebody else than Headgate has written it."),
		"known":   openapi.Said("Whether the rule that it is for is in force on this node."),
	}},
	{Name: "Switches", Of: switchesPage{}, About: "Switches, in the order of their targets.", Notes: map[string]schema{"next_cursor": mayBeMore}},

	{Name: "DrillOrder", Of: DrillBody{}, About: "A fault that nodes are to rehearse.", Notes: map[string]schema{
		"fault":    openapi.OneOf(drill.Faults()...),
		"store":    openapi.Said("The name of the store that the fault is of; left out, all."),
		"shard":    openapi.Said("The address of the server of " + string(drill.ShardDown) + ", as the overview shows it."),
		"delay_ms": {"minimum": 1, "maximum": drill.MaxDelay.Milliseconds(), "default": drill.DefaultDelay.Milliseconds(), "description": "The extra time of " + string(drill.StoreSlow) + "."},
		"skew_ms": {"minimum": -drill.MaxSkew.Milliseconds(), "maximum": drill.MaxSkew.Milliseconds(), "default": drill.DefaultSkew.Milliseconds(),
			"description": "By how much the clock of " + string(drill.ClockSkew) + " is ahead; a negative one is behind."},
		"node":        openapi.Said("The name of the node that " + string(drill.ClockSkew) + " is of; left out, all."),
		"lasts_ms":    {"minimum": drill.MinLasts.Milliseconds(), "maximum": drill.MaxLasts.Milliseconds(), "default": drill.DefaultLasts.Milliseconds()},
		"abort_above": {"minimum": 0, "maximum": 1, "default": drill.DefaultAbortAbove, "description": "The share of requests that are errors above which it ends by itself."},
		"reason":      {"maxLength": drill.MaxReason},
	}},
	{Name: "Drill", Of: drill.Whole{}, About: "A drill, and what the nodes have seen of it.", Notes: map[string]schema{
		"order": openapi.Said("Missing where there was none that is still known."),
	}},

	{Name: "Me", Of: meView{}, About: "Who asks.", Notes: map[string]schema{
		"scope": openapi.OneOf(Read, Write, Admin), "names": openapi.Said("Whether keys and addresses of clients are named to this scope, or hashed."),
	}},
	{Name: "Overview", Of: view.Overview{}, About: "How this node is. Counts are since its start, rates per second over the last " + view.RateSpan.String() + ", latencies in seconds of the last " + view.LatencySpan.String() + "."},
	{Name: "TopKeys", Of: view.TopKeys{}, About: "Keys with the most requests of late. A count is off by error at most, but for what sampling adds."},
	{Name: "BothTopKeys", Of: view.BothTopKeys{}, About: "Keys with the most requests of late, in both orders."},
	{Name: "Fleet", Of: view.Fleet{}, About: "What this node knows of all nodes."},
	{Name: "HotRaises", Of: view.HotRaises{}, About: "Hot keys whose limits are raised for a time, because their rules say so."},
	{Name: "Accuracy", Of: view.Accuracy{}, About: "How exact decisions were, measured on a sample of keys."},
	{Name: "Regions", Of: view.Regions{}, About: "How limits over several regions are doing, as one node sees it."},
	{Name: "DualRun", Of: view.DualRun{}, About: "What a dual run beside an existing rate limit service has found."},
	{Name: "Settings", Of: view.Settings{}, About: "The settings that a process was started with."},
	{Name: "Setting", Of: view.Setting{}, About: "A setting. It holds no password.", Notes: map[string]schema{
		"from":      {"enum": []view.SettingSource{view.FromCommandLine, view.FromEnvironment, view.FromFile, view.FromDefault}},
		"variables": openapi.Said("Those of the environment by which it is as it is."),
	}},
	{Name: "Events", Of: view.Events{}, About: "Events that are remembered, the latest first."},
	{Name: "Event", Of: view.Event{}, About: "A decision."},
}, explain.Components()...))
