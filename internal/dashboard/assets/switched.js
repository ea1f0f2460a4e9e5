// All switches: those in force, and those that have ended.

import { h, put } from "./dom.js";
import { targetWords } from "./alerts.js";
import { empty, every, failed, loading, panel, table } from "./parts.js";
import { acts as raises } from "./raise.js";
import { accountOf } from "./ruleindex.js";
import { byWhom, control, switches } from "./switches.js";

export const lead = "What operators have switched, on the nodes that share this database or store.";

// pageOf is the address of what a switch is for.
function pageOf(target) {
  const [kind, name, ...rest] = target.split(":");
  return kind === "tenant" ? `#/tenants/${encodeURIComponent(accountOf(name, rest.join(":")))}` : `#/rules/${encodeURIComponent([name, ...rest].join(":"))}`;
}

const columns = [{ label: "Of" }, { label: "Switch" }, { label: "By" }];

export function show(root, { me }) {
  const holder = h("div", null, loading("switches"));
  const everything = h("div");
  let drawn = "";
  const load = async () => {
    const found = await switches();
    if (found.problem) {
      if (found.problem.status !== 401) put(holder, failed(found.problem, load));
      return;
    }
    const now = JSON.stringify([...found.byTarget]);
    if (now === drawn) return; // what has the focus keeps it
    drawn = now;
    put(everything, control("all", "everything", found, me, load));
    const list = [...found.byTarget.values()].filter((s) => s.target !== "all").sort((a, b) => b.in_force - a.in_force || (a.target < b.target ? -1 : 1));
    if (!list.length) return put(holder, empty("Nothing is switched.", "Rules, candidates and tenants are switched on their pages."));
    const t = table("Switches", columns);
    put(t.rows, list.map((s) => h("tr", { class: s.in_force ? null : "old" },
      h("th", { scope: "row" }, h("a", { href: pageOf(s.target) }, targetWords(s.target)), s.known === false ? h("span", { class: "muted" }, " is no rule in force here") : null),
      h("td", null, control(s.target, targetWords(s.target), found, me, load, s.target.startsWith("raise:") ? raises : undefined)), h("td", null, byWhom(s)))));
    put(holder, t.element);
  };
  put(root, panel("Everything", {}, everything), panel("Switches", {}, holder));
  return every(5000, load);
}
