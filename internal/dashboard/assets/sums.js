// What nodes tell of themselves, added up.

// staleAfter is for how long a node may be silent, in ms: it tells of itself each five seconds.
export const staleAfter = 15000;

const plus = (a, b) => Object.fromEntries(Object.keys({ ...a, ...b }).map((k) => [k, (a?.[k] ?? 0) + (b?.[k] ?? 0)]));

// silentFor is how long nothing was heard of a node at now, in ms; the one that serves the page is heard.
export const silentFor = (node, now) => (node.self ? 0 : Math.max(0, now - Date.parse(node.at)));

export const heard = (node, now) => silentFor(node, now) <= staleAfter;

// sumOf adds up nodes. Quantiles of several nodes cannot be added up: latency has the highest.
export function sumOf(nodes) {
  const rules = new Map();
  const tiers = new Map();
  let more = 0;
  for (const n of nodes) {
    more += n.rules_more ?? 0;
    for (const r of n.rules ?? []) {
      const was = rules.get(r.id);
      rules.set(r.id, { id: r.id, outcomes: plus(was?.outcomes, r.outcomes), rates: plus(was?.rates, r.rates) });
    }
    for (const t of n.tiers ?? []) {
      const was = tiers.get(t.tier) ?? { allowed: 0, denied: 0, allowed_rate: 0, denied_rate: 0, weight: 0, share: 0 };
      const weight = t.used < 0 ? 0 : t.allowed_rate + t.denied_rate;
      tiers.set(t.tier, { tier: t.tier, ...plus({ allowed: was.allowed, denied: was.denied, allowed_rate: was.allowed_rate, denied_rate: was.denied_rate }, { allowed: t.allowed, denied: t.denied, allowed_rate: t.allowed_rate, denied_rate: t.denied_rate }), weight: was.weight + weight, share: was.share + weight * t.used });
    }
  }
  const all = (o) => Object.values(o).reduce((a, b) => a + b, 0);
  const highest = (p) => Math.max(0, ...nodes.map((n) => n.latency[p]));
  return {
    requests: nodes.reduce((sum, n) => plus(sum, n.requests), {}),
    rates: nodes.reduce((sum, n) => plus(sum, n.rates), {}),
    latency: { p50: highest("p50"), p90: highest("p90"), p99: highest("p99"), count: nodes.reduce((sum, n) => sum + n.latency.count, 0) },
    rules: [...rules.values()].sort((a, b) => all(b.rates) - all(a.rates) || all(b.outcomes) - all(a.outcomes) || (a.id < b.id ? -1 : 1)),
    rules_more: more,
    tiers: [...tiers.values()].map(({ weight, share, ...t }) => ({ ...t, used: weight > 0 ? share / weight : -1 })).sort((a, b) => (a.tier < b.tier ? -1 : 1)),
  };
}

// chosen returns what a page shows: of the node of that name, or with "" of all that are heard at
// now. overview is of the node that serves the page, fleet what it knows of all, null before that
// is known. It is null while there is nothing to show.
export function chosen(name, overview, fleet, now) {
  if (!overview) return null;
  const own = overview.node.name;
  const alone = { ...overview, of: [own], unheard: [], gone: [] };
  if (!fleet) return overview.live_nodes > 1 || (name && name !== own) ? null : alone;
  if (name === own) return alone;
  const nodes = fleet.nodes.map((n) => (n.self ? { ...n, ...pick(overview) } : n));
  const list = name ? nodes.filter((n) => n.name === name) : nodes;
  const there = list.filter((n) => heard(n, now));
  if (!name && nodes.length === 1) return { ...alone, gone: fleet.gone ?? [] };
  return { ...sumOf(there), at: overview.at, of: there.map((n) => n.name), unheard: list.filter((n) => !heard(n, now)), gone: name ? (fleet.gone ?? []).filter((n) => n.name === name) : fleet.gone ?? [] };
}

const pick = ({ requests, rates, latency, rules, rules_more, tiers }) => ({ requests, rates, latency, rules, rules_more, tiers });

// usual is the value that most have; of equals the first.
export function usual(values) {
  const counts = new Map();
  for (const v of values) counts.set(v, (counts.get(v) ?? 0) + 1);
  return [...counts].reduce((best, one) => (one[1] > best[1] ? one : best), [null, 0])[0];
}

// drifts are what nodes may differ in: a name for people, and the value of a node.
export const drifts = [["rules", (n) => n.config_version], ["tenants", (n) => n.tenants_version ?? ""], ["switches", (n) => n.switches_digest ?? ""], ["version", (n) => n.version]];

// drift returns for each of drifts the nodes that differ from most: [{what, nodes}].
export function drift(nodes) {
  return drifts.map(([what, of]) => {
    const most = usual(nodes.map(of));
    return { what, nodes: nodes.filter((n) => of(n) !== most) };
  });
}
