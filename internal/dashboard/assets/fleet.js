// All nodes, as this one knows of them.

import { h, put, text, flags } from "./dom.js";
import { get } from "./api.js";
import { exportButton } from "./csv.js";
import { degraded, unlimited } from "./counts.js";
import { nodeNow, on } from "./live.js";
import { pick } from "./nodes.js";
import { drift, drifts, heard, silentFor, usual } from "./sums.js";
import { failed, loading, panel, pill, table } from "./parts.js";
import { behind, standing } from "./replica.js";
import { age, count, none, rate, seconds, time, version } from "./format.js";

const columns = [{ label: "Node" }, { label: "State" }, { label: "Allowed", num: true }, { label: "Denied", num: true }, { label: "Degraded", num: true }, { label: "Unchecked", num: true, hint: "Passed, because no rule applied or no rules have its domain" }, { label: "p50", num: true }, { label: "p99", num: true },
  { label: "Breakers open", num: true }, { label: "Rules", hint: "The version of the rules in force, and since when" }, { label: "Tenants", hint: "The version of accounts and tiers" }, { label: "Switches", hint: "How many are in force" }, { label: "Version" }, { label: "Up for", num: true }, { label: "Last seen", num: true }];

// state is what a node has told of itself; of one that is not heard of any more it is not known.
function state(n, now) {
  if (!heard(n, now)) return pill("plain", `not heard of for ${seconds(Math.round(silentFor(n, now) / 1000))}`, "It may be degraded, or have ended: this is not known here");
  if (n.draining) return pill("degraded", "draining");
  if (!n.ready) return pill("denied", "not ready");
  return n.degraded ? pill("degraded", "degraded") : pill("allowed", "ready");
}

// replica is how far the replica is that a node reads tenants of, where that is news.
function replica(r) {
  const late = behind(r);
  if (!r.ok || r.primary || r.paused || !r.receiving) return [" ", standing(r), late ? h("div", { class: "muted" }, late) : null];
  return late ? h("div", { class: "muted" }, late) : null;
}

const driftWords = { rules: "other rules", tenants: "other tenants or tiers", switches: "other switches", version: "another version of Headgate" };

const mostNamed = 8;

// otherSettings says in which settings nodes differ from most; of one that does not tell its
// settings nothing is said.
export function otherSettings(all) {
  const nodes = all.filter((n) => n.settings);
  const names = [...new Set(nodes.flatMap((n) => Object.keys(n.settings)))].sort();
  const most = new Map(names.map((name) => [name, usual(nodes.map((n) => n.settings[name]))]));
  return nodes.map((n) => ({ node: n.name, names: names.filter((name) => n.settings[name] !== most.get(name)) })).filter((d) => d.names.length);
}

const otherSettingsWords = ({ node, names }) => `${node} has other settings than most: ${names.slice(0, mostNamed).join(", ")}${names.length > mostNamed ? ` and ${count(names.length - mostNamed)} more` : ""}.`;

export function show(root) {
  const said = h("p");
  const differ = h("div", { role: "status" });
  const t = table("Nodes", columns);
  const holder = h("div", null, loading("nodes"));
  let told = { nodes: [] };
  const asTable = () => {
    const now = nodeNow();
    return {
      names: ["node", "layer", "heard", "ready", "degraded", "draining", "allowed_per_second", "denied_per_second", "degraded_per_second", "unchecked_per_second", "p50_seconds", "p99_seconds", "breakers_open", "rules_version", "rules_since", "tenants_version", "switches", "version", "started_at", "last_seen"],
      rows: [...told.nodes.map((n) => [n.name, n.layer, heard(n, now), n.ready, n.degraded, n.draining, n.rates.allowed, n.rates.denied, degraded(n.rates), unlimited(n.rates), ...(n.latency.count ? [n.latency.p50, n.latency.p99] : ["", ""]), n.breakers_open, n.config_version, n.config_at, n.tenants_version, n.switches ?? 0, n.version, n.started_at, n.at]),
        ...(told.gone ?? []).map((n) => [n.name, "", false, ...Array(14).fill(""), n.version, "", n.at])],
    };
  };
  put(root, differ, panel("Nodes", { more: exportButton("fleet", asTable) }, said, holder));
  const draw = (f) => {
    told = f;
    const now = nodeNow();
    const there = f.nodes.filter((n) => heard(n, now));
    const most = new Map(drifts.map(([what, of]) => [what, usual(there.map(of))]));
    const off = (n, what) => (heard(n, now) && drifts.find(([w]) => w === what)[1](n) !== most.get(what) ? [" ", pill("warn", "differs")] : null);
    const differing = drift(there).filter((d) => d.nodes.length).map((d) => `${d.nodes.map((n) => n.name).join(", ")} ${d.nodes.length === 1 ? "has" : "have"} ${driftWords[d.what]} than most.`).concat(otherSettings(there).map(otherSettingsWords));
    text(said, f.live > f.nodes.length ? `${count(f.nodes.length)} of ${count(f.live)} live nodes tell of themselves.` : `${count(f.nodes.length)} ${f.nodes.length === 1 ? "node" : "nodes"}.`);
    if (differ.textContent !== differing.join("") + (f.error ?? "")) put(differ, differing.map((words) => h("p", { class: "note warn" }, words)), f.error ? h("p", { class: "note" }, flags(f.error)) : null);
    const gone = (f.gone ?? []).map((n) => h("tr", { class: "old" }, h("th", { scope: "row" }, n.name), h("td", null, pill("plain", "gone", "It has ended, or cannot reach the store")), columns.slice(2, -1).map((c) => h("td", { class: c.num ? "num" : null }, c.label === "Version" ? n.version : none)), h("td", { class: "num" }, time(n.at, () => age(n.at, now)))));
    put(t.rows, f.nodes.map((n) => h("tr", { class: heard(n, now) ? null : "old" }, h("th", { scope: "row" }, h("a", { href: "#/overview", onclick: () => pick(n.name), title: `The overview of ${n.name}` }, n.name), n.self ? [" ", pill("accent", "this one")] : null, n.layer ? h("span", { class: "muted" }, ` ${n.layer}`) : null), h("td", null, state(n, now)),
        [n.rates.allowed, n.rates.denied, degraded(n.rates), unlimited(n.rates)].map((r) => h("td", { class: "num" }, rate(r))),
        [n.latency.p50, n.latency.p99].map((s) => h("td", { class: "num" }, n.latency.count ? seconds(s) : none)),
        h("td", { class: n.breakers_open ? "num tone-denied" : "num" }, count(n.breakers_open)),
        h("td", null, h("code", { title: n.config_version }, version(n.config_version)), off(n, "rules"), " ", n.config_at ? h("span", { class: "muted" }, time(n.config_at, () => age(n.config_at, now))) : null),
        h("td", null, n.tenants_version || none, off(n, "tenants"), n.replica ? replica(n.replica) : null), h("td", null, count(n.switches ?? 0), off(n, "switches")),
        h("td", null, h("span", { class: "wraps" }, n.version), off(n, "version")), h("td", { class: "num" }, time(n.started_at, () => seconds((now - Date.parse(n.started_at)) / 1000))),
        h("td", { class: "num" }, time(n.at, () => age(n.at, now))))), gone);
    if (t.element.parentNode !== holder) put(holder, t.element);
  };
  const load = async () => {
    try {
      draw(await get("fleet"));
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  load();
  return on("fleet", draw);
}
