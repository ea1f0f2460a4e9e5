// How this node is, at a glance.

import { h, put, text, keyed, flags } from "./dom.js";
import { chart } from "./chart.js";
import { nodeNow, on } from "./live.js";
import { get } from "./api.js";
import { onShown, picked } from "./nodes.js";
import { panel, pill, table, empty, every, loading, bar } from "./parts.js";
import { details, standing } from "./replica.js";
import { about, age, bytes, count, none, percent, rate, seconds, time, version } from "./format.js";
import { keyColumns, keyRow } from "./keyname.js";
import { allowed, degraded, denied, requestRows, requests as all, limitsCounted } from "./counts.js";

export const topics = ["keys"];

const share = (part, whole) => (whole > 0 ? part / whole : 0);

// tiles are the numbers that come first.
function tiles() {
  const list = [
    ["Requests", (o) => rate(all(o.rates)), (o) => `${count(all(o.requests))} since start`],
    ["Denied (429)", (o) => rate(o.rates.denied), (o) => `${percent(share(o.rates.denied, all(o.rates)))} of the traffic`],
    ["Denied (store unavailable)", (o) => rate(o.rates.degraded_denied), (o) => `${rate(o.rates.degraded_allowed)} allowed without it`],
    ["No rule applied", (o) => rate(o.rates.unmatched), (o) => `${percent(share(o.rates.unmatched, all(o.rates)))} of the traffic, passed unchecked`],
    ["Unknown domain", (o) => rate(o.rates.unknown_domain), (o) => (o.rates.unknown_domain > 0 ? "passed unchecked: no rules have it" : `${count(o.requests.unknown_domain)} since start`), (o) => (o.rates.unknown_domain > 0 ? "warn" : "")],
    ["p99 of decisions", (o) => (o.latency.count ? seconds(o.latency.p99) : none), (o) => (!o.latency.count ? "none in the last minute" : o.of.length > 1 ? `the highest of ${o.of.length} nodes` : `p50 ${seconds(o.latency.p50)}`)],
  ].map(([name, number, more, tone]) => ({ name, number, more, tone, big: h("dd", { class: "big num" }, none), small: h("dd", { class: "muted" }, "") }));
  return {
    element: h("dl", { class: "tiles" }, list.map((t) => h("div", null, h("dt", null, t.name), t.big, t.small))),
    update(o) {
      for (const t of list) {
        text(t.big, t.number(o));
        text(t.small, t.more(o));
        t.big.classList.toggle("tone-warn", t.tone?.(o) === "warn");
      }
    },
  };
}

// calls are the columns that are one line where there is no room for them.
const calls = [["In flight", (s) => s.in_flight], ["Calls", (s) => s.calls], ["Failures", (s) => s.failures], ["Not sent", (s) => s.refused, "Calls that the breaker held back"]];

const breakers = { closed: ["allowed", "closed"], half_open: ["warn", "half open"], open: ["denied", "open"] };

function shards() {
  const t = table("Servers of the store", [{ label: "Server" }, { label: "State" }, { label: "Breaker" },
    ...calls.map(([label, , hint]) => ({ label, class: "num roomy", hint }))]);
  const show = keyed(t.rows, (s) => `${s.store} ${s.addr}`, () => {
    const cells = ["", "", ...calls.map(() => "num roomy")].map((c) => h("td", { class: c }));
    const server = h("span", { class: "wraps" });
    const line = h("div", { class: "muted num tight" });
    return {
      element: h("tr", null, h("th", { scope: "row" }, server, line), cells),
      update(s) {
        text(server, s.store ? `${s.store} ${s.addr}` : s.addr);
        text(line, calls.map(([label, of]) => `${label.toLowerCase()} ${count(of(s))}`).join(", "));
        put(cells[0], s.connected ? pill("allowed", "connected") : pill("denied", "no connection"));
        const [tone, name] = breakers[s.breaker] ?? ["warn", s.breaker];
        // A breaker that is closed lets calls out: without a connection that is no good news.
        put(cells[1], pill(tone === "allowed" && !s.connected ? "plain" : tone, name));
        calls.forEach(([, of], i) => text(cells[i + 2], count(of(s))));
      },
    };
  });
  const holder = h("div");
  const memory = h("div");
  return {
    element: panel("Store", {}, holder, memory),
    update(o) {
      if (!o.shards.length) put(holder, h("p", { class: "state" }, o.memory ? "This node counts in its own memory." : "The store has no servers."));
      else if (t.element.parentNode !== holder) put(holder, t.element);
      show(o.shards);
      put(memory, o.memory ? h("p", { class: "usage" }, bar(o.memory.bytes, o.memory.max_bytes), h("span", { class: "num" }, `${bytes(o.memory.bytes)} of ${bytes(o.memory.max_bytes)}`), h("span", { class: "muted num" }, `${count(o.memory.keys)} keys`)) : null,
      o.health.store.ok ? null : h("p", { class: "note bad" }, o.health.store.error || o.health.store.reason));
    },
  };
}

// replicaRow is how the replica is that tenants and documents are read of.
function replicaRow(r) {
  if (!r) return null;
  const words = details(r);
  return h("tr", null, h("th", { scope: "row" }, "Replica"), h("td", null, standing(r), words ? h("div", { class: "muted" }, words) : null), h("td", null, none), h("td", null, none));
}

function configuration() {
  const t = table("Configuration in force", [{ label: "Of" }, { label: "State" }, { label: "Version" }, { label: "Since" }]);
  return {
    element: panel("Configuration", {}, t.element),
    update(o) {
      const parts = [["Rules", o.health.rules], ["Tenants", o.health.tenants], ["Documents", o.health.documents]];
      put(t.rows, parts.map(([name, c]) => h("tr", null, h("th", { scope: "row" }, name),
        h("td", null, !c ? h("span", { class: "muted" }, "no database") : c.ok ? pill("allowed", "in force") : c.last_good ? pill("warn", "the last good one", c.error) : pill("denied", "not in force", c.error),
          c && !c.ok ? h("div", { class: "muted" }, c.error || c.reason) : null),
        h("td", null, c?.version ? h("code", { title: c.version }, version(c.version)) : none),
        h("td", null, c?.loaded_at ? [h("span", { class: "roomy" }, time(c.loaded_at), " "), h("span", { class: "muted" }, time(c.loaded_at, () => age(c.loaded_at, nodeNow())))] : none))), replicaRow(o.health.replica));
    },
  };
}

function audit() {
  const numbers = h("dl", { class: "facts" });
  const t = table("Event destinations", [{ label: "To" }, { label: "Written", num: true }, { label: "Failed", num: true }, { label: "Waiting", num: true }]);
  const holder = h("div");
  return {
    element: panel("Audit", { more: h("a", { href: "#/events" }, "Events") }, numbers, holder),
    update({ audit: a }) {
      put(numbers, [["Decided", a.decided], ["Produced", a.produced], ["Dropped", a.dropped], ["Waiting", a.buffered], ["Not in the sample", a.unsampled]].map(([name, n]) =>
        h("div", { class: name === "Dropped" && n > 0 ? "tone-denied" : null }, h("dt", null, name), h("dd", { class: "num" }, count(n)))));
      if (!a.sinks.length) return put(holder, h("p", { class: "muted" }, flags("The latest are kept in memory alone; --audit-files or --audit-kafka keeps them.")));
      put(t.rows, a.sinks.map((s) => h("tr", null, h("th", { scope: "row" }, s.name, s.error ? h("div", { class: "tone-denied" }, s.error) : null), [s.written, s.failed, s.buffered].map((n) => h("td", { class: "num" }, count(n))))));
      if (!t.element.isConnected) put(holder, t.element);
    },
  };
}

// tiers are the quotas of tenants, summed up by tier; nothing where no tier has decided.
function tiers() {
  const t = table("Quotas by tier", [{ label: "Tier" }, { label: "Allowed", num: true }, { label: "Denied", num: true }, { label: "Average use of quotas" }]);
  const element = panel("Quotas by tier", { more: h("a", { href: "#/tenants" }, "Tenants") }, t.element);
  return {
    element,
    update(o) {
      element.hidden = !o.tiers.length;
      put(t.rows, o.tiers.map((x) => h("tr", null, h("th", { scope: "row" }, x.tier), h("td", { class: "num" }, rate(x.allowed_rate)), h("td", { class: "num" }, rate(x.denied_rate)),
        h("td", null, x.used < 0 ? none : h("span", { class: "usage" }, bar(x.used, 1), h("span", { class: "num" }, percent(x.used)))))));
    },
  };
}

// answered is what requests were answered, since start and per second; one column is the sum of all.
function answered() {
  const t = table("Requests by what they were answered", [{ label: "Requests" }, { label: "Per second", num: true }, { label: "Since start", num: true }]);
  const element = panel("Answers", { more: h("span", { class: "muted" }, "requests, each counted once") }, t.element);
  return {
    element,
    update(o) {
      put(t.rows, [...requestRows.map(([key, label]) => [label, o.rates[key], o.requests[key], key]), ["All", all(o.rates), all(o.requests), "all"]].map(([label, a, b, key]) =>
        h("tr", { "data-outcome": key, class: key === "all" ? "sum" : null }, h("th", { scope: "row" }, label), h("td", { class: "num" }, rate(a)), h("td", { class: "num" }, count(b)))));
    },
  };
}

const busiest = 6;

function hotRules() {
  const t = table("Rules with the most decisions", [{ label: "Rule" }, { label: "Allowed", num: true }, { label: "Denied", num: true }, { label: "Share denied", num: true }]);
  const holder = h("div", null, t.element);
  const show = keyed(t.rows, (r) => r.id, (r) => {
    const cells = [0, 1, 2].map(() => h("td", { class: "num" }));
    return {
      element: h("tr", null, h("th", { scope: "row" }, h("a", { href: `#/rules/${encodeURIComponent(r.id)}` }, r.id)), cells),
      update({ rates }) {
        const passed = allowed(rates) + rates.shadow_denied;
        text(cells[0], rate(passed));
        text(cells[1], rate(denied(rates)));
        text(cells[2], percent(share(denied(rates), passed + denied(rates))));
      },
    };
  });
  return {
    element: panel("Busiest rules", { more: h("a", { href: "#/rules" }, "All rules") }, h("p", { class: "muted" }, limitsCounted), holder),
    update(o) {
      if (!o.rules.length) put(holder, empty("No rule has decided anything yet."));
      else if (t.element.parentNode !== holder) put(holder, t.element);
      show(o.rules.slice(0, busiest));
    },
  };
}

function topDenied() {
  const t = table("Keys with the most denials", keyColumns.slice(0, 4));
  const holder = h("div", null, loading("keys"));
  const show = keyed(t.rows, (k) => `${k.rule} ${k.hash}`, (k) => keyRow(k));
  return {
    element: panel("Most denied keys", { more: h("a", { href: "#/keys" }, "All") }, holder),
    // update shows keys of so many nodes.
    update({ keys, nodes }) {
      const list = keys.filter((k) => k.denied > 0).slice(0, busiest);
      if (!nodes) put(holder, empty("The node is not heard of: its keys are not known."));
      else if (!list.length) put(holder, empty("No key was denied in the last minutes."));
      else if (t.element.parentNode !== holder) put(holder, t.element);
      show(list);
    },
  };
}

const refresh = 2000;

// deniedKeys calls with the keys that were denied the most: of all nodes as the stream has them, of one
// that was picked as it tells them. It returns what ends it.
function deniedKeys(call) {
  if (!picked()) return on("keys", ({ denied }) => call(denied));
  let ended = false;
  const end = every(refresh, async () => {
    // The next one is soon, and the head says when a node does not answer.
    const list = await get("keys", { by: "denied", limit: busiest, node: picked() }).catch(() => null);
    if (list && !ended) call(list);
  });
  return () => {
    ended = true;
    end();
  };
}

// whoseWords says of which nodes the numbers are.
function whoseWords({ of, unheard, gone }) {
  const lost = unheard.length + gone.length;
  const without = lost ? `; ${count(lost)} ${lost === 1 ? "is" : "are"} not heard of and left out` : "";
  if (!of.length) return "It is not heard of: there are no numbers of it.";
  return `${of.length > 1 ? `The sum of ${count(of.length)} nodes: ${of.slice(0, 8).join(", ")}${of.length > 8 ? ", …" : ""}` : `Of the node ${of[0]}`}${without}.`;
}

export function show(root) {
  const charts = [
    chart({ title: "Requests per second", about: "Requests per second", format: about, series: [
      { name: "allowed", tone: "allowed", area: true, of: (p) => p.allowed },
      { name: "denied", tone: "denied", of: (p) => p.denied },
      { name: "degraded", tone: "degraded", of: degraded },
      { name: "no rule", tone: "plain", of: (p) => p.unmatched },
      { name: "unknown domain", tone: "warn", of: (p) => p.unknown_domain },
    ] }),
    chart({ title: "Denied rate (429)", about: "Denied requests as a share of the traffic", format: percent, least: 0.01, height: 150, series: [
      { name: "429", tone: "denied", area: true, of: (p) => share(p.denied, all(p)) },
    ] }),
    chart({ title: "Denied (store unavailable)", about: "Requests per second that were denied while the store did not decide: 503 where a rule fails closed, 429 by the node's own count", format: about, height: 150, series: [
      { name: "denied per second", tone: "degraded", area: true, of: (p) => p.degraded_denied },
    ] }),
    chart({ title: "Decision latency", about: "Decision latency, over the last minute each", format: seconds, height: 150, series: [
      { name: "p50", tone: "allowed", of: (p) => (p.decided ? p.p50 : NaN) },
      { name: "p90", tone: "accent", of: (p) => (p.decided ? p.p90 : NaN) },
      { name: "p99", tone: "denied", of: (p) => (p.decided ? p.p99 : NaN) },
    ] }),
  ];
  const sums = [tiles(), answered(), hotRules(), tiers()];
  const own = [shards(), configuration(), audit()];
  const top = topDenied();
  const [numbers, answers, rules, quotas] = sums;
  const [store, config, log] = own;
  const whose = h("p", { class: "muted whose", role: "status" });
  const here = h("h2", { class: "here" });
  const rest = h("div", { class: "column" }, store.element, h("div", { class: "grid two" }, config.element, log.element));
  put(root, whose, numbers.element, h("div", { class: "grid main-chart" }, charts[0].element),
    h("div", { class: "grid three" }, charts.slice(1).map((c) => c.element)),
    h("div", { class: "grid two" }, h("div", { class: "column" }, answers.element, quotas.element), h("div", { class: "column" }, top.element, rules.element)), here, rest);
  const ends = [
    onShown((o, history) => {
      text(whose, whoseWords(o));
      for (const p of sums) p.update(o);
      for (const c of charts) c.update(history);
    }),
    on("overview", (o) => {
      text(here, `This node: ${o.node.name}`);
      for (const p of own) p.update(o);
    }),
    deniedKeys(top.update),
  ];
  return () => ends.forEach((end) => end());
}
