// Limits that are recommended for a rule, by the requests of the last hour.

import { h, put } from "./dom.js";
import { post } from "./api.js";
import { hand } from "./draft.js";
import { empty, field, loading, panel, problems, table } from "./parts.js";
import { count, percent, time } from "./format.js";
import { nodesOf } from "./nodeevents.js";

const usual = { headRoom: 20, mayHit: 1 }; // per cent, as the API has them

// shareOf is a share of what there is, "–" of nothing.
const shareOf = (n, of) => percent(of ? n / of : null);

// limitsOf shows the limits of an answer.
function limitsOf(v) {
  const t = table("Recommended limits", [{ label: "Limit" }, { label: "Keys", num: true }, { label: "p50", num: true }, { label: "p90", num: true }, { label: "p95", num: true }, { label: "p99", num: true }, { label: "Max", num: true },
    { label: "Keys hit now", num: true }, { label: "Recommended", num: true }, { label: "Keys hit then", num: true }, { label: "Requests denied then", num: true }]);
  const effect = (e) => [shareOf(e?.keys_hit, e?.keys), shareOf(e?.denied, e?.requests)];
  put(t.rows, v.limits.map((l) => h("tr", null, h("th", { scope: "row" }, l.limit), [count(l.keys), ...["p50", "p90", "p95", "p99", "max"].map((p) => count(l.needs[p])), effect(l.now)[0]].map((w) => h("td", { class: "num" }, w)),
    h("td", { class: "num" }, l.recommended ? h("b", { class: "recommended" }, count(l.recommended)) : "–"), effect(l.then).map((w) => h("td", { class: "num" }, w)))));
  return t.element;
}

// opener opens the draft of an answer in the editor.
function opener(v, name) {
  if (!v.draft) return h("p", { class: "note" }, v.no_draft ? `No candidate can be written: ${v.no_draft.replace("; hint:", ". Hint:")}.` : "The limits are as recommended, or nothing is recommended: there is no candidate to try out.");
  const kind = v.draft.document ? "document" : "file";
  const stands = v.draft.document ?? v.draft.file;
  return h("div", { class: "actions" }, h("button", { type: "button", class: "main", onclick: () => {
    hand(kind, stands, { text: v.draft.text, version: v.draft.version ?? 0, about: `A candidate for ${name}, as recommended, stands in the text.` });
    location.hash = `#/edit/${kind}/${encodeURIComponent(stands)}`;
  } }, "Open as a draft"), h("span", { class: "muted" }, `The candidate stands in ${stands}; nothing is saved yet.`));
}

// recommended is a panel that recommends limits for a rule.
export function recommended(name, me) {
  const outcome = h("div", { "aria-live": "polite" });
  const room = h("input", { type: "number", min: 0, max: 900, step: 0.1, required: true, value: usual.headRoom });
  const hit = h("input", { type: "number", min: 0, max: 50, step: 0.001, required: true, value: usual.mayHit });
  const ask = h("button", { type: "submit" }, "Recommend a limit");
  const may = me.scope === "admin";
  const look = async (partial) => {
    put(outcome, loading("the recommendation"));
    ask.disabled = true;
    try {
      show(await post("rules/recommend", { rule: name, head_room_thousandths: Math.round(Number(room.value) * 10), may_hit_thousandths_of_percent: Math.round(Number(hit.value) * 1000), ...(partial ? { partial } : {}) }));
    } catch (problem) {
      if (problem.status !== 401) put(outcome, problems(problem));
    }
    ask.disabled = false;
  };
  const show = (v) => {
    if (v.unknown) {
      return put(outcome, empty(`Nothing can be recommended: ${v.unknown}.`), v.lacking ? h("div", { class: "actions" }, h("button", { type: "button", onclick: () => look(true) }, "Recommend by what there is")) : null, nodesOf(v.nodes));
    }
    const events = v.nodes.reduce((sum, n) => sum + n.events, 0);
    const there = v.nodes.filter((n) => !n.unknown).length;
    put(outcome, h("p", null, "Of ", h("b", { class: "of" }, count(events)), ` events of ${there === 1 ? "one node" : `${count(there)} nodes`}, from `, time(v.from), " to ", time(v.until), "."), limitsOf(v), nodesOf(v.nodes),
      h("ul", { class: "muted" }, [...v.notes, v.cut ? "Nodes remember more: only the latest 20,000 requests are in it, and only those of the time of which all nodes have told." : null,
        "An hour shows few peaks: headgate recommend takes what was recorded over weeks."].filter(Boolean).map((n) => h("li", null, n))), opener(v, name));
  };
  return panel("Recommended limit", {}, h("p", { class: "muted" }, "What the keys of this rule needed in the last hour, and the limit that would be enough for nearly all of them."),
    h("form", { class: "filters", onsubmit: (event) => {
      event.preventDefault();
      look(false);
    } }, may ? [field("Head-room, %", room), field("Keys that may be hit, %", hit)] : null, may ? ask : h("p", { class: "note" }, `It takes the scope admin; yours is ${me.scope}.`)), outcome);
}
