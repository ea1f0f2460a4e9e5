// What rules say of their limits, and how candidates compare with those in force.

import { h, put } from "./dom.js";
import { all } from "./api.js";
import { copyButton } from "./copy.js";
import { failed, panel, pill, table } from "./parts.js";
import { about, count, seconds } from "./format.js";
import { control, switches } from "./switches.js";

// roles are the words for what limits are that are none of the main ones.
export const roles = { ban: "ban", concurrency: "in flight", secondary: "secondary", sustained: "time in flight", candidate: "candidate" };

// mainLimits are the limits of a rule that stand for it.
export const mainLimits = (rule) => (rule.unlimited ? "unlimited" : rule.limits.filter((l) => l.role === "main").map((l) => l.limit).join(" and ") || "no limit of its own");

const candidateColumns = [{ label: "Rule" }, { label: "In force" }, { label: "Candidate" }, { label: "For" }, { label: "Decided", num: true }, { label: "Denied", num: true }, { label: "Candidate denied", num: true },
  { label: "Would newly deny", num: true, hint: "Requests that the candidate alone denies" }, { label: "Would newly allow", num: true }];

// showCandidates shows the candidates of all rules, or of one.
export async function showCandidates(holder, me, rule) {
  try {
    const { candidates } = await all("candidates", "candidates");
    const list = candidates.filter((c) => !rule || c.rule === rule);
    if (!list.length) return;
    const found = await switches();
    const t = table("Candidate limits beside those in force", [...candidateColumns, { label: "Switch" }, { label: "", spoken: "Copy" }]);
    put(t.rows, list.map((c) => h("tr", null, h("th", { scope: "row" }, h("a", { href: `#/rules/${encodeURIComponent(c.rule)}` }, c.rule)), h("td", null, c.limits), h("td", null, c.candidate),
      h("td", null, c.rolled_back_at ? pill("denied", "rolled back", c.rolled_back_at) : c.percent ? `${c.percent} %` : "trial", c.tenants?.length ? ` and ${c.tenants.length} tenants` : ""),
      [c.decided, c.denied, c.candidate_denied].map((n) => h("td", { class: "num" }, count(n))), h("td", { class: "num" }, `${count(c.added)} (${about(c.added_percent)} %)`), h("td", { class: "num" }, count(c.avoided)),
      h("td", null, control(`candidate:${c.rule}`, `the candidate of ${c.rule}`, found, me, () => showCandidates(holder, me, rule))), h("td", { class: "links" }, copyButton(`what the candidate of ${c.rule} changes`, `${c.rule}\n- ${c.limits}\n+ ${c.candidate}\n`)))));
    put(holder, panel("Candidates", { more: h("span", { class: "muted" }, `over the last ${seconds(Math.max(...list.map((c) => c.over_seconds)))}`) }, t.element));
  } catch (problem) {
    if (problem.status !== 401) put(holder, failed(problem));
  }
}
