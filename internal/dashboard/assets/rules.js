// The rules of this node: what they say, what they do, and what is switched.

import { h, put, text } from "./dom.js";
import { allowed, denied, limitsCounted } from "./counts.js";
import { mainLimits, roles, showCandidates } from "./candidates.js";
import { exportButton } from "./csv.js";
import { live, on } from "./live.js";
import { onShown } from "./nodes.js";
import { empty, every, failed, field, loading, panel, pill, table } from "./parts.js";
import { count, none, rate } from "./format.js";
import { ruleIndex } from "./ruleindex.js";
import { control, switches } from "./switches.js";

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

// marks are what else a rule does, in a word each.
function marks(rule) {
  const beside = [...new Set(rule.limits.map((l) => roles[l.role]).filter(Boolean))];
  return [rule.shadow ? pill("shadow", "shadow", "The rule says shadow_mode: true") : null, rule.tenant ? pill("plain", "tenant", "The quotas of tenants count in place of its limit") : null, beside.map((b) => pill("plain", b)),
    rule.schedule ? pill("plain", "schedule", rule.schedule.join("; ")) : null, rule.soft_limit ? pill("plain", "soft limit", rule.soft_limit) : null].flat().filter(Boolean).flatMap((p) => [" ", p]);
}

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

export function show(root, { me }) {
  const search = h("input", { type: "search", "data-search": true, placeholder: "id, file or what it says" });
  const domains = h("div", { class: "column" }, loading("rules"));
  const everything = h("div");
  const note = h("div");
  const candidates = h("div");
  let rows = new Map();
  let groups = [];
  let counts = new Map();
  let found = { byTarget: new Map(), problem: null };

  const counted = (o) => {
    counts = new Map(o.rules.map((r) => [r.id, r]));
    for (const [name, row] of rows) row.count(counts.get(name));
    put(note, h("p", { class: "muted" }, `${limitsCounted}${o.of.length > 1 ? ` The sum of ${count(o.of.length)} nodes.` : ` Of the node ${o.of[0] ?? none}.`}`), found.problem ? h("p", { class: "note" }, `Switches cannot be changed here: ${found.problem.message}`) : null, o.rules_more ? h("p", { class: "muted" }, `Rates are of the ${count(o.rules.length)} busiest rules; ${count(o.rules_more)} more have decided something.`) : null);
  };
  const asTable = () => ({
    names: ["id", "domain", "path", "limits", "shadow", "tenant", "file", "line", "allowed_per_second", "denied_per_second", "shadow_per_second", "denied_since_start"],
    rows: groups.flatMap((g) => g.entries).filter(({ rule }) => !rows.get(rule.id).element.hidden).map(({ rule }) => {
      const r = counts.get(rule.id);
      return [rule.id, rule.domain, rule.path.join(" > "), mainLimits(rule), Boolean(rule.shadow), Boolean(rule.tenant), rule.file, rule.line, ...(r ? [allowed(r.rates), denied(r.rates), r.rates.shadow_denied, denied(r.outcomes)] : ["", "", "", ""])];
    }),
  });
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
  put(root, h("form", { class: "filters", onsubmit: (e) => e.preventDefault() }, field("Find", search), exportButton("rules", asTable)), note, domains, everything, candidates);
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
