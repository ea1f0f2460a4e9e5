package dashboards

func rulesInForce() Dashboard {
	const decisions = "headgate_decisions_total"
	ofRule := `rule=~"$domain([.].*)?",rule=~"$rule"`
	domain := choice("domain", "Domain", `label_values(headgate_decisions_total{job=~"$job"}, rule)`)
	domain.Regex = `/^([^.]+)[.]/`
	by := func(outcome string) string { return sum("rule", rate(decisions, ofRule, `outcome=~"`+outcome+`"`)) }
	return build("headgate-rules", "Headgate / Rules",
		"What the limits of each domain and rule say. Rules begin with their domain, unless they have a name of their own.",
		[]Variable{domain, choice("rule", "Rule", `label_values(headgate_decisions_total{job=~"$job",rule=~"$domain([.].*)?"}, rule)`)},
		section{"Decisions", []Panel{
			colored(stacked(12, "Decisions by outcome", "Limits decided per second, of the rules chosen.", "reqps",
				query("{{outcome}}", sum("outcome", rate(decisions, ofRule)))), outcomeColors),
			lines(12, "Decisions by rule", "Limits decided per second.", "reqps",
				query("{{rule}}", sum("rule", rate(decisions, ofRule)))),
			lines(12, "Denials by rule", "Limits that denied, per second: by the store or by the share of the node.", "reqps",
				query("{{rule}}", by("denied|local_denied|open_denied"))),
			lines(12, "Share denied, by rule", "Share of its decisions that a rule denied.", "percentunit",
				query("{{rule}}", by("denied|local_denied|open_denied")+" / "+sum("rule", rate(decisions, ofRule)))),
			lines(12, "Would be denied", "Limits in shadow mode that would have denied, per second.", "reqps",
				query("{{rule}}", by("shadow_denied"))),
			lines(12, "Degraded, by rule", "Limits decided by failure mode because the store could not decide, per second.", "reqps",
				query("{{rule}}", by("degraded_.*|local_.*|open_denied"))),
			ranking(12, "Busiest rules", "The rules with the most decisions per second.", "reqps",
				query("{{rule}}", "topk(20, "+sum("rule", rate(decisions, ofRule))+")")),
			ranking(12, "Rules that deny most", "The rules with the most denials per second.", "reqps",
				query("{{rule}}", "topk(20, "+by("denied|local_denied|open_denied")+")")),
		}},
		section{"Domains", []Panel{
			lines(12, "Decisions by domain", "Limits decided per second, by the first part of the names of rules, which is their domain. Rules that have a name of their own are together.", "reqps",
				query("{{domain}}", domains(sum("rule", rate(decisions))))),
			lines(12, "Denials by domain", "Limits that denied per second, by the first part of the names of rules.", "reqps",
				query("{{domain}}", domains(sum("rule", rate(decisions, `outcome=~"denied|local_denied|open_denied"`))))),
		}},
		section{"What clients see", []Panel{
			lines(12, "Retry-After of denials", "Retry-After of denied requests.", "s",
				query("p50", quantile(0.5, "", "headgate_retry_after_seconds")),
				query("p99", quantile(0.99, "", "headgate_retry_after_seconds"))),
			lines(12, "Remaining after a request", "Share of a limit that is left after a request, of a sample of requests: half, and one of ten, have less.", "percentunit",
				query("half", quantile(0.5, "", "headgate_remaining_ratio")),
				query("one of ten", quantile(0.1, "", "headgate_remaining_ratio"))),
			lines(12, "Mean Retry-After by rule", "What denied requests were told to wait on average, by the rule that spoke.", "s",
				query("{{rule}}", sum("rule", rate("headgate_rule_retry_after_seconds_sum", ofRule))+" / "+sum("rule", rate("headgate_rule_retry_after_seconds_count", ofRule)))),
			lines(12, "Nearly used up, by rule", "Share of the requests that left a tenth of the limit or less, of a sample.", "percentunit",
				query("{{rule}}", sum("rule", rate("headgate_rule_remaining_ratio_bucket", ofRule, `le="0.1"`))+" / "+sum("rule", rate("headgate_rule_remaining_ratio_count", ofRule)))),
			lines(12, "Bursts used up", "Denials per second by limits whose burst is used up (token_bucket, gcra).", "reqps",
				query("{{rule}}", sum("rule", rate("headgate_burst_exhausted_total", ofRule)))),
			lines(12, "Keys", "Different keys in the last minute, estimated. A rule that counts by what clients make up shows here.", "short",
				query("{{rule}}", sum("rule", of("headgate_rule_keys", ofRule)))),
		}},
		section{"Accuracy", []Panel{
			lines(12, "Wrong decisions", "Share of the decisions about sampled keys that an exact count would not have made.", "percentunit",
				query("{{rule}} allowed", accuracy("wrong_allowed", ofRule)),
				query("{{rule}} denied", accuracy("wrong_denied", ofRule))),
			lines(12, "Overshoot", "Most hits beyond a limit that were admitted, as a share of it, beside what the rule promises.", "percentunit",
				query("{{rule}}", "max by (rule) ("+of("headgate_accuracy_overshoot_ratio", ofRule)+")"),
				query("{{rule}} promised", "max by (rule) ("+of("headgate_accuracy_bound_ratio", ofRule)+")")),
		}},
		section{"Beside the main limits", []Panel{
			stacked(12, "Denied, by the role of the limit", "Requests per second that a count denied, by what the limit is for.", "reqps",
				query("{{role}}", sum("role", rate("headgate_denied_requests_total")))),
			stacked(12, "Above soft limits", "Limits on which an allowed request was above the soft limit, per second, by what was done.", "reqps",
				query("{{action}}", sum("action", rate("headgate_soft_limits_total")))),
			lines(12, "Candidates", "Requests of late that candidate limits alone deny, and those that the limits in force alone deny.", "none",
				query("{{rule}} added", sum("rule", of("headgate_candidate_added_denials", ofRule))),
				query("{{rule}} avoided", sum("rule", of("headgate_candidate_avoided_denials", ofRule)))),
			stacked(12, "Reservations", "Reservations per second that were made and denied.", "reqps",
				query("{{outcome}}", sum("outcome", rate("headgate_reservations_total")))),
			stacked(12, "Commits and cancels", "Calls per second that settle a reservation. Many unknown ones come too late: the store has forgotten the reservation.", "reqps",
				query("{{op}} {{outcome}}", sum("op, outcome", rate("headgate_settlements_total")))),
			stacked(12, "Holds", "Calls per second that renew and release slots of requests in flight; degraded: the store could not.", "reqps",
				query("{{op}} {{outcome}}", sum("op, outcome", rate("headgate_holds_total")))),
		}},
	)
}

// domains adds up what is told by rule, by the first part of the names of rules.
func domains(byRule string) string {
	return sum("domain", `label_replace(`+byRule+`, "domain", "$1", "rule", "([^.]+)[.].*")`)
}

// accuracy is the share of the decisions compared, by rule, that were wrong in a way.
func accuracy(wrong string, matchers ...string) string {
	return sum("rule", rate("headgate_accuracy_"+wrong+"_total", matchers...)) + " / " + sum("rule", rate("headgate_accuracy_decided_total", matchers...))
}
