package adminapi

import (
	"net/http"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/explain"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// routes returns all that can be asked for.
func routes() []route {
	return slices.Concat(accountRoutes(), usageRoutes(), tierRoutes(), ruleRoutes(), rowRoutes(), switchRoutes(), billingRoutes(), watchRoutes(), otherRoutes())
}

// accountRoutes are those of what is kept of accounts.
func accountRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "quotas", scope: Read, serve: (*call).list, id: "listQuotas", summary: "List accounts",
			query: []parameter{
				limitParameter,
				{"cursor", "next_cursor of the page before.", schema{"type": "string"}},
				{"tier", "Only accounts that have this tier now.", schema{"type": "string"}},
				{"name_prefix", "Only accounts whose name begins so, such as tenant:ac; of entry:KEY: with the whole key.", schema{"type": "string"}},
			},
			answers: []reply{{http.StatusOK, "A page.", jsonType, "Page", false}},
		},
		{
			method: http.MethodGet, path: "quotas/{api_key}", scope: Read, serve: (*call).get, id: "getQuota", summary: "Show an account",
			answers: []reply{{http.StatusOK, "The account.", jsonType, "Quota", true}, notThere},
		},
		{
			method: http.MethodPut, path: "quotas/{api_key}", scope: Write, serve: (*call).put, id: "putQuota", summary: "Make or change an account",
			header: []parameter{ifMatch, ifNone, idKey}, body: &documentBody,
			answers: []reply{
				{http.StatusOK, "The account as it is now.", jsonType, "Quota", true},
				{http.StatusCreated, "The account, which was not there.", jsonType, "Quota", true},
				preconditionFailed, inFlight, tooLargeReply, wrongType, unprocessable,
			},
		},
		{
			method: http.MethodDelete, path: "quotas/{api_key}", scope: Write, serve: (*call).remove, id: "deleteQuota", summary: "Take an account out",
			about: "The fallback tier counts then. The log of changes keeps what was there.", header: []parameter{ifMatch, idKey},
			answers: []reply{{status: http.StatusNoContent, about: "It is not there any more."}, notThere, preconditionFailed, inFlight, unprocessable},
		},
		{
			method: http.MethodGet, path: "export", scope: Read, serve: (*call).export, id: "exportQuotas", summary: "Write all accounts",
			about:   "Who changes accounts meanwhile may be in it or not; each account is whole. An answer that is cut off has no end.",
			answers: []reply{{http.StatusOK, "One account to a line.", linesType, "Line", false}},
		},
		{
			method: http.MethodPost, path: "import", scope: Admin, slow: true, serve: (*call).importLines, id: "importQuotas", summary: "Read accounts",
			about:  "All lines are checked before anything is changed. Each account becomes what its line says; others stay as they are. When the database fails in between, what is written stays written: import the same again.",
			query:  []parameter{{"dry_run", "Check everything and change nothing.", schema{"type": "boolean", "default": false}}},
			header: []parameter{idKey}, body: &importBody,
			answers: []reply{
				{http.StatusOK, "What was done.", jsonType, "Imported", false}, inFlight, tooLargeReply, wrongType, unprocessable,
			},
		},
		{
			method: http.MethodGet, path: "quotas/{api_key}/top-ups", scope: Read, serve: (*call).topUps, id: "listTopUps", summary: "List the top-ups of an account",
			answers: []reply{{http.StatusOK, "Those that are kept, past ones too; what is left of each is no matter of the database.", jsonType, "TopUps", true}, unprocessable},
		},
		{
			method: http.MethodPost, path: "quotas/{api_key}/top-ups", scope: Write, serve: (*call).grant, id: "addTopUp", summary: "Grant hits beyond a quota",
			about:  "Each hit can be used once, while the top-up lasts, where the quota denies. An account that is not there is made. With an id of the sender's it is granted once, however often it is sent.",
			header: []parameter{ifMatch, ifNone, idKey}, body: &payload{jsonOnly, maxSmallBody, "TopUpBody", "The top-up.", false},
			answers: []reply{{http.StatusCreated, "The top-up.", jsonType, "TopUp", true}, {http.StatusOK, "The top-up, which was there.", jsonType, "TopUp", true}, preconditionFailed, inFlight, tooLargeReply, wrongType, unprocessable},
		},
		{
			method: http.MethodDelete, path: "quotas/{api_key}/top-ups/{top_up}", scope: Write, serve: (*call).removeTopUp, id: "deleteTopUp", summary: "Take a top-up back",
			about: "What was used of it stays used.", header: []parameter{ifMatch, idKey},
			answers: []reply{{status: http.StatusNoContent, about: "It is not there any more."}, noSuch, preconditionFailed, inFlight, unprocessable},
		},
	}
}

// usageRoutes are those of what was used.
func usageRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "usage", scope: Read, local: true, serve: (*call).usageMany, id: "listUsage", summary: "Show what several accounts have used",
			query:   []parameter{{"name", "An account, as in the path of the others; repeated for each.", schema{"type": "array", "items": schema{"type": "string"}, "minItems": 1, "maxItems": headgate.MaxUsageSubjects}}},
			answers: []reply{{http.StatusOK, "What was used, in the order of the names.", jsonType, "Usages", false}, notHere, unprocessable},
		},
		{
			method: http.MethodGet, path: "usage/{api_key}", scope: Read, local: true, serve: (*call).usage, id: "getUsage", summary: "Show what an account has used",
			about:   "Asked of the store, which counts nothing for it. An account that is not there has the fallback tier.",
			answers: []reply{{http.StatusOK, "What was used.", jsonType, "Usage", false}, notHere, unprocessable},
		},
		{
			method: http.MethodPost, path: "usage/{api_key}/reset", scope: Write, serve: (*call).reset, id: "resetUsage", summary: "Forget what an account has used",
			about:  "Bans of its rules end too, and slots of those on concurrency are freed. The log of changes has it as an action, before it is done.",
			header: []parameter{idKey}, body: &payload{jsonOnly, maxSmallBody, "ResetBody", "What is forgotten; without a body all that the account has used.", true},
			answers: []reply{{http.StatusOK, "What is used now.", jsonType, "Usage", false}, notHere, inFlight, tooLargeReply, wrongType, unprocessable},
		},
		{
			method: http.MethodPost, path: "usage/{api_key}/refund", scope: Write, serve: (*call).refund, id: "refundUsage", summary: "Give hits back to an account",
			about:  "To all limits that a request with the descriptor charges. The log of changes has it as an action, before it is done.",
			header: []parameter{idKey}, body: &payload{jsonOnly, maxSmallBody, "RefundBody", "What is given back.", false},
			answers: []reply{{http.StatusOK, "What is used now.", jsonType, "Usage", false}, notHere, inFlight, tooLargeReply, wrongType, unprocessable},
		},
		{
			method: http.MethodPost, path: "usage-tokens/{api_key}", scope: Write, serve: (*call).usageToken, id: "makeUsageToken", summary: "Make a token for a customer",
			about:  "Who has it sees the usage of this account and nothing else. It is kept nowhere.",
			header: []parameter{idKey}, body: &payload{jsonOnly, maxSmallBody, "UsageTokenBody", "How long it is good.", false},
			answers: []reply{{http.StatusCreated, "The token.", jsonType, "UsageToken", false}, notHere, inFlight, tooLargeReply, wrongType, unprocessable},
		},
	}
}

// tierRoutes are those of tiers.
func tierRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "tiers", scope: Read, local: true, serve: (*call).tiers, id: "listTiers", summary: "List the tiers",
			answers: []reply{{http.StatusOK, "The tiers in force, as this process has read them.", jsonType, "Tiers", false}},
		},
		{
			method: http.MethodPut, path: "tiers", scope: Admin, serve: (*call).putTiers, id: "putTiers", summary: "Change the tiers",
			about:  "They take the place of those of the file, on every node. A tier that accounts have is not dropped unless that is asked for.",
			query:  []parameter{{"drop_tiers", "Drop tiers though accounts have them: those have the fallback tier then.", schema{"type": "boolean", "default": false}}},
			header: []parameter{ifMatch, ifNone, idKey}, body: &payload{append(yamlText[:len(yamlText):len(yamlText)], jsonType), sqltenant.MaxDocument, "", "All tiers, as the file of tiers has them.", false},
			answers: []reply{
				{http.StatusOK, "The tiers as they are now.", jsonType, "Tiers", true}, {http.StatusCreated, "The tiers, which were those of the file.", jsonType, "Tiers", true},
				preconditionFailed, inFlight, tooLargeReply, wrongType, unprocessable,
			},
		},
		{
			method: http.MethodDelete, path: "tiers", scope: Admin, serve: (*call).removeTiers, id: "deleteTiers", summary: "Go back to the tiers of the file",
			header:  []parameter{ifMatch, idKey},
			answers: []reply{{status: http.StatusNoContent, about: "Those of the file count."}, noSuch, preconditionFailed, inFlight, unprocessable},
		},
		{
			method: http.MethodGet, path: "tiers/document", scope: Read, serve: (*call).tiersDocument, id: "getTiersDocument", summary: "Show the tiers that were put here, as they were written",
			answers: []reply{{http.StatusOK, "The text.", yamlType, "", true}, noSuch},
		},
	}
}

// ruleRoutes are those of rules and of documents of them.
func ruleRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "rules", scope: Read, local: true, serve: (*call).rules, id: "listRules", summary: "List the rules in force, and where each comes from",
			query:   []parameter{limitParameter, cursorParameter},
			answers: []reply{{http.StatusOK, "A page of the rules of this node.", jsonType, "Rules", false}, notHere},
		},
		{
			method: http.MethodGet, path: "rules/documents", scope: Read, serve: (*call).ruleDocuments, id: "listRuleDocuments", summary: "List the documents of rules",
			query:   []parameter{limitParameter, cursorParameter},
			answers: []reply{{http.StatusOK, "A page.", jsonType, "RuleDocuments", false}},
		},
		{
			method: http.MethodGet, path: "rules/documents/{document}", scope: Read, serve: (*call).ruleDocument, id: "getRuleDocument", summary: "Show a document of rules, as it was written",
			answers: []reply{{http.StatusOK, "The text.", yamlType, "", true}, noSuch, unprocessable},
		},
		{
			method: http.MethodPut, path: "rules/documents/{document}", scope: Admin, serve: (*call).putRuleDocument, id: "putRuleDocument", summary: "Make or change a document of rules",
			about:  "It counts beside the rule files, on every node, and is checked together with what is in force here.",
			header: []parameter{ifMatch, ifNone, idKey}, body: &payload{yamlText, sqltenant.MaxDocument, "", "Rules, as a rule file has them.", false},
			answers: []reply{
				{http.StatusOK, "The document as it is now.", jsonType, "RuleDocument", true}, {http.StatusCreated, "The document, which was not there.", jsonType, "RuleDocument", true},
				preconditionFailed, inFlight, tooLargeReply, wrongType, unprocessable,
			},
		},
		{
			method: http.MethodDelete, path: "rules/documents/{document}", scope: Admin, serve: (*call).removeRuleDocument, id: "deleteRuleDocument", summary: "Take a document of rules out",
			header:  []parameter{ifMatch, idKey},
			answers: []reply{{status: http.StatusNoContent, about: "It is not there any more."}, noSuch, preconditionFailed, inFlight, unprocessable},
		},
		{
			method: http.MethodGet, path: "candidates", scope: Read, local: true, serve: (*call).candidates, id: "listCandidates", summary: "List what was seen of candidate limits",
			query:   []parameter{limitParameter, cursorParameter},
			answers: []reply{{http.StatusOK, "A page of what this node has seen.", jsonType, "Candidates", false}},
		},
	}
}

// rowRoutes are those of the table of rules.
func rowRoutes() []route {
	row := payload{jsonOnly, maxSmallBody, "RowBody", "The row, whole.", false}
	return []route{
		{
			method: http.MethodGet, path: "rules/rows", scope: Read, serve: (*call).rows, id: "listRuleRows", summary: "List the rows of the table of rules",
			query:   []parameter{limitParameter, cursorParameter},
			answers: []reply{{http.StatusOK, "A page, in the order of their ids.", jsonType, "Rows", false}},
		},
		{
			method: http.MethodPost, path: "rules/rows", scope: Admin, serve: (*call).addRow, id: "addRuleRow", summary: "Add a row to the table of rules",
			header: []parameter{idKey}, body: &row,
			answers: []reply{{http.StatusCreated, "The row.", jsonType, "ChangedRow", false}, inFlight, tooLargeReply, wrongType, unprocessable},
		},
		{
			method: http.MethodPut, path: "rules/rows/{row}", scope: Admin, serve: (*call).changeRow, id: "putRuleRow", summary: "Change a row of the table of rules",
			header: []parameter{idKey}, body: &row,
			answers: []reply{{http.StatusOK, "The row as it is now.", jsonType, "ChangedRow", false}, noSuch, inFlight, tooLargeReply, wrongType, unprocessable},
		},
		{
			method: http.MethodDelete, path: "rules/rows/{row}", scope: Admin, serve: (*call).removeRow, id: "deleteRuleRow", summary: "Take a row out of the table of rules",
			header:  []parameter{idKey},
			answers: []reply{{status: http.StatusNoContent, about: "It is not there any more."}, noSuch, inFlight, unprocessable},
		},
	}
}

// switchRoutes are those of switches.
func switchRoutes() []route {
	const scopes = "For a tenant the scope write is enough, for all else it takes admin."
	return []route{
		{
			method: http.MethodGet, path: "switches", scope: Read, serve: (*call).switches, id: "listSwitches", summary: "List what is switched",
			query:   []parameter{limitParameter, cursorParameter},
			answers: []reply{{http.StatusOK, "A page, in the order of their targets.", jsonType, "Switches", false}},
		},
		{
			method: http.MethodGet, path: "switches/{target}", scope: Read, serve: (*call).getSwitch, id: "getSwitch", summary: "Show a switch",
			answers: []reply{{http.StatusOK, "The switch.", jsonType, "SwitchState", true}, noSuch, unprocessable},
		},
		{
			method: http.MethodPut, path: "switches/{target}", scope: Write, serve: (*call).putSwitch, id: "putSwitch", summary: "Switch a rule, its candidate, a tenant, or all",
			about:  "Every node obeys within a second or so. " + scopes,
			header: []parameter{ifMatch, ifNone, idKey}, body: &payload{jsonOnly, switches.MaxDocument, "Switch", "The switch.", false},
			answers: []reply{
				{http.StatusOK, "The switch as it is now.", jsonType, "SwitchState", true}, {http.StatusCreated, "The switch, which was not there.", jsonType, "SwitchState", true},
				preconditionFailed, inFlight, tooLargeReply, wrongType, unprocessable,
			},
		},
		{
			method: http.MethodDelete, path: "switches/{target}", scope: Write, serve: (*call).removeSwitch, id: "deleteSwitch", summary: "Switch back",
			about: scopes, header: []parameter{ifMatch, idKey},
			answers: []reply{{status: http.StatusNoContent, about: "Nothing is switched for it."}, noSuch, preconditionFailed, inFlight, unprocessable},
		},
	}
}

func otherRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "changes", scope: Read, serve: (*call).changes, id: "listChanges", summary: "List who has changed what",
			query: []parameter{
				limitParameter,
				{"after", "The version after which to begin: next_after of the page before.", schema{"type": "integer", "minimum": 0, "default": 0}},
			},
			answers: []reply{{http.StatusOK, "A page of the log of changes, the oldest first.", jsonType, "Changes", false}},
		},
		{
			method: http.MethodGet, path: "me", scope: Read, local: true, serve: (*call).me, id: "getMe", summary: "Say who asks",
			answers: []reply{{http.StatusOK, "Who the token is of, and what it is good for.", jsonType, "Me", false}},
		},
		{
			method: http.MethodGet, path: "openapi.json", scope: Read, local: true, serve: (*call).openAPI, id: "getOpenAPI", summary: "This document",
			answers: []reply{{http.StatusOK, "OpenAPI 3.1.", jsonType, "Any", false}},
		},
	}
}

// What is said of routes that name keys, and of streams.
const (
	namesAbout  = "Keys and addresses of clients are named to the scopes write and admin; read has a keyed hash in their place."
	streamAbout = "The stream ends when the token does, and when the process begins to end. "
)

// watchRoutes are those of how this node is, and of what it decides.
func watchRoutes() []route {
	return []route{
		{
			method: http.MethodGet, path: "overview", scope: Read, local: true, serve: (*call).overview, id: "getOverview", summary: "Show how this node is",
			answers: []reply{{http.StatusOK, "How it is.", jsonType, "Overview", false}, notHere},
		},
		{
			method: http.MethodGet, path: "keys", scope: Read, local: true, serve: (*call).keys, id: "listTopKeys", summary: "List the keys with the most requests of late",
			about: namesAbout,
			query: []parameter{
				{"by", "By what they are ordered.", schema{"type": "string", "enum": []any{byTotal, byDenied}, "default": byTotal}},
				{"rule", "Only of the rule with this id.", schema{"type": "string"}},
				{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": maxKeys, "default": defaultKeys}},
				{"fleet", "Those of all nodes.", schema{"type": "boolean", "default": false}},
			},
			answers: []reply{{http.StatusOK, "The keys.", jsonType, "TopKeys", false}, notHere},
		},
		{
			method: http.MethodGet, path: "fleet", scope: Read, local: true, serve: (*call).fleet, id: "getFleet", summary: "Show what this node knows of all nodes",
			answers: []reply{{http.StatusOK, "The nodes.", jsonType, "Fleet", false}, notHere},
		},
		{
			method: http.MethodGet, path: "accuracy", scope: Read, local: true, serve: (*call).accuracy, id: "getAccuracy", summary: "Show how exact decisions were",
			about:   "Measured on a sample of keys, against an exact count.",
			answers: []reply{{http.StatusOK, "By rule.", jsonType, "Accuracy", false}, notHere},
		},
		{
			method: http.MethodGet, path: "events", scope: Read, local: true, serve: (*call).events, id: "listEvents", summary: "List events of decisions of this node",
			about:   "Those that are remembered, the latest first: denials, and a sample of what was allowed. " + namesAbout,
			query:   append([]parameter{{"limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": maxEvents, "default": defaultPage}}, cursorParameter}, filterParameters...),
			answers: []reply{{http.StatusOK, "A page.", jsonType, "Events", false}, notHere},
		},
		{
			method: http.MethodGet, path: "events/{event}", scope: Read, local: true, serve: (*call).event, id: "getEvent", summary: "Show an event of a decision",
			about:   namesAbout,
			answers: []reply{{http.StatusOK, "The event.", jsonType, "Event", false}, noEvent},
		},
		{
			method: http.MethodPost, path: "explain", scope: Read, local: true, serve: (*call).explain, id: "explainRequest", summary: "Say how a request would be decided now, and why",
			about: "Nothing is charged.", body: &payload{jsonOnly, explain.MaxBody, "ExplainBody", "The request, as /v1/check takes it.", false},
			answers: []reply{{http.StatusOK, "How, and why.", jsonType, "Explanation", false}, notHere, tooLargeReply, wrongType, unprocessable},
		},
		{
			method: http.MethodGet, path: "live", scope: Read, local: true, serve: (*call).live, id: "watchNode", summary: "Watch how this node is",
			about: "Server-sent events overview (each second), keys (each 2 s) and fleet (each 5 s); the data is JSON on one line: Overview, BothTopKeys and Fleet. " + streamAbout + namesAbout,
			query: []parameter{
				{"topics", "Some of overview, keys and fleet, separated by commas; left out, all.", schema{"type": "string"}},
			},
			answers: []reply{{http.StatusOK, "A stream.", streamType, "", false}, notHere},
		},
		{
			method: http.MethodGet, path: "events/live", scope: Read, local: true, serve: (*call).liveEvents, id: "watchEvents", summary: "Watch events of decisions of this node",
			about:   "Server-sent events decision, whose data is an Event, and dropped, whose data says of how many decisions there would have been one had they been read sooner. " + streamAbout + namesAbout,
			query:   filterParameters,
			answers: []reply{{http.StatusOK, "A stream.", streamType, "", false}, notHere},
		},
	}
}
