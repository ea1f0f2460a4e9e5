// Limits that hold over several regions, as this node sees them: the homes and the rules.

import { h, put, text } from "./dom.js";
import { get } from "./api.js";
import { empty, every, failed, loading, panel, pill, table } from "./parts.js";
import { count, none, percent, rate, seconds } from "./format.js";

export const lead = "Rules with regions: leased pass by hits that were leased from a home, and by the reserve of the region; rules with regions: shared by the store of the region, which hears of the others. No request waits for another region.";

const homeColumns = [{ label: "Home" }, { label: "State" }, { label: "Heard", num: true, hint: "How long ago the last answer came" }, { label: "Round trip", num: true }, { label: "Renewal", num: true, hint: "Mean time that questions for leases took of late" },
  { label: "Lag bound", num: true, hint: "Round trip beyond which leases end before the next are here" }, { label: "Epoch", num: true, hint: "For how long it has forgotten nothing" },
  { label: "Nodes", num: true, hint: "Of all regions" }, { label: "Held", num: true, hint: "Hits that this node may let pass by leases" }, { label: "Asked", num: true }, { label: "Not answered", num: true }];

const ruleColumns = [{ label: "Rule" }, { label: "Home" }, { label: "State" }, { label: "Cut", hint: "What the home lends, the reserve of this region, and those of the others" }, { label: "Held", num: true, hint: "Hits that this node may let pass by leases" },
  { label: "Reserve left", num: true, hint: "For the key that had the least of late" }, { label: "Taken", num: true, hint: "Hits that the home has lent" }, { label: "By leases", num: true }, { label: "By the reserve", num: true }, { label: "Denied", num: true },
  { label: "Unused", num: true, hint: "Part of the hits lent in the last minute that nobody could use" }, { label: "Excess", num: true, hint: "Hits that passed beyond those lent, measured on this node since it started" }, { label: "Bound", num: true, hint: "What the rule promises" }, { label: "", spoken: "Kept" }];

const toldColumns = [{ label: "Region" }, { label: "State" }, { label: "Heard", num: true, hint: "How long ago its store last answered" }, { label: "Round trip", num: true }, { label: "Lag", num: true, hint: "For how long it had not heard of hits that are more than the floor" },
  { label: "Unheard", num: true, hint: "Hits over all keys that it had not heard of in the last round" }, { label: "Told", num: true, hint: "Counts of keys" }, { label: "Not answered", num: true }];

const sharedColumns = [{ label: "Rule" }, { label: "Limits" }, { label: "Keys", num: true, hint: "Of which this node has a count" }, { label: "Hits", num: true, hint: "That pass on this node" }, { label: "Unheard", num: true, hint: "Hits on one key that a region had not heard of: the most of any key. The sum over the nodes elsewhere bounds the excess" },
  { label: "By" }, { label: "Floor", num: true, hint: "Hits on one key that a region need not tell" }, { label: "At most", num: true, hint: "By how much the limit can be exceeded whatever fails" }];

const homeStates = { heard: ["allowed", "heard"], silent: ["denied", "silent"], unheard: ["plain", "unheard"] };
const ruleStates = { leased: ["allowed", "leased"], on_reserve: ["degraded", "on reserve"], waiting: ["degraded", "waiting"], cut_off: ["denied", "cut off"], unheard: ["plain", "unheard"] };

// An epoch that somebody has vouched for is older than any limit remembers, in seconds.
const longAgo = 2 * 366 * 86400;

const num = (words) => h("td", { class: "num" }, words);
const part = (share) => (share < 0 ? none : percent(share));

// state is a word in its colour, with the reason beside it, which a pointer is not needed for.
function state(known, one) {
  const [tone, word] = known[one.state] ?? ["plain", one.state];
  const [why] = (one.why ?? "").split("; hint: ");
  return h("td", null, pill(tone, word), why ? h("span", { class: "muted" }, ` ${why}`) : null);
}

function homeRow(p) {
  return h("tr", { class: p.state === "heard" ? null : "old" }, h("th", { scope: "row" }, p.name), state(homeStates, p), num(p.heard < 0 ? "never" : `${seconds(p.heard)} ago`),
    [p.round_trip, p.renewal, p.lag_bound].map((s) => num(s ? seconds(s) : none)), num(p.heard < 0 ? none : p.epoch_age > longAgo ? "long ago" : seconds(p.epoch_age)), num(count(p.nodes)), num(count(p.held)), num(count(p.asked)), h("td", { class: p.failed ? "num tone-denied" : "num" }, count(p.failed)));
}

function ruleRow(r) {
  const cut = r.limits.map((l) => `${l.limit}: ${count(l.home)} + ${count(l.reserve)} + ${count(l.others)}`).join("; ");
  return h("tr", { class: r.state === "cut_off" || r.state === "unheard" ? "old" : null },
    h("th", { scope: "row" }, h("a", { href: `#/rules/${encodeURIComponent(r.rule)}` }, r.rule)), h("td", null, r.peer), state(ruleStates, r), h("td", null, cut), num(count(r.held)), num(part(r.reserve_left)),
    [r.taken_rate, r.leased_rate, r.reserve_rate, r.denied_rate].map((n) => num(rate(n))), num(part(r.unused)), num(count(r.excess)), num(count(r.bound)),
    h("td", null, r.excess <= r.bound ? pill("allowed", "within") : pill("denied", "beyond the bound")));
}

function toldRow(p) {
  return h("tr", { class: p.state === "silent" ? "old" : null }, h("th", { scope: "row" }, p.region), state(homeStates, p), num(p.heard < 0 ? "never" : `${seconds(p.heard)} ago`), num(p.round_trip ? seconds(p.round_trip) : none),
    h("td", { class: p.lag > p.lag_bound ? "num tone-denied" : "num" }, p.lag ? seconds(p.lag) : none), num(count(p.unheard)), num(count(p.totals)), h("td", { class: p.failed ? "num tone-denied" : "num" }, count(p.failed)));
}

function sharedRow(r) {
  const most = (of) => count(Math.max(0, ...r.limits.map((l) => l[of])));
  return h("tr", null, h("th", { scope: "row" }, h("a", { href: `#/rules/${encodeURIComponent(r.rule)}` }, r.rule)), h("td", null, r.limits.map((l) => l.limit).join("; ")), num(count(r.buckets)), num(rate(r.hits_rate)), num(count(r.unheard)), h("td", null, r.to || none), num(most("floor")), num(most("most")));
}

export function show(root) {
  const said = h("span", { class: "muted" });
  const silent = h("div", { role: "status" });
  const homes = table("Homes", homeColumns);
  const rules = table("Rules over regions", ruleColumns);
  const told = table("Other regions", toldColumns);
  const shared = table("Shared rules", sharedColumns);
  const holder = h("div", null, loading("the regions"));
  // A part is there where it has rows.
  const parts = [["peers", homes, homeRow, "Homes"], ["rules", rules, ruleRow, "Leased rules"], ["told", told, toldRow, "Other regions"], ["shared", shared, sharedRow, "Shared rules"]]
    .map(([of, rows, row, name]) => ({ of, rows, row, panel: panel(name, { wide: true }, rows.element) }));
  const head = h("p", null, said);
  const nothing = empty("No rule in force says regions: leased or shared.", "All limits are counted in this region alone.");
  let there = "";
  put(root, silent, holder);
  const draw = (r) => {
    const away = r.peers.filter((p) => p.state === "silent").map((p) => p.name);
    const deaf = r.told.filter((p) => p.state === "silent").map((p) => p.region);
    const words = [away.length ? `Nothing is heard of ${away.join(", ")}: its rules have what is held, then the reserve of this region.` : "",
      deaf.length ? `The store of ${deaf.join(", ")} does not answer: shared rules are counted there and here apart.` : ""].filter(Boolean).join(" ");
    if (silent.textContent !== words) put(silent, words ? h("p", { class: "note warn" }, words) : null);
    if (!r.region) {
      put(holder, panel("No regions", {}, empty("This process has no regions.", "--regions FILE and --region NAME let limits hold over several.")));
      return;
    }
    text(said, `seen from ${r.node}, region ${r.region}${r.onlooker ? ", which does not decide: what is held and told is on the nodes that do, and on their /metrics" : ""}`);
    for (const p of parts) put(p.rows.rows, r[p.of].map(p.row));
    const now = parts.filter((p) => r[p.of].length > 0);
    const idle = r.rules.length + r.shared.length === 0;
    const key = `${now.map((p) => p.of)} ${idle}`;
    if (there === key && head.parentNode === holder) return;
    there = key;
    put(holder, [head, ...now.map((p) => p.panel), ...(idle ? [nothing] : [])]);
  };
  const load = async () => {
    try {
      draw(await get("regions"));
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  return every(2000, load);
}
