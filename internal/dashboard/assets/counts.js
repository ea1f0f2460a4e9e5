// Which outcomes count as what, in the words of docs/metrics.md.

// unlimited are requests that no rule limits: they pass, and nobody has checked them.
export const unlimited = (r) => r.unmatched + r.unknown_domain;
export const requests = (r) => r.allowed + r.denied + degraded(r) + unlimited(r);

// requestRows are the outcomes of a request, in words.
export const requestRows = [["allowed", "Allowed"], ["denied", "Denied (429)"], ["degraded_allowed", "Allowed (store unavailable)"], ["degraded_denied", "Denied (store unavailable)"], ["unmatched", "No rule applied"], ["unknown_domain", "Unknown domain"]];

export const degraded = (r) => r.degraded_allowed + r.degraded_denied;

// allowed and denied are what a limit has said; one that was skipped has said nothing.
export const allowed = (o) => o.allowed + o.local_allowed + o.degraded_allowed;
export const denied = (o) => o.denied + o.local_denied + o.open_denied + o.degraded_denied;

// limitsCounted says how these differ from requests.
export const limitsCounted = "What limits said, not requests: a request that meets two limits counts twice here.";

// outcomeRows are the outcomes of a limit, in words.
export const outcomeRows = [["allowed", "Allowed"], ["denied", "Denied"], ["shadow_denied", "Would have been denied (shadow)"], ["local_allowed", "Allowed by this node's share"], ["local_denied", "Denied by this node's share"], ["open_denied", "Denied by the whole limit on this node"],
  ["degraded_allowed", "Allowed (store unavailable)"], ["degraded_denied", "Denied (store unavailable)"], ["replaced", "Replaced by another rule"], ["skipped", "Not checked: another limit denied"]];
