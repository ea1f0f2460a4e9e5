package dashboards

func rulesInForce() Dashboard {
	const decisions = "headgate_decisions_total"
	ofRule := `rule=~"$rule"`
	by := func(outcome string) string { return sum("rule", rate(decisions, ofRule, `outcome=~"`+outcome+`"`)) }
	return build("headgate-rules", "Headgate / Rules",
		"What the limits of each domain and rule say. Rules without a name begin with their domain.",
		[]Variable{choice("rule", "Rule", `label_values(headgate_decisions_total{job=~"$job"}, rule)`)},
		section{"Decisions", []Panel{
			colored(stacked(12, "Decisions by outcome", "Limits decided per second, of the rules chosen.", "reqps",
				query("{{outcome}}", sum("outcome", rate(decisions, ofRule)))), outcomeColors),
			lines(12, "Decisions by rule", "Limits decided per second.", "reqps",
				query("{{rule}}", sum("rule", rate(decisions, ofRule)))),
			lines(12, "Denials by rule", "Limits that denied, per second: by the store or by the share of the node.", "reqps",
				query("{{rule}}", by("denied|local_denied"))),
			lines(12, "Share denied, by rule", "Share of its decisions that a rule denied.", "percentunit",
				query("{{rule}}", by("denied|local_denied")+" / "+sum("rule", rate(decisions, ofRule)))),
			lines(12, "Would be denied", "Limits in shadow mode that would have denied, per second.", "reqps",
				query("{{rule}}", by("shadow_denied"))),
			lines(12, "Degraded, by rule", "Limits decided by failure mode since the store could not, per second.", "reqps",
				query("{{rule}}", by("degraded_.*|local_.*"))),
			ranking(12, "Busiest rules", "The rules with the most decisions per second.", "reqps",
				query("{{rule}}", "topk(20, "+sum("rule", rate(decisions, ofRule))+")")),
			ranking(12, "Rules that deny most", "The rules with the most denials per second.", "reqps",
				query("{{rule}}", "topk(20, "+by("denied|local_denied")+")")),
		}},
		section{"Beside the main limits", []Panel{
			stacked(12, "Denied, by the role of the limit", "Requests per second that a count denied, by what the limit is for.", "reqps",
				query("{{role}}", sum("role", rate("headgate_denied_requests_total")))),
			stacked(12, "Above soft limits", "Limits on which an allowed request was above the soft limit, per second, by what was done.", "reqps",
				query("{{action}}", sum("action", rate("headgate_soft_limits_total")))),
			lines(12, "Candidates", "Requests of late that candidate limits alone deny, and those that the limits in force alone deny.", "none",
				query("{{rule}} added", sum("rule", of("headgate_candidate_added_denials", ofRule))),
				query("{{rule}} avoided", sum("rule", of("headgate_candidate_avoided_denials", ofRule)))),
			stacked(12, "Holds", "Calls per second that renew and release slots of requests in flight; degraded: the store could not.", "reqps",
				query("{{op}} {{outcome}}", sum("op, outcome", rate("headgate_holds_total")))),
		}},
	)
}
