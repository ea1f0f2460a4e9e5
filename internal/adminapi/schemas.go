package adminapi

import (
	"cmp"
	"maps"
	"slices"

	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant"
)

func sortTexts(list []any) {
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(a.(string), b.(string)) })
}

// schemas are those of the bodies.
func schemas() schema {
	text, number, yes := schema{"type": "string"}, schema{"type": "integer", "minimum": 0}, schema{"type": "boolean"}
	instant := schema{"type": "string", "format": "date-time"}
	term := schema{"effective_at": instant, "expires_at": instant}
	requests := schema{
		"requests_per_unit": number,
		"unit":              schema{"type": "string", "description": "second, minute, hour, day, week, month, year, or a length such as 10s, 5m, 36h, 7d."},
		"algorithm":         text,
		"burst":             number,
	}
	document := with(schema{
		"tier":      schema{"type": "string", "maxLength": tenant.MaxName, "description": "Left out, the fallback tier counts."},
		"tiers":     schema{"type": "array", "items": reference("Assignment"), "maxItems": tenant.MaxAssignments, "description": "Further tiers that the account had or will have."},
		"overrides": schema{"type": "array", "items": reference("Override"), "maxItems": tenant.MaxOverrides},
		"top_ups":   schema{"type": "array", "items": reference("TopUpBody"), "maxItems": tenant.MaxTopUps, "description": "Left out, those that the account has stay."},
	}, term)
	quota := with(schema{
		"descriptor": text, "unlimited": yes, "limits": list(reference("Limit")),
		"source!": schema{"type": "string", "enum": []any{"override", "tier", "rule"}},
	}, requests)
	all := schema{
		"Any":        schema{"type": "object"},
		"Document":   object("An account, whole. What has no effective_at counts always, what has no expires_at for ever; of several the one that began last counts.", document),
		"Assignment": object("A tier for a time.", with(schema{"tier!": text}, term)),
		"Override": object("The quota of one descriptor: requests_per_unit and unit, or unlimited.", with(schema{
			"descriptor!": schema{"type": "string", "maxLength": tenant.MaxDescriptor, "description": "default for all that the account does, else entries such as endpoint:POST /v1/orders."},
			"unlimited":   yes,
		}, requests, term)),
		"Limit":         object("One limit.", requests),
		"ResolvedQuota": object("A quota that counts now. Of several limits, all of which count, the first stands in its fields and all stand in limits.", quota),
		"Quota": object("An account, and what counts of it now.", schema{
			"api_key!": schema{"type": "string", "description": "Masked; of a tenant its name."},
			"name!":    schema{"type": "string", "description": "What the account can be asked for by."},
			"tier!":    schema{"type": "string", "description": "The tier that counts now."},
			"quotas": object("What counts now.", schema{
				"default!": reference("ResolvedQuota"), "overrides!": list(reference("ResolvedQuota")),
			}),
			"invalid":  schema{"type": "string", "description": "Why the account is not in force: somebody else than Headgate has written it."},
			"account!": reference("Document"), "version!": number, "updated_at!": instant,
		}),
		"Page": object("Accounts in the order of their names.", schema{
			"quotas!": list(reference("Quota")), "next_cursor": schema{"type": "string", "description": "There when there may be more."},
		}),
		"Tiers": object("What the tenants of each tier may use.", schema{
			"fallback!": schema{"type": "string", "description": "The tier of those without an account."},
			"tiers!":    list(object("A tier.", schema{"name!": text, "quotas!": list(reference("ResolvedQuota"))})),
		}),
		"Changes": object("The log of changes.", schema{
			"changes!": list(object("A change.", schema{
				"version!": number, "at!": instant, "actor!": text,
				"kind!": schema{"type": "string", "enum": []any{"account", "rules", "tiers", "switch", "rule_row", "action"}},
				"name!": schema{"type": "string", "description": "Of the account or the document, or the id of the row."}, "before!": reference("Any"), "after!": reference("Any"),
				"hash!": schema{"type": "string", "description": "SHA-256 over the hash before it and all fields: whoever alters a change breaks the chain."},
			})),
			"next_after": number,
		}),
		"Line": object("An account to a line.", with(schema{"name!": text, "last4": text}, document)),
		"Imported": object("What an import has done, or would do.", schema{
			"accounts!": number, "dry_run": yes,
		}),
		"BillingEvent":  billingSchema(reference("Override"), instant),
		"BillingResult": object("What an event has done.", schema{"id!": text, "name!": text, "changed!": yes, "version!": number}),
		"Problem": schema{"type": "object", "description": "RFC 9457. Answers of 429 have violated-policies besides.", "properties": schema{
			"type": text, "title": text, "status": number, "detail": text,
			"errors": list(object("What is wrong with one field.", schema{
				"line": number, "column": number, "file": text, "field!": text, "message!": text, "hint": text,
			})),
		}, "required": []any{"detail", "status", "title", "type"}},
	}
	return with(all, usageSchemas(requests), settingSchemas(), watchSchemas())
}

// usageSchemas are those of what was used.
func usageSchemas(requests schema) schema {
	text, number, yes := schema{"type": "string"}, schema{"type": "integer", "minimum": 0}, schema{"type": "boolean"}
	instant := schema{"type": "string", "format": "date-time"}
	used := with(schema{
		"used": number, "remaining": number,
		"limit":  schema{"type": "integer", "minimum": 0, "description": "How much may be used: the quota of a window, the burst of a bucket."},
		"window": reference("Window"), "reset_at": schema{"type": "string", "format": "date-time", "description": "When all of it may be used again, if nothing more is."},
		"unlimited": yes, "source!": schema{"type": "string", "enum": []any{"override", "tier", "rule", tenant.FromPool.String()}},
		"domain": text, "rule": text, "limit_name": text,
		"degraded": schema{"type": "string", "description": "Why the store did not tell; then there are no counts, or with local those of this node alone."}, "local": yes,
	}, requests)
	descriptor := schema{"type": "string", "description": "default, or entries such as endpoint:POST /v1/orders."}
	hits := schema{"type": "integer", "minimum": 1}
	return schema{
		"Window": object("The time that is counted: of a fixed window the one that it is now, of all others the period that ends now.", schema{"start!": instant, "end!": instant}),
		"Used":   object("What was used of one limit.", used),
		"UsageOf": object("What was used for one descriptor. Of several limits, all of which count, the tightest stands in its fields and all stand in limits.",
			with(schema{"limits": list(reference("Used"))}, used)),
		"Usage": object("What an account has used.", schema{
			"api_key!": schema{"type": "string", "description": "Masked; of a tenant its name."}, "name!": text, "tier!": text,
			"current_window": reference("Window"),
			"usage!":         schema{"type": "object", "description": "By descriptor. Nothing is in it where no rule counts by the account.", "additionalProperties": reference("UsageOf")},
			"burst_pool":     with(schema{"description": "What may be used where quotas deny, of all descriptors together."}, reference("Used")),
			"top_ups": list(object("What was used of a top-up.", schema{
				"id!": text, "descriptor!": text, "hits!": number, "used": number, "remaining": number, "window!": reference("Window"), "degraded": text,
			})),
			"cut": schema{"type": "boolean", "description": "There are more descriptors."},
		}),
		"Usages":     object("What several accounts have used.", schema{"usage!": list(reference("Usage"))}),
		"ResetBody":  object("What is forgotten: of all descriptors, or of one; in all domains, or in one.", schema{"descriptor": descriptor, "domain": text}),
		"RefundBody": object("What is given back. The domain can be left out where the account counts in one only.", schema{"descriptor!": descriptor, "domain": text, "hits!": hits}),
		"UsageTokenBody": object("How long a token is good.", schema{
			"ttl!": schema{"type": "string", "description": "From 1m to 8784h, such as 720h."},
		}),
		"UsageToken": object("A token for a customer.", schema{"api_key!": text, "name!": text, "token!": text, "expires_at!": instant}),
		"TopUpBody": object("A grant of hits beyond a quota.", schema{
			"id":         schema{"type": "string", "maxLength": tenant.MaxName, "description": "Left out, one is drawn."},
			"descriptor": descriptor, "hits!": hits, "expires_at!": instant,
			"effective_at": schema{"type": "string", "format": "date-time", "description": "Left out, now."},
		}),
		"TopUp": object("A grant of hits beyond a quota.", schema{
			"id!": text, "descriptor!": descriptor, "hits!": hits, "effective_at!": instant, "expires_at!": instant, "in_force!": yes,
		}),
		"TopUps": object("The top-ups of an account, in the order in which they begin.", schema{"top_ups!": list(reference("TopUp"))}),
	}
}

// settingSchemas are those of rules, of rows of them, and of switches.
func settingSchemas() schema {
	text, number, yes := schema{"type": "string"}, schema{"type": "integer", "minimum": 0}, schema{"type": "boolean"}
	instant := schema{"type": "string", "format": "date-time"}
	next := schema{"type": "string", "description": "There when there may be more."}
	kept := schema{"name!": text, "bytes!": number, "version!": number, "updated_at!": instant, "updated_by!": text}
	maybe := schema{"type": []any{"string", "null"}, "description": "null is all."}
	row := schema{
		"scope!": schema{"type": "string", "enum": []any{"user", "ip", "apikey"}}, "route": maybe, "method": maybe,
		"limit_count!": number, "window_ms!": schema{"type": "integer", "minimum": 1},
		"weight_field": schema{"type": "string", "description": "Where the cost of a request comes from; left out, it is 1."},
		"algorithm":    text, "burst": number,
		"failure_mode": schema{"type": "string", "enum": []any{"open", "closed", "local", "open_unbounded"}},
		"is_active":    schema{"type": "boolean", "default": true},
	}
	rowThere := with(schema{"id!": number, "created_at!": instant, "updated_at!": instant}, row)
	return schema{
		"Rules": object("Rules in force on this node, in the order of their ids.", schema{
			"version!": text, "next_cursor": next,
			"rules!": list(object("A rule.", schema{
				"id!": text, "domain!": text, "summary!": text, "file!": text, "line": number,
				"source!": schema{"type": "string", "enum": []any{"file", "document", "row"}},
			})),
		}),
		"RuleDocuments": object("Documents of rules, in the order of their names.", schema{"documents!": list(object("A document.", kept)), "next_cursor": next}),
		"RuleDocument": object("A document of rules, without its text.", with(schema{
			"warnings": schema{"type": "array", "items": schema{"type": "object"}, "description": "What is probably not meant, as errors are told."},
		}, kept)),
		"Candidates": object("How candidate limits compare with the main ones.", schema{
			"next_cursor": next,
			"candidates!": list(object("The candidate of one rule.", schema{
				"rule!": text, "domain!": text, "limits!": text, "candidate!": text, "percent": number, "tenants": list(text),
				"over_seconds!": schema{"type": "number"}, "decided!": number, "denied!": number, "candidate_denied!": number,
				"added!":         schema{"type": "integer", "minimum": 0, "description": "Requests that the candidate alone denies."},
				"avoided!":       schema{"type": "integer", "minimum": 0, "description": "Requests that the main limits alone deny."},
				"added_percent!": schema{"type": "number"}, "rolled_back_at": instant,
			})),
		}),
		"RowBody":    object("A row of the table rate_limit_rules, whole.", row),
		"Rows":       object("Rows of the table rate_limit_rules.", schema{"rows!": list(object("A row.", rowThere)), "next_cursor": next}),
		"ChangedRow": object("A row that was changed.", with(schema{"version!": number}, rowThere)),
		"Switch": object("A decision of an operator.", schema{
			"target":  schema{"type": "string", "description": "As in the path; it can be left out."},
			"state!":  schema{"type": "string", "enum": []any{"on", "shadow", "off"}},
			"percent": schema{"type": "integer", "minimum": 1, "maximum": 100, "description": "For this share of the tenants only."},
			"tenants": schema{"type": "array", "items": text, "maxItems": switches.MaxTenants, "description": "KEY:VALUE of tenants that it is for whatever the share."},
			"until":   instant, "reason": schema{"type": "string", "maxLength": switches.MaxReason},
		}),
		"SwitchState": object("A switch and what became of it.", schema{
			"target!": text, "switch!": reference("Any"), "in_force!": yes,
			"invalid":  schema{"type": "string", "description": "Why it is not in force: somebody else than Headgate has written it."},
			"known":    schema{"type": "boolean", "description": "Whether the rule that it is for is in force on this node."},
			"version!": number, "updated_at!": instant, "updated_by!": text,
		}),
		"Switches": object("Switches, in the order of their targets.", schema{"switches!": list(reference("SwitchState")), "next_cursor": next}),
	}
}

// with joins fields.
func with(fields schema, more ...schema) schema {
	for _, m := range more {
		maps.Copy(fields, m)
	}
	return fields
}

// texts are texts as a list of a schema.
func texts(list []string) []any {
	all := make([]any, len(list))
	for i := range list {
		all[i] = list[i]
	}
	return all
}
