// The settings that a process was started with.

import { h, put, text } from "./dom.js";
import { readdress } from "./address.js";
import { get } from "./api.js";
import { exportButton } from "./csv.js";
import { choice, empty, failed, field, loading, panel, pill, table } from "./parts.js";
import { count, none } from "./format.js";

export const lead = "What the process that answers was started with. They are read once, at start. Passwords are hidden, and so is what stands in files.";

const columns = [{ label: "Setting" }, { label: "Value" }, { label: "From" }, { label: "Default" }];
const froms = [["", "all"], ["given", "given"], ["command line", "command line"], ["environment", "environment"], ["file", "file"], ["default", "default"]];

const origin = (s) => (s.from === "environment" ? `environment: ${(s.variables ?? []).join(" and ")}` : s.from);

// chosen are the settings that a filter leaves.
export function chosen(settings, find, from) {
  const wanted = find.trim().toLowerCase();
  return settings.filter((s) => (!from || s.from === from || (from === "given" && s.from !== "default")) && [s.name, s.value, s.about, ...(s.variables ?? [])].some((t) => t.toLowerCase().includes(wanted)));
}

const row = (s) => h("tr", null, h("th", { scope: "row" }, h("code", { title: s.about }, s.name)), h("td", { class: "says" }, s.value === "" ? h("span", { class: "muted" }, none) : h("code", { class: "key" }, s.value)),
  h("td", null, s.from === "default" ? h("span", { class: "muted" }, s.from) : pill("accent", origin(s))), h("td", { class: "says muted" }, s.default || none));

export function show(root, { query }) {
  const find = h("input", { type: "search", value: query.get("find") ?? "", "data-search": true, placeholder: "a part of a name or value", autocomplete: "off", spellcheck: "false" });
  const from = choice(froms, query.get("from") ?? "");
  const said = h("p", { class: "muted", role: "status" });
  const holder = h("div", { class: "column" }, loading("settings"));
  let is = null;
  const draw = () => {
    const wanted = new URLSearchParams([["find", find.value], ["from", from.value]].filter(([, v]) => v));
    readdress("settings", wanted);
    const list = chosen(is.settings, find.value, from.value);
    text(said, `${count(list.length)} of ${count(is.settings.length)} settings of ${is.command}; ${count(is.settings.filter((s) => s.from !== "default").length)} are given.`);
    if (!list.length) return put(holder, empty("No such setting."));
    put(holder, [...new Set(list.map((s) => s.group))].map((group) => {
      const t = table(group || "Others", columns);
      put(t.rows, list.filter((s) => s.group === group).map(row));
      return panel(group || "Others", {}, t.element);
    }));
  };
  const load = async () => {
    try {
      is = await get("settings");
      draw();
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  for (const control of [find, from]) control.addEventListener("input", () => is && draw());
  put(root, h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, field("Find", find), field("From", from),
    exportButton("settings", () => ({ names: ["name", "value", "from", "variables", "default"], rows: chosen(is?.settings ?? [], find.value, from.value).map((s) => [s.name, s.value, s.from, (s.variables ?? []).join(" "), s.default]) }))), said, holder);
  load();
}
