// One rule: what it says and does, and what is switched.

import { h, put, text, keyed } from "./dom.js";
import { accuracyFacts } from "./accuracy.js";
import { get } from "./api.js";
import { mainLimits, roles, showCandidates } from "./candidates.js";
import { chart } from "./chart.js";
import { withCopy } from "./copy.js";
import { allowed, denied, limitsCounted, outcomeRows } from "./counts.js";
import { remembered } from "./live.js";
import { onShown } from "./nodes.js";
import { empty, every, failed, loading, panel, pill, table } from "./parts.js";
import { about, count, rate, time } from "./format.js";
import { raised } from "./raise.js";
import { ruleIndex } from "./ruleindex.js";
import { byWhom, control, stateOf, switches } from "./switches.js";

export const title = ([name]) => name;

export function show(root, { parts: [name], me }) {
  const facts = h("div", null, loading("the rule"));
  const holder = h("div");
  const candidates = h("div");
  const exact = h("div");
  const advice = h("div");
  const raises = raised(name, me);
  const points = [];
  const drawn = chart({ title: "What the limits of this rule said, per second", about: "What the limits of this rule said per second", format: about, series: [
    { name: "allowed", tone: "allowed", area: true, of: (p) => allowed(p) },
    { name: "denied", tone: "denied", of: (p) => denied(p) },
    { name: "in shadow", tone: "shadow", of: (p) => p.shadow_denied },
  ] });
  const t = table("Outcomes of this rule", [{ label: "Outcome" }, { label: "Per second", num: true }, { label: "Since start", num: true }]);
  const showRows = keyed(t.rows, ([key]) => key, ([key, label]) => {
    const cells = [h("td", { class: "num" }), h("td", { class: "num" })];
    return { element: h("tr", null, h("th", { scope: "row" }, label), cells), update: ([, , r]) => [rate(r?.rates[key] ?? 0), count(r?.outcomes[key] ?? 0)].forEach((w, i) => text(cells[i], w)) };
  });
  const switched = async () => {
    const found = await switches();
    const there = found.byTarget.get(`rule:${name}`);
    put(holder, control(`rule:${name}`, `the rule ${name}`, found, me, switched), there ? h("p", null, byWhom(there)) : null,
      found.byTarget.get("all") ? h("p", { class: "note" }, "Everything is switched: ", stateOf(found.byTarget.get("all"))) : null, found.problem ? h("p", { class: "muted" }, found.problem.message) : null);
  };
  const draw = async () => {
    try {
      const rule = (await ruleIndex()).byID.get(name);
      if (!rule) return put(facts, empty(`There is no rule ${name} in force on this node.`, "It may have been removed, or be a rule of another node."));
      const link = (words, page, parameters) => h("a", { href: `#/${page}?${new URLSearchParams(parameters)}` }, words);
      put(facts, h("dl", { class: "facts wide" }, [["Id", withCopy("the id of the rule", rule.id)], ["Domain", rule.domain], ["Matches", rule.path.length ? rule.path.map((step, i) => [i ? " › " : "", h("code", null, step)]) : "every request of the domain"],
        ["Limits", rule.limits.length ? h("ul", { class: "plain" }, rule.limits.map((l) => h("li", null, l.limit, l.role === "main" ? null : [" ", pill("plain", roles[l.role] ?? l.role)], l.name ? h("span", { class: "muted" }, ` ${l.name}`) : null))) : mainLimits(rule)],
        ["Soft limit", rule.soft_limit], ["Candidate", rule.candidate], ["Schedule", rule.schedule?.join("; ")], ["Now", rule.now], ["Priority", rule.priority], ["Cost", rule.cost], ["Store away", `failure mode ${rule.failure}`],
        ["Valid", [rule.valid_from ? ["from ", time(rule.valid_from)] : null, rule.valid_until ? [" until ", time(rule.valid_until)] : null].filter(Boolean)], ["Also", rule.summary.split("; ").slice(rule.limits.length || 1).filter((part) => !/^(?:schedule|candidate|soft limit) /.test(part)).join("; ")],
        ["From", `${rule.source}: ${rule.file}${rule.line ? `, line ${rule.line}` : ""}`],
        ["See", [link("Its keys", "keys", { rule: name }), " · ", link("Its events", "events", { rule: name }), " · ", link("Explain", "explain", { domain: rule.domain })]]]
        .filter(([, words]) => words && words.length !== 0).map(([what, words]) => h("div", null, h("dt", null, what), h("dd", null, words)))));
    } catch (problem) {
      if (problem.status !== 401) put(facts, failed(problem, draw));
    }
  };
  const measured = async () => {
    const accuracy = await get("accuracy").catch(() => null);
    const found = accuracy?.rules.find((r) => r.rule === name);
    put(exact, found ? accuracyFacts(found) : empty("Nothing was measured for this rule.", "--accuracy-sample says of which share of keys."));
  };
  put(root, h("p", null, h("a", { href: "#/rules" }, "← All rules")), drawn.element,
    h("div", { class: "grid two" }, h("div", { class: "column" }, panel("Rule", {}, facts), panel("Outcomes", {}, h("p", { class: "muted" }, limitsCounted), t.element)),
    h("div", { class: "column" }, panel("Switch", {}, holder), raises.byHand, panel("Accuracy", { more: h("a", { href: "#/accuracy" }, "All rules") }, exact))), raises.hot, candidates, advice);
  import("./advice.js").then(({ recommended }) => put(advice, recommended(name, me)), (problem) => put(advice, failed(problem))); // few who look at a rule ask for it
  draw();
  switched();
  showCandidates(candidates, me, name);
  const ends = [raises.end, every(5000, measured), onShown((o) => {
    const r = o.rules.find((x) => x.id === name);
    const t0 = Date.parse(o.at);
    if (points.at(-1)?.t >= t0) return;
    points.push({ t: t0, ...(r?.rates ?? { allowed: 0, denied: 0, shadow_denied: 0, local_allowed: 0, local_denied: 0, open_denied: 0, degraded_allowed: 0, degraded_denied: 0, skipped: 0 }) });
    while (points[0].t < t0 - remembered) points.shift();
    drawn.update(points);
    showRows(outcomeRows.map(([key, label]) => [key, label, r]));
  })];
  return () => ends.forEach((end) => end());
}
