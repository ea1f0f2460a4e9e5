// The keys with the most denials and the most requests.

import { h, put, text, attr, keyed, id } from "./dom.js";
import { get } from "./api.js";
import { choice, empty, every, failed, field, loading, notice, refocus, table } from "./parts.js";
import { about, count, none, percent } from "./format.js";
import { isCut, parse } from "./descriptor.js";
import { setRaise } from "./raise.js";
import { raisedFor, ruleIndex, tenantOf } from "./rules.js";
import { maySwitch } from "./switches.js";

export const lead = "Counts are of the last minutes and fade. Each is right to within the error beside it.";

export const keyColumns = [
  { label: "Key" },
  { label: "Rule" },
  { label: "Denied", num: true, hint: "Requests that were denied in the last minutes" },
  { label: "Requests", num: true, hint: "Requests in the last minutes, denied ones too" },
  { label: "Share denied", num: true },
  { label: "± error", num: true, hint: "How far the counts may be off" },
  { label: "" },
];

// keyName is a key for who may see it, else its hash.
export function keyName(key, hash) {
  if (key) return h("code", { class: "key", title: key }, key);
  return h("code", { class: "key hash", title: "A hash: your scope may not see the key, or another node has seen it" }, hash || none);
}

// explainLink leads to how a request with that key is decided.
export function explainLink(domain, key) {
  if (!domain || !key || isCut(key)) return null;
  try {
    parse(key);
  } catch {
    return null;
  }
  return `#/explain?${new URLSearchParams({ domain, d: key })}`;
}

// Counts are whole from one on, though they fade.
const requests = (n) => (n >= 1 ? count(Math.round(n)) : about(n));

// raiseButton raises the limit of a key; null for who may not.
function raiseButton(index, rule, domain, key, me) {
  const entry = index && key ? raisedFor(index, domain, key) : "";
  if (!entry || !maySwitch(me, `raise:${rule}`)) return null;
  const raise = async ({ currentTarget: button }) => {
    button.disabled = true;
    await setRaise(rule, entry).catch((problem) => notice(problem.message, "denied"));
    button.disabled = false;
    refocus(button);
  };
  return h("button", { type: "button", class: "quiet", "aria-label": `Raise the limit of ${key}`, onclick: raise }, "Raise");
}

// keyRow is the row of a key: so many columns as there are of keyColumns; in the last one is
// what me may do with it.
export function keyRow(key, columns = 4, me = {}) {
  const cells = Array.from({ length: Math.min(columns, 6) - 2 }, () => h("td", { class: "num" }));
  const name = h("th", { scope: "row" }, keyName(key.key, key.hash));
  const more = columns > 6 ? h("td", { class: "links" }) : null;
  const element = h("tr", null, name, h("td", null, h("a", { href: `#/rules/${encodeURIComponent(key.rule)}` }, key.rule)), cells, more);
  let named = key.key;
  const link = async () => {
    const index = await ruleIndex().catch(() => null);
    const domain = index?.byID.get(key.rule)?.domain;
    const address = explainLink(domain, named);
    const tenant = named && index ? tenantOf(index, domain, named) : null;
    if (more) put(more, address ? h("a", { href: address, "aria-label": `Explain ${named}` }, "Explain") : null, tenant ? [" ", h("a", { href: `#/tenants/${encodeURIComponent(tenant)}`, "aria-label": `Tenant ${tenant}` }, "Tenant")] : null,
      " ", h("a", { href: `#/events?${new URLSearchParams({ key: named || key.hash, rule: key.rule })}`, "aria-label": `Events of ${named || key.hash}` }, "Events"), " ", raiseButton(index, key.rule, domain, named, me));
    else if (address) put(name, h("a", { href: address }, keyName(named, key.hash)));
  };
  link();
  return {
    element,
    update(k) {
      if (k.key && k.key !== named) {
        named = k.key;
        put(name, keyName(k.key, k.hash));
        link();
      }
      [requests(k.denied), requests(k.total), percent(k.total > 0 ? k.denied / k.total : 0), `± ${requests(k.error)}`].slice(0, cells.length).forEach((words, i) => text(cells[i], words));
    },
  };
}

const refresh = 2000;
const shown = 50;

export function show(root, { query, me }) {
  const by = choice([["denied", "denials"], ["total", "all requests"]], query.get("by") ?? "denied");
  const rule = choice([["", "all rules"]], "", { "data-search": true });
  const fleet = h("input", { type: "checkbox", id: id("fleet"), checked: query.get("fleet") === "true" });
  const pause = h("button", { type: "button", "aria-pressed": "false", "data-pause": true }, "Pause");
  const t = table("Keys with the most requests", keyColumns);
  const said = h("p", { class: "muted" });
  const holder = h("div", null, loading("keys"));
  const render = keyed(t.rows, (k) => `${k.rule} ${k.hash}`, (k) => keyRow(k, keyColumns.length, me));
  let paused = false;

  const load = async () => {
    if (paused) return;
    try {
      const list = await get("keys", { by: by.value, rule: rule.value, limit: shown, fleet: fleet.checked && "true" });
      const keys = list.keys.filter((k) => by.value === "total" || k.denied > 0);
      text(said, `${count(keys.length)} keys of ${list.nodes === 1 ? "this node" : `${count(list.nodes)} nodes`}, by ${by.value === "denied" ? "denials" : "requests"}`);
      if (!keys.length) put(holder, by.value === "denied" ? empty("No key was denied in the last minutes.", "Order by all requests to see who asks the most.") : empty("No request was counted in the last minutes."));
      else if (t.element.parentNode !== holder) put(holder, t.element);
      render(keys);
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  const changed = () => {
    const wanted = new URLSearchParams();
    if (by.value !== "denied") wanted.set("by", by.value);
    if (rule.value) wanted.set("rule", rule.value);
    if (fleet.checked) wanted.set("fleet", "true");
    history.replaceState(null, "", `#/keys${wanted.size ? `?${wanted}` : ""}`);
    load();
  };
  for (const control of [by, rule, fleet]) control.addEventListener("change", changed);
  pause.addEventListener("click", () => {
    paused = !paused;
    attr(pause, "aria-pressed", String(paused));
    text(pause, paused ? "Resume" : "Pause");
    load();
  });
  ruleIndex().then((index) => {
    rule.append(...[...index.byID.keys()].map((name) => h("option", { value: name }, name)));
    rule.value = query.get("rule") ?? "";
    if (query.get("rule")) load();
  }).catch(() => {});

  put(root, h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, field("Order by", by), field("Rule", rule),
    h("div", { class: "field check" }, fleet, h("label", { for: fleet.id }, "Of all nodes")), pause),
  me.names === false ? h("p", { class: "note" }, "Your scope is read: keys are shown as hashes. The scopes write and admin see names.") : null,
  h("div", { class: "panel" }, said, holder));
  return every(refresh, load);
}
