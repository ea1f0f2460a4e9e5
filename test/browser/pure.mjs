// What needs no browser: descriptors as text, and what a change makes of an account. The
// Go side gives {text, entries} and gets the texts that this side writes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { allowed, degraded, denied, outcomeRows, requestRows, requests, unlimited } from "../../internal/dashboard/assets/counts.js";
import { tick } from "../../internal/dashboard/assets/chart.js";
import { csv } from "../../internal/dashboard/assets/csv.js";
import { format, parse } from "../../internal/dashboard/assets/descriptor.js";
import { instant, local, silentWords, toldWords } from "../../internal/dashboard/assets/events.js";
import { otherSettings } from "../../internal/dashboard/assets/fleet.js";
import { about, percent, seconds, usedWords, verdict } from "../../internal/dashboard/assets/format.js";
import { missingWords, ofWords, partsOf, pointsOf, pointsOfPrometheus, prometheusWords } from "../../internal/dashboard/assets/history.js";
import { live } from "../../internal/dashboard/assets/live.js";
import { behind, details } from "../../internal/dashboard/assets/replica.js";
import { tree } from "../../internal/dashboard/assets/rules.js";
import { chosen as choose } from "../../internal/dashboard/assets/settings.js";
import { chosen, drift, heard, sumOf } from "../../internal/dashboard/assets/sums.js";
import { followers } from "../../internal/dashboard/assets/switches.js";
import { storing, withLimits, withOverride, withTier } from "../../internal/dashboard/assets/tenant.js";

const cases = JSON.parse(readFileSync(0, "utf8"));
for (const { text, entries } of cases) assert.deepEqual(parse(text), entries, text);
for (const text of ["x", ":v", "a:b,", "a:b,c", "a:\\q", "a:\\x4"]) assert.throws(() => parse(text), /hint/, text);

for (const [replica, want] of [[{ lag_s: 0 }, ""], [{}, "lag not known"], [{ lag_s: 2.5 }, "2.5 s behind at most"]]) assert.equal(behind(replica), want);
assert.match(details({ lag_s: 2.5, unreplayed_bytes: 0, primary_opened: false }), /^2.5 s behind at most; the primary has not answered/);
assert.equal(details({ lag_s: 0, unreplayed_bytes: 0, primary_opened: true }), "");

const at = "2026-11-22T12:00:00Z";
live.overview = { at };
const past = "2026-01-01T00:00:00Z";
const soon = "2026-12-01T00:00:00Z";
const later = "2027-01-01T00:00:00Z";
const quota = (n, term) => ({ descriptor: "default", requests_per_unit: n, unit: "hour", ...term });
const other = { descriptor: "endpoint:/a", unlimited: true };

for (const [name, account, override, want] of [
  ["the first", {}, quota(5), [quota(5)]],
  ["in place of another", { overrides: [quota(1), other] }, quota(5), [other, quota(5)]],
  ["for a while, over another", { overrides: [quota(1)] }, quota(5, { expires_at: soon }), [quota(1), quota(5, { expires_at: soon, effective_at: at })]],
  ["for a while, over none", { overrides: [other] }, quota(5, { expires_at: soon }), [other, quota(5, { expires_at: soon })]],
  ["for ever, over one for a while", { overrides: [quota(1, { effective_at: past, expires_at: soon })] }, quota(5), [quota(5)]],
  ["before one that is to come", { overrides: [quota(9, { effective_at: later })] }, quota(5), [quota(9, { effective_at: later }), quota(5)]],
  ["after one that has ended", { overrides: [quota(1, { expires_at: past })] }, quota(5, { expires_at: soon }), [quota(5, { expires_at: soon })]],
]) assert.deepEqual(withOverride({ tier: "pro", top_ups: [{ id: "a" }], ...account }, override), { tier: "pro", overrides: want }, name);

for (const [name, account, tier, want] of [
  ["the first", {}, { tier: "pro" }, { tiers: [{ tier: "pro" }] }],
  ["in place of another", { tier: "free" }, { tier: "pro" }, { tiers: [{ tier: "pro" }] }],
  ["none", { tier: "free", overrides: [other] }, { tier: "" }, { overrides: [other] }],
  ["for a while, over another", { tier: "free" }, { tier: "pro", expires_at: soon }, { tiers: [{ tier: "free", effective_at: undefined, expires_at: undefined }, { tier: "pro", expires_at: soon, effective_at: at }] }],
  ["before one that is to come", { tier: "free", tiers: [{ tier: "pro", effective_at: later }] }, { tier: "big" }, { tiers: [{ tier: "pro", effective_at: later }, { tier: "big" }] }],
]) assert.deepEqual(withTier({ top_ups: [], ...account }, tier), want, name);

// A change is for the version that was reviewed, whatever has been read until it is sent.
const sent = [];
globalThis.fetch = async (path, { method, headers }) => {
  sent.push([method, headers["If-Match"] ?? null, headers["If-None-Match"] ?? null]);
  return new Response("{}", { headers: { "Content-Type": "application/json" } });
};
const seen = { data: { account: {} }, etag: '"1"' };
const changes = [storing("quotas/tenant:a", seen, { tier: "pro" }), storing("quotas/tenant:a", seen, {}), storing("quotas/tenant:a", { data: null, etag: null }, { tier: "pro" })];
Object.assign(seen, { data: { account: { top_ups: [{ id: "a" }] } }, etag: '"2"' });
for (const send of changes) await send();
assert.deepEqual(sent, [["PUT", '"1"', null], ["DELETE", '"1"', null], ["PUT", null, "*"]], "the version that was reviewed");

// Powers of two, so that a sum tells what it is made of.
const asked = { allowed: 1, denied: 2, degraded_allowed: 4, degraded_denied: 8, unmatched: 16, unknown_domain: 32 };
assert.deepEqual([requests(asked), degraded(asked), unlimited(asked)], [63, 12, 48], "requests: what no rule limits is not allowed by any");
const said = { allowed: 1, denied: 2, shadow_denied: 4, replaced: 8, degraded_allowed: 16, degraded_denied: 32, local_allowed: 64, local_denied: 128, skipped: 256, open_denied: 512 };
assert.deepEqual([allowed(said), denied(said)], [1 + 16 + 64, 2 + 32 + 128 + 512], "limits: one that was skipped has said nothing");
assert.deepEqual(outcomeRows.map(([key]) => key).toSorted(), Object.keys(said).toSorted(), "each outcome has a row");
assert.doesNotMatch(new Map(outcomeRows).get("skipped"), /off/i, "skipped is no switch");

// Random counters of random nodes: what pages add up is what the counters add up to, each outcome
// once, and nothing of a node that is not heard of.
let seed = 1;
const random = (most) => {
  seed = (seed * 48271) % 2147483647;
  return seed % most;
};
const vector = (keys) => Object.fromEntries(keys.map((k) => [k, random(4) ? random(1e6) : 0]));
const total = (o) => Object.values(o).reduce((a, b) => a + b, 0);
for (let round = 0; round < 300; round++) {
  const start = Date.parse(at);
  const nodes = Array.from({ length: 1 + random(6) }, (_, i) => ({
    name: `gate-${i}`, self: i === 0, at: new Date(start - (i ? random(30000) : 0)).toISOString(), requests: vector(Object.keys(asked)), rates: vector(Object.keys(asked)), latency: { p50: random(9), p90: random(9), p99: random(9), count: random(9) },
    rules: ["a", "b", "c"].filter(() => random(2)).map((id) => ({ id, outcomes: vector(Object.keys(said)), rates: vector(Object.keys(said)) })), rules_more: random(3), tiers: [{ tier: "pro", allowed: random(9), denied: random(9), allowed_rate: random(9), denied_rate: random(9), used: random(2) ? -1 : 0.5 }],
  }));
  const there = nodes.filter((n) => n.self || start - Date.parse(n.at) <= 15000);
  assert.deepEqual(nodes.filter((n) => heard(n, start)), there);
  const overview = { ...nodes[0], node: { name: "gate-0" }, live_nodes: nodes.length };
  const shown = chosen("", overview, { nodes, gone: [] }, start);
  for (const key of Object.keys(asked)) {
    assert.equal(shown.requests[key], there.reduce((sum, n) => sum + n.requests[key], 0), `requests ${key}`);
    assert.equal(shown.rates[key], there.reduce((sum, n) => sum + n.rates[key], 0), `rates ${key}`);
  }
  assert.equal(requests(shown.requests), total(shown.requests), "each outcome of requests is in the sum once");
  assert.equal(requestRows.reduce((sum, [key]) => sum + shown.requests[key], 0), requests(shown.requests), "the rows of the table are the sum below them");
  assert.equal(shown.unheard.length, nodes.length - there.length);
  const outcomes = shown.rules.reduce((sum, r) => sum + total(r.outcomes), 0);
  assert.equal(outcomes, there.reduce((sum, n) => sum + n.rules.reduce((s, r) => s + total(r.outcomes), 0), 0), "rules");
  for (const r of shown.rules) {
    assert.equal(outcomeRows.reduce((sum, [key]) => sum + r.outcomes[key], 0), total(r.outcomes), "the rows of a rule");
    assert.equal(allowed(r.outcomes) + denied(r.outcomes) + r.outcomes.shadow_denied + r.outcomes.replaced + r.outcomes.skipped, total(r.outcomes), "allowed, denied, in shadow, replaced and skipped are apart");
  }
  const one = nodes[random(nodes.length)];
  const alone = chosen(one.name, overview, { nodes, gone: [] }, start);
  assert.deepEqual(heard(one, start) ? alone.requests : {}, heard(one, start) ? one.requests : alone.requests, "one node");
  assert.equal(sumOf(there).latency.p99, Math.max(...there.map((n) => n.latency.p99)), "the highest");
}
const many = { node: { name: "a" }, live_nodes: 3 };
assert.equal(chosen("", many, null, 0), null, "one node is not shown for three");
assert.deepEqual(chosen("", { node: { name: "a" }, live_nodes: 1 }, null, 0).of, ["a"]);

const versions = (config_version, switches_digest) => ({ name: config_version + switches_digest, config_version, switches_digest, version: "1" });
assert.deepEqual(drift([versions("x", "s"), versions("x", "s"), versions("y", "s"), versions("x", undefined)]).map(({ what, nodes }) => [what, nodes.length]), [["rules", 1], ["tenants", 0], ["switches", 1], ["version", 0]]);

// Which settings nodes differ in; one that does not tell its settings differs in none.
assert.deepEqual(otherSettings([{ name: "a", settings: { store: "1", rules: "2" } }, { name: "b", settings: { store: "1", rules: "2" } }, { name: "c", settings: { store: "1", nodes: "3" } }, { name: "old" }]), [{ node: "c", names: ["nodes", "rules"] }]);
assert.deepEqual(otherSettings([{ name: "a", settings: {} }, { name: "b", settings: {} }]), []);

// What is denied by which kind of limit.
assert.deepEqual([{ role: "ban" }, { role: "concurrency" }, { role: "secondary" }, { role: "main" }].map((e) => verdict({ outcome: "denied", ...e })), ["denied: banned", "denied: too many in flight", "denied: secondary limit", "denied"]);
assert.equal(usedWords({ used: 20, limit: 20, role: "ban" }), "20 of 20 denials");

// Numbers of an axis differ, however few a second there are.
assert.deepEqual([0, 0.002, 0.004, 0.006].map((v) => tick(v, about, 0.002)), ["0", "0.002", "0.004", "0.006"]);
assert.deepEqual([0, 0.025, 0.05, 0.075, 0.1].map((v) => tick(v, about, 0.025)), ["0", "0.025", "0.05", "0.075", "0.1"]);
assert.deepEqual([[2.5, about, 2.5], [1000, about, 500], [0.5, percent, 0.25], [0.00025, seconds, 0.00025]].map((a) => tick(...a)), ["2.5", "1,000", "50 %", "250 µs"]);

// Events of nodes say whose they are, and who has told nothing.
const told = (node, unknown) => ({ node, events: 1, unknown });
assert.equal(toldWords({ nodes: [told("a"), told("b"), told("c", "away")], cut: true }, ""), "Of 2 nodes: a, b; older ones are remembered, too.");
assert.equal(toldWords({ nodes: [told("a")] }, "a"), "Of the node a.");
assert.equal(toldWords({ nodes: [] }, "b"), "b is not heard of.");
assert.equal(toldWords({ nodes: [told("b", "away")] }, ""), "Of no node.");
assert.deepEqual(silentWords([told("a"), told("b", "it has not answered")]), ["Nothing of b is in it: it has not answered."]);
assert.deepEqual([silentWords(Array.from({ length: 10 }, () => told("b", "away"))).length, silentWords(Array.from({ length: 10 }, () => told("b", "away"))).at(-1)], [9, "Nor of 2 more."]);

// A switch is followed by those who share where it is kept, not by everybody.
assert.match(followers({ live_nodes: 1 }), /^This node follows/);
assert.match(followers({ live_nodes: 3 }), /^Nodes that share this database or store follow.*which of the 3 have/);

// Rules stand below those that they go on from, whatever they are named.
const ruleOf = (id, ...path) => ({ id, domain: "d", path });
assert.deepEqual(tree([ruleOf("zz", "user"), ruleOf("aa", "user", "path_/a"), ruleOf("d.userx", "userx"), ruleOf("everything")]).map((e) => [e.rule.id, e.depth, e.label]),
  [["everything", 0, "always"], ["zz", 0, "user"], ["aa", 1, "path_/a"], ["d.userx", 0, "userx"]]);

assert.equal(csv(["a", "b"], [[1, 'x,"y"'], [-2, "=cmd()"]]), 'a,b\r\n1,"x,""y"""\r\n-2,\'=cmd()\r\n');
for (const text of ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", "\u00a0@x", "\tx"]) assert.match(csv(["a"], [[text]]), /^a\r\n"?'/, `${JSON.stringify(text)} is a formula`);
for (const text of ["a=1", "1-2", " x", "tenant:acme", ""]) assert.equal(csv(["a"], [[text]]), `a\r\n${text}\r\n`, "no formula");
assert.equal(csv(["a"], [[null], [undefined], [false], [0]]), "a\r\n\r\n\r\nfalse\r\n0\r\n");

// The instant of a field is the one that it was given, to the millisecond.
for (const ms of [0, 1, 1577833200000, 1764358500123]) assert.equal(instant(local(String(ms))), ms);
for (const text of ["", "x", "-1", "1e300", "NaN"]) assert.equal(local(text), "", text);
assert.equal(instant(""), "");

// Which settings a filter leaves.
const settings = [{ name: "store", value: "redis://h", from: "environment", variables: ["HEADGATE_STORE"], about: "Where counters live" }, { name: "log-level", value: "info", from: "default", about: "Least severe level" }];
const named = (find, from) => choose(settings, find, from).map((s) => s.name);
assert.deepEqual([named("", ""), named("REDIS", ""), named("headgate_", ""), named("severe", ""), named("", "given"), named("", "default"), named("store", "file")], [["store", "log-level"], ["store"], ["store"], ["log-level"], ["store"], ["log-level"], []]);

// An override of one limit stands in its fields, one of several in a list.
assert.deepEqual(withLimits("default", [{ requests_per_unit: 1, unit: "hour" }]), { descriptor: "default", requests_per_unit: 1, unit: "hour" });
assert.deepEqual(withLimits("default", [{ requests_per_unit: 1, unit: "hour" }, { requests_per_unit: 9, unit: "day" }]), { descriptor: "default", limits: [{ requests_per_unit: 1, unit: "hour" }, { requests_per_unit: 9, unit: "day" }] });

console.log(JSON.stringify(cases.map(({ entries }) => format(entries))));

// The history of a fleet says what is missing in it, and draws no part as whole that is not.
const answers = (name, more) => ({ name, answered: true, from: at, gaps: 0, ...more });
for (const [nodes, error, words, whose] of [
  [[answers("a"), answers("b")], "", [], "The sum of 2 nodes: a, b."],
  [[answers("a"), { name: "b", answered: false, gaps: 0 }], "", ["b has not answered: nothing of it is in these numbers."], "Of the node a."],
  [[answers("a"), { name: "b", answered: false, gone_at: at, gaps: 0 }], "", ["b is not heard of any more: what it answered is not in these numbers."], "Of the node a."],
  [[answers("a"), answers("b", { from: "2026-11-22T12:00:05Z" })], "", [], "The sum of 2 nodes: a, b."],
  [[answers("a"), answers("b", { from: undefined })], "away", ["b knows nothing of this time.", "away"], "The sum of 2 nodes: a, b."],
  [[answers("a", { gaps: 2 }), answers("b", { gaps: 1 })], "", ["a, b have gaps, in which nothing was counted."], "The sum of 2 nodes: a, b."],
  [[], "", [], "Of no node."],
]) {
  assert.deepEqual(missingWords({ nodes, step: 5, error }), words);
  assert.equal(ofWords({ nodes }), whose);
}
assert.match(missingWords({ nodes: [answers("a"), answers("b", { from: "2026-11-22T12:00:10Z" })], step: 5 })[0], /^b knows nothing of before .*: it had not begun/);
const step = (s, whole) => ({ at: new Date(Date.parse(at) + s * 1000).toISOString(), rates: { allowed: 1 }, p50: 0, p99: 0, whole });
const began = Date.parse(at);
assert.deepEqual(partsOf(pointsOf({ step: 5, points: [step(0, false), step(5, false), step(10, true), step(15, false)] }), 5000), [{ from: began, to: began + 10000 }, { from: began + 15000, to: began + 20000 }]);

// What Prometheus tells is drawn as what nodes tell, at the middle of its steps, and the page says where it is from.
assert.deepEqual(pointsOfPrometheus({ step: 300, points: [{ at, rates: { allowed: 2, denied: 1 }, p50: 0, p99: 0.5 }] }), [{ t: began + 150000, allowed: 2, denied: 1, p50: NaN, p99: 0.5, whole: true }]);
assert.match(prometheusWords(""), /^From Prometheus: the sum of all nodes/);
assert.match(prometheusWords("gate-1"), /^From Prometheus: of the node whose label instance is gate-1\./);
