// The rules of this node: what they say, what they do, and what is switched.

import { h, put, text, keyed } from "./dom.js";
import { allowed, denied, limitsCounted, outcomeRows } from "./counts.js";
import { all, get } from "./api.js";
import { chart } from "./chart.js";
import { live, on, remembered } from "./live.js";
import { onShown } from "./nodes.js";
import { empty, every, failed, field, loading, panel, pill, table } from "./parts.js";
import { about, count, none, rate, seconds, time } from "./format.js";
import { ruleIndex } from "./ruleindex.js";
import { raised } from "./raise.js";
import { byWhom, control, stateOf, switches } from "./switches.js";
import { accuracyFacts } from "./accuracy.js";

export const title = ([rule]) => rule ?? "Rules";

// tree puts rules below those whose path theirs goes on from, whatever they are named.
export function tree(rules) {
  const text = (rule) => JSON.stringify(rule.path).slice(0, -1);
  const sorted = rules.toSorted((a, b) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : a.id < b.id ? -1 : 1));
  const above = [];
  const below = (rule, top) => rule.path.length > top.path.length && top.path.every((step, i) => step === rule.path[i]);
  return sorted.map((rule) => {
    while (above.length && !below(rule, above.at(-1))) above.pop();
    const label = rule.path.slice(above.at(-1)?.path.length ?? 0).join(" › ") || "always";
    const depth = above.length;
    if (rule.path.length) above.push(rule);
    return { rule, depth, label };
  });
}

const usualID = (rule) => rule.id === [rule.domain, ...rule.path].join(".");

const roles = { ban: "ban", concurrency: "in flight", secondary: "secondary", sustained: "time in flight", candidate: "candidate" };

// marks are what else a rule does, in a word each.
function marks(rule) {
  const beside = [...new Set(rule.limits.map((l) => roles[l.role]).filter(Boolean))];
  return [rule.shadow ? pill("shadow", "shadow", "The rule says shadow: true") : null, rule.tenant ? pill("plain", "tenant", "The quotas of tenants count in place of its limit") : null, beside.map((b) => pill("plain", b)),
    rule.schedule ? pill("plain", "schedule", rule.schedule.join("; ")) : null, rule.soft_limit ? pill("plain", "soft limit", rule.soft_limit) : null].flat().filter(Boolean).flatMap((p) => [" ", p]);
}

const mainLimits = (rule) => (rule.unlimited ? "unlimited" : rule.limits.filter((l) => l.role === "main").map((l) => l.limit).join(" and ") || "no limit of its own");

const columns = [{ label: "Rule" }, { label: "Limit" }, { label: "Allowed", num: true }, { label: "Denied", num: true }, { label: "Shadow", num: true, hint: "What would have been denied" },
  { label: "Denied since start", num: true }, { label: "State" }];

function ruleRow({ rule, depth, label }, act) {
  const numbers = [0, 1, 2, 3].map(() => h("td", { class: "num" }, none));
  const state = h("td");
  const head = h("th", { scope: "row", class: `depth depth-${Math.min(depth, 5)}` }, h("a", { href: `#/rules/${encodeURIComponent(rule.id)}`, title: rule.id }, label), usualID(rule) ? null : h("span", { class: "muted" }, ` ${rule.id}`), marks(rule));
  const row = {
    element: h("tr", null, head, h("td", { class: "says" }, mainLimits(rule)), numbers, state),
    update() {},
    count(r) {
      const words = r ? [rate(allowed(r.rates)), rate(denied(r.rates)), rate(r.rates.shadow_denied), count(denied(r.outcomes))] : [none, none, none, none];
      words.forEach((w, i) => text(numbers[i], w));
      numbers[1].classList.toggle("tone-denied", Boolean(r) && denied(r.rates) > 0);
    },
    switched: () => put(state, act(rule)),
  };
  return row;
}

function list(root, me) {
  const search = h("input", { type: "search", "data-search": true, placeholder: "id, file or what it says" });
  const domains = h("div", { class: "column" }, loading("rules"));
  const everything = h("div");
  const note = h("div");
  const candidates = h("div");
  let rows = new Map();
  let groups = [];
  let found = { byTarget: new Map(), problem: null };

  const counted = (o) => {
    const byID = new Map(o.rules.map((r) => [r.id, r]));
    for (const [name, row] of rows) row.count(byID.get(name));
    put(note, h("p", { class: "muted" }, `${limitsCounted}${o.of.length > 1 ? ` The sum of ${count(o.of.length)} nodes.` : ` Of the node ${o.of[0] ?? none}.`}`), found.problem ? h("p", { class: "note" }, `Switches cannot be changed here: ${found.problem.message}`) : null, o.rules_more ? h("p", { class: "muted" }, `Rates are of the ${count(o.rules.length)} busiest rules; ${count(o.rules_more)} more have decided something.`) : null);
  };
  const filter = () => {
    const wanted = search.value.toLowerCase();
    for (const g of groups) {
      let some = false;
      for (const { rule } of g.entries) {
        const hit = [rule.id, rule.file, rule.summary].some((t) => t.toLowerCase().includes(wanted));
        rows.get(rule.id).element.hidden = !hit;
        some ||= hit;
      }
      g.element.hidden = !some;
    }
  };
  const draw = async () => {
    try {
      const is = await ruleIndex();
      rows = new Map();
      drawn = "";
      groups = [...is.domains].map(([domain, rules]) => {
        const t = table(`Rules of the domain ${domain}`, columns);
        const entries = tree(rules);
        for (const e of entries) {
          const row = ruleRow(e, (rule) => control(`rule:${rule.id}`, `the rule ${rule.id}`, found, me, again));
          rows.set(e.rule.id, row);
          t.rows.append(row.element);
        }
        return { entries, element: panel(domain, { more: h("span", { class: "muted" }, `${count(rules.length)} ${rules.length === 1 ? "rule" : "rules"}`) }, t.element) };
      });
      put(domains, groups.length ? groups.map((g) => g.element) : empty("No rules are in force.", "--rules names their files."));
      await again();
      filter();
    } catch (problem) {
      if (problem.status !== 401) put(domains, failed(problem, draw));
    }
  };
  let drawn = "";
  const again = async () => {
    found = await switches();
    const now = JSON.stringify([[...found.byTarget], found.problem?.message]);
    if (now === drawn) return; // what has the focus keeps it
    drawn = now;
    for (const row of rows.values()) row.switched();
    put(everything, panel("Everything", {}, h("p", { class: "muted" }, "The brake for a bad day: in shadow everything passes, and the numbers go on telling what would have been denied."), control("all", "everything", found, me, again)));
  };
  search.addEventListener("input", filter);
  put(root, h("form", { class: "filters", onsubmit: (e) => e.preventDefault() }, field("Find", search)), note, domains, everything, candidates);
  showCandidates(candidates, me);
  draw();
  let version = live.overview?.health.rules.version;
  const ends = [onShown(counted), on("overview", (o) => {
    if (version !== o.health.rules.version) {
      version = o.health.rules.version;
      draw();
    }
  }), every(10000, async () => rows.size && (await again()))];
  return () => ends.forEach((end) => end());
}

const candidateColumns = [{ label: "Rule" }, { label: "In force" }, { label: "Candidate" }, { label: "For" }, { label: "Decided", num: true }, { label: "Denied", num: true }, { label: "Candidate denied", num: true },
  { label: "Would newly deny", num: true, hint: "Requests that the candidate alone denies" }, { label: "Would newly allow", num: true }];

async function showCandidates(holder, me, rule) {
  try {
    const { candidates } = await all("candidates", "candidates");
    const list = candidates.filter((c) => !rule || c.rule === rule);
    if (!list.length) return;
    const found = await switches();
    const t = table("Candidate limits beside those in force", [...candidateColumns, { label: "Switch" }]);
    put(t.rows, list.map((c) => h("tr", null, h("th", { scope: "row" }, h("a", { href: `#/rules/${encodeURIComponent(c.rule)}` }, c.rule)), h("td", null, c.limits), h("td", null, c.candidate),
      h("td", null, c.rolled_back_at ? pill("denied", "rolled back", c.rolled_back_at) : c.percent ? `${c.percent} %` : "trial", c.tenants?.length ? ` and ${c.tenants.length} tenants` : ""),
      [c.decided, c.denied, c.candidate_denied].map((n) => h("td", { class: "num" }, count(n))), h("td", { class: "num" }, `${count(c.added)} (${about(c.added_percent)} %)`), h("td", { class: "num" }, count(c.avoided)),
      h("td", null, control(`candidate:${c.rule}`, `the candidate of ${c.rule}`, found, me, () => showCandidates(holder, me, rule))))));
    put(holder, panel("Candidates", { more: h("span", { class: "muted" }, `over the last ${seconds(Math.max(...list.map((c) => c.over_seconds)))}`) }, t.element));
  } catch (problem) {
    if (problem.status !== 401) put(holder, failed(problem));
  }
}

function one(root, me, name) {
  const facts = h("div", null, loading("the rule"));
  const holder = h("div");
  const candidates = h("div");
  const exact = h("div");
  const raises = raised(name, me);
  const points = [];
  const drawn = chart({ title: "What the limits of this rule said, per second", about: "What the limits of this rule said per second", format: about, series: [
    { name: "allowed", tone: "allowed", area: true, of: (p) => allowed(p) },
    { name: "denied", tone: "denied", of: (p) => denied(p) },
    { name: "in shadow", tone: "shadow", of: (p) => p.shadow_denied },
  ] });
  const t = table("Outcomes of this rule", [{ label: "Outcome" }, { label: "Per second", num: true }, { label: "Since start", num: true }]);
  const show = keyed(t.rows, ([key]) => key, ([key, label]) => {
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
      put(facts, h("dl", { class: "facts wide" }, [["Domain", rule.domain], ["Matches", rule.path.length ? rule.path.map((step, i) => [i ? " › " : "", h("code", null, step)]) : "every request of the domain"],
        ["Limits", rule.limits.length ? h("ul", { class: "plain" }, rule.limits.map((l) => h("li", null, l.limit, l.role === "main" ? null : [" ", pill("plain", roles[l.role] ?? l.role)], l.name ? h("span", { class: "muted" }, ` ${l.name}`) : null))) : mainLimits(rule)],
        ["Soft limit", rule.soft_limit], ["Candidate", rule.candidate], ["Schedule", rule.schedule?.join("; ")], ["Now", rule.now], ["Priority", rule.priority], ["Cost", rule.cost], ["Store away", `failure mode ${rule.failure}`],
        ["Valid", [rule.valid_from ? ["from ", time(rule.valid_from)] : null, rule.valid_until ? [" until ", time(rule.valid_until)] : null].filter(Boolean)], ["Also", rule.summary.split("; ").slice(rule.limits.length || 1).join("; ")],
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
    h("div", { class: "column" }, panel("Switch", {}, holder), raises.byHand, panel("Accuracy", { more: h("a", { href: "#/accuracy" }, "All rules") }, exact))), raises.hot, candidates);
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
    show(outcomeRows.map(([key, label]) => [key, label, r]));
  })];
  return () => ends.forEach((end) => end());
}

export function show(root, { parts, me }) {
  return parts.length ? one(root, me, parts[0]) : list(root, me);
}

