// All nodes, as this one knows of them.

import { h, put, text } from "./dom.js";
import { get } from "./api.js";
import { degraded, unlimited } from "./counts.js";
import { on } from "./live.js";
import { failed, loading, panel, pill, table } from "./parts.js";
import { age, count, none, rate, seconds, time, version } from "./format.js";

export const topics = ["fleet"];

const columns = [{ label: "Node" }, { label: "State" }, { label: "Allowed", num: true }, { label: "Denied", num: true }, { label: "Degraded", num: true }, { label: "No rule", num: true, hint: "Passed, and no rule applied" }, { label: "p50", num: true }, { label: "p99", num: true },
  { label: "Breakers open", num: true }, { label: "Configuration" }, { label: "Version" }, { label: "Up for", num: true }, { label: "Last seen", num: true }];

// usual is the value that most have; of equals the first.
function usual(values) {
  const counts = new Map();
  for (const v of values) counts.set(v, (counts.get(v) ?? 0) + 1);
  return [...counts].reduce((best, one) => (one[1] > best[1] ? one : best), [null, 0])[0];
}

function state(n) {
  if (n.draining) return pill("degraded", "draining");
  if (!n.ready) return pill("denied", "not ready");
  return n.degraded ? pill("degraded", "degraded") : pill("allowed", "ready");
}

const staleAfter = 15; // seconds; nodes tell of themselves more often

export function show(root) {
  const said = h("p");
  const differ = h("div", { role: "status" });
  const t = table("Nodes", columns);
  const holder = h("div", null, loading("nodes"));
  put(root, differ, panel("Nodes", {}, said, holder));
  const draw = (f) => {
    const now = Date.now();
    const config = usual(f.nodes.map((n) => n.config_version));
    const build = usual(f.nodes.map((n) => n.version));
    const others = f.nodes.filter((n) => n.config_version !== config);
    text(said, f.live > f.nodes.length ? `${count(f.nodes.length)} of ${count(f.live)} live nodes tell of themselves.` : `${count(f.nodes.length)} ${f.nodes.length === 1 ? "node" : "nodes"}.`);
    const words = others.length ? `${others.map((n) => n.name).join(", ")} ${others.length === 1 ? "has" : "have"} another configuration than the others.` : "";
    if (differ.textContent !== words + (f.error ?? "")) put(differ, words ? h("p", { class: "note warn" }, words) : null, f.error ? h("p", { class: "note" }, f.error) : null);
    put(t.rows, f.nodes.map((n) => {
      const heard = (now - Date.parse(n.at)) / 1000;
      return h("tr", { class: heard > staleAfter ? "old" : null }, h("th", { scope: "row" }, n.name, n.self ? [" ", pill("accent", "this one")] : null, n.layer ? h("span", { class: "muted" }, ` ${n.layer}`) : null), h("td", null, state(n)),
        [n.rates.allowed, n.rates.denied, degraded(n.rates), unlimited(n.rates)].map((r) => h("td", { class: "num" }, rate(r))),
        [n.latency.p50, n.latency.p99].map((s) => h("td", { class: "num" }, n.latency.count ? seconds(s) : none)),
        h("td", { class: n.breakers_open ? "num tone-denied" : "num" }, count(n.breakers_open)),
        h("td", null, h("code", { title: n.config_version }, version(n.config_version)), n.config_version !== config ? [" ", pill("warn", "differs")] : null, " ", h("span", { class: "muted" }, n.config_at ? age(n.config_at, now) : "")),
        h("td", null, n.version, n.version !== build ? [" ", pill("warn", "differs")] : null), h("td", { class: "num" }, time(n.started_at, () => seconds((now - Date.parse(n.started_at)) / 1000))),
        h("td", { class: "num" }, time(n.at, () => age(n.at, now))));
    }));
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
