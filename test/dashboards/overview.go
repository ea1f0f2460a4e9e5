package dashboards

// Colors of what requests and limits were answered.
const (
	green, red, orange, purple, gray, darkRed, blue = "green", "red", "orange", "purple", "#8e8e8e", "dark-red", "blue"
)

// outcomeColors are the colors of outcomes, wherever they are shown.
var outcomeColors = map[string]string{
	"allowed": green, "denied": red, "shadow_denied": purple, "degraded_allowed": orange, "degraded_denied": darkRed,
	"local_allowed": "light-green", "local_denied": "light-red", "open_denied": "semi-dark-red", "replaced": blue, "skipped": gray, "unmatched": gray, "unknown_domain": "#5e5e5e",
}

// breakerWords are the states of breakers.
var breakerWords = []Word{{Text: "closed", Color: green}, {Text: "half-open", Color: orange}, {Text: "open", Color: red}}

func overview() Dashboard {
	requests := "headgate_requests_total"
	share := func(matchers ...string) string {
		return sum("", rate(requests, matchers...)) + " / " + sum("", rate(requests))
	}
	return build("headgate-overview", "Headgate / Overview",
		"Whether the limiter is well, what it answers, and how fast.", nil,
		section{"Now", []Panel{
			figure(4, "Requests", "Requests answered per second.", "reqps", always(green), query("", sum("", rate(requests)))),
			figure(4, "Denied", "Share of requests that a limit denied: 429 over HTTP.", "percentunit", from(0.1, 0.5),
				query("", share(`outcome="denied"`))),
			figure(4, "Degraded", "Share of requests that were decided without the store, by the failure mode of their rule.", "percentunit", redFrom(0.0001),
				query("", share(`outcome=~"degraded_.*"`))),
			figure(4, "Decision latency, p99", "99 of 100 calls were decided in this time or less, the store included.", "s", from(0.01, 0.02),
				query("", quantile(0.99, "", "headgate_decision_duration_seconds"))),
			figure(4, "Breakers not closed", "Breakers of servers of the store that are open or try again, over all processes.", "none", redFrom(1),
				query("", "sum("+of("headgate_store_breaker_state")+" > bool 0) or vector(0)")),
			figure(4, "Processes up", "Processes that Prometheus could scrape, of those that it should.", "none", redBelow(1),
				query("up", `sum(up{job=~"$job",instance=~"$instance"})`),
				query("of", `count(up{job=~"$job",instance=~"$instance"})`)),
		}},
		section{"Traffic", []Panel{
			colored(stacked(12, "Requests by outcome", "Requests answered per second: allowed, denied (429), degraded_allowed (passed without the store), degraded_denied (denied without the store), unmatched (no rule), unknown_domain.", "reqps",
				query("{{outcome}}", sum("outcome", rate(requests)))), outcomeColors),
			colored(lines(12, "Denials against traffic", "Share of all requests that the store's count denied (429), and share that was denied while the store could not decide: 503 where the rule fails closed, 429 where the node denied by its own count.", "percentunit",
				query("denied", share(`outcome="denied"`)),
				query("degraded_denied", share(`outcome="degraded_denied"`))), map[string]string{"denied": red, "degraded_denied": darkRed}),
			ranking(12, "Busiest rules", "The ten rules with the most decisions per second: the hot routes.", "reqps",
				query("{{rule}}", "topk(10, "+sum("rule", rate("headgate_decisions_total"))+")")),
			ranking(12, "Rules that deny most", "The ten rules with the most denials per second. Which keys they are of, the dashboard of Headgate itself and `headgate top` tell.", "reqps",
				query("{{rule}}", "topk(10, "+sum("rule", rate("headgate_decisions_total", `outcome=~"denied|local_denied|open_denied"`))+")")),
			lines(12, "Decision latency", "Time to decide a call, the store included.", "s",
				query("p50", quantile(0.5, "", "headgate_decision_duration_seconds")),
				query("p90", quantile(0.9, "", "headgate_decision_duration_seconds")),
				query("p99", quantile(0.99, "", "headgate_decision_duration_seconds"))),
			lines(12, "Edge against gateway", "Requests per second by where the process stands (--layer): all, and those denied. Without a layer, all are in one line.", "reqps",
				query("{{layer}} all", sum("layer", rate(requests))),
				query("{{layer}} denied", sum("layer", rate(requests, `outcome="denied"`)))),
			stacked(12, "Denied, by the role of the limit", "Requests per second that a count denied, by what the limit is for: main, concurrency, secondary, sustained, ban, candidate.", "reqps",
				query("{{role}}", sum("role", rate("headgate_denied_requests_total")))),
			stacked(12, "Shed", "Requests per second that were shed with 503 by priority, where --shed or --fleet-capacity is in use.", "reqps",
				query("{{priority}}: {{reason}}", sum("priority, reason", rate("headgate_shed_total")))),
		}},
		section{"Health", []Panel{
			states(12, "Breakers", "State of the breaker of each server of the store, the worst of all processes.", breakerWords,
				query("{{store}} {{shard}}", "max by (store, shard) ("+of("headgate_store_breaker_state")+")")),
			// HeadgateMissing has no job: it is about processes that are not there.
			list(12, "Alerts", "Alerts of Headgate that are pending or firing.", "none",
				query("", `sum by (alertname, severity, alertstate, instance) (ALERTS{alertname=~"Headgate.*",job=~"$job|"})`)),
			states(12, "Store up", "Whether the store can decide, for each process.", []Word{{Text: "down", Color: red}, {Text: "up", Color: green}},
				query("{{instance}}", of("headgate_store_up"))),
			list(12, "Versions", "Processes by the version of their rules; after a change all have the same within a minute.", "none",
				query("", "count by (version) ("+of("headgate_rules_info")+")")),
			states(12, "Rules", "Whether the rule files are in force. Refused files leave those before them in force.", []Word{{Text: "in force", Color: green}, {Text: "refused", Color: red}},
				query("{{instance}}", of("headgate_rules_stale"))),
			lines(12, "Live nodes", "Nodes that each process knows of, itself among them.", "none",
				query("{{instance}}", of("headgate_nodes_live"))),
		}},
		section{"Events, traces, top keys", []Panel{
			stacked(12, "Events of decisions", "Events per second: produced, dropped (the buffer was full), and unsampled (allowed, and not in the sample).", "ops",
				query("produced", sum("", rate("headgate_audit_produced_total"))),
				query("dropped", sum("", rate("headgate_audit_dropped_total"))),
				query("unsampled", sum("", rate("headgate_audit_unsampled_total")))),
			lines(12, "Event destinations", "Events per second that each sink has taken, and lost.", "ops",
				query("{{sink}} written", sum("sink", rate("headgate_audit_sink_written_total"))),
				query("{{sink}} lost", sum("sink", rate("headgate_audit_sink_failed_total")))),
			lines(12, "Events waiting", "Events in the buffer, and of each sink.", "none",
				query("{{instance}}", of("headgate_audit_buffered")),
				query("{{instance}} {{sink}}", of("headgate_audit_sink_buffered"))),
			lines(12, "Spans", "Spans per second: exported, failed (the collector has not taken them), dropped (the queue was full).", "ops",
				query("exported", sum("", rate("headgate_trace_spans_exported_total"))),
				query("failed", sum("", rate("headgate_trace_spans_failed_total"))),
				query("dropped", sum("", rate("headgate_trace_spans_dropped_total")))),
		}},
		section{"Reverse proxy", []Panel{
			stacked(12, "Requests of the proxy", "Requests per second of `headgate proxy`, by what became of them: answered by the backend, denied, or why neither.", "reqps",
				query("{{outcome}}", sum("outcome", rate("headgate_proxy_requests_total")))),
			lines(12, "Backend latency", "Time from a request that is forwarded to the header of the backend's answer.", "s",
				query("p50", quantile(0.5, "", "headgate_proxy_backend_duration_seconds")),
				query("p99", quantile(0.99, "", "headgate_proxy_backend_duration_seconds"))),
		}},
		section{"Processes", []Panel{
			lines(8, "CPU", "Processors in use, of each process.", "none", query("{{instance}}", rate("process_cpu_seconds_total"))),
			lines(8, "Memory", "Resident memory of each process.", "bytes", query("{{instance}}", of("process_resident_memory_bytes"))),
			lines(8, "Goroutines", "Goroutines of each process; a steady rise is a leak.", "none", query("{{instance}}", of("go_goroutines"))),
		}},
	)
}
