// The log of changes: who has changed what, and what it was before.

import { h, put } from "./dom.js";
import { get } from "./api.js";
import { exportButton } from "./csv.js";
import { live } from "./live.js";
import { choice, empty, failed, field, loading, panel, table } from "./parts.js";
import { count, none, time } from "./format.js";

export const lead = "What was changed in the database: each change is chained to the one before by a hash, which headgate quota log --verify checks.";

const page = 200; // changes at once
const columns = [{ label: "Time" }, { label: "Who" }, { label: "What" }, { label: "Name" }, { label: "Before" }, { label: "After" }];
const kinds = [["", "all"], ["account", "accounts"], ["rules", "rules"], ["rule_row", "rows of rules"], ["tiers", "tiers"], ["switch", "switches"], ["action", "actions"]];
const longest = 160;

// words are a value in one line; what is longer opens.
function words(value) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, none);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text.length <= longest) return h("code", { class: "key" }, text);
  return h("details", null, h("summary", null, h("code", { class: "key" }, `${text.slice(0, longest)}…`)), h("pre", null, typeof value === "string" ? value : JSON.stringify(value, null, 2)));
}

// latest is the version of the last change, as far as the node has read the database.
const latest = ({ health: { tenants, documents } }) => Math.max(Number(tenants?.version ?? 0), Number(documents?.version ?? 0));

export function show(root) {
  const kind = choice(kinds, "", { "data-search": true });
  const holder = h("div", null, loading("changes"));
  const older = h("button", { type: "button", hidden: true }, "Older ones");
  const said = h("span", { class: "muted" });
  let list = [];
  let from = null; // the first version that was asked for
  const draw = () => {
    const shown = list.filter((c) => !kind.value || c.kind === kind.value);
    put(said, `${count(shown.length)} of the versions ${count(from + 1)} and later`);
    older.hidden = from === 0;
    if (!shown.length) return put(holder, empty("No such change.", from ? "Older ones may be." : undefined));
    const t = table("Changes, the latest first", columns);
    put(t.rows, shown.map((c) => h("tr", null, h("th", { scope: "row" }, time(c.at)), h("td", null, c.actor), h("td", null, c.kind.replaceAll("_", " ")), h("td", null, h("span", { class: "key" }, c.name)), h("td", null, words(c.before)), h("td", null, words(c.after)))));
    put(holder, t.element);
  };
  // read reads what is after a version, to a version or to the end.
  const read = async (after, to = Infinity) => {
    const found = [];
    for (let next = after; next !== undefined; ) {
      const { changes, next_after: more } = await get("changes", { after: next, limit: page });
      found.push(...changes.filter((c) => c.version <= to));
      next = more !== undefined && more < to ? more : undefined;
    }
    return found.reverse();
  };
  const load = async () => {
    try {
      from = Math.max(0, (live.overview ? latest(live.overview) : 0) - page);
      list = await read(from);
      draw();
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  older.addEventListener("click", async () => {
    const to = from;
    try {
      from = Math.max(0, from - page);
      list.push(...(await read(from, to)));
      draw();
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  });
  kind.addEventListener("change", draw);
  const csv = exportButton("changes", () => ({ names: ["version", "at", "actor", "kind", "name", "before", "after", "hash"], rows: list.filter((c) => !kind.value || c.kind === kind.value).map((c) => [c.version, c.at, c.actor, c.kind, c.name, JSON.stringify(c.before), JSON.stringify(c.after), c.hash]) }));
  put(root, h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, field("Kind", kind), csv), panel("Changes", { more: said }, holder, h("div", { class: "actions" }, older)));
  load();
}
