package adminapi

import (
	"cmp"
	"maps"
	"slices"

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
	}, term)
	quota := with(schema{
		"descriptor": text, "unlimited": yes, "limits": list(reference("Limit")),
		"source!": schema{"type": "string", "enum": []any{"override", "tier", "rule"}},
	}, requests)
	return schema{
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
				"version!": number, "at!": instant, "actor!": text, "name!": text, "before!": reference("Any"), "after!": reference("Any"),
				"hash!": schema{"type": "string", "description": "SHA-256 over the hash before it and all fields: whoever alters a change breaks the chain."},
			})),
			"next_after": number,
		}),
		"Line": object("An account to a line.", with(schema{"name!": text, "last4": text}, document)),
		"Imported": object("What an import has done, or would do.", schema{
			"accounts!": number, "dry_run": yes,
		}),
		"Problem": schema{"type": "object", "description": "RFC 9457. Answers of 429 have violated-policies besides.", "properties": schema{
			"type": text, "title": text, "status": number, "detail": text,
			"errors": list(object("What is wrong with one field.", schema{
				"line": number, "field!": text, "message!": text,
			})),
		}, "required": []any{"detail", "status", "title", "type"}},
	}
}

// with joins fields.
func with(fields schema, more ...schema) schema {
	for _, m := range more {
		maps.Copy(fields, m)
	}
	return fields
}
