// Keys, as all pages show them.

import { h, put, text } from "./dom.js";
import { about, count, none, percent } from "./format.js";
import { isCut, parse } from "./descriptor.js";
import { several } from "./nodes.js";
import { ruleIndex, tenantOf } from "./ruleindex.js";

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

// keyRow is the row of a key: so many columns as there are of keyColumns; in the last one is
// what can be done with it, and what acts(index, rule, domain, key) returns.
export function keyRow(key, columns = 4, acts = () => null) {
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
      " ", h("a", { href: `#/events?${new URLSearchParams({ key: named || key.hash, rule: key.rule, ...(several() ? { of: "all" } : {}) })}`, "aria-label": `Events of ${named || key.hash}` }, "Events"), " ", acts(index, key.rule, domain, named));
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
