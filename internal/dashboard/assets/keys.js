// The keys with the most denials and the most requests.

import { h, put, text, attr, keyed } from "./dom.js";
import { readdress } from "./address.js";
import { get } from "./api.js";
import { copyButton } from "./copy.js";
import { exportButton } from "./csv.js";
import { choice, empty, every, failed, field, loading, notice, refocus, table } from "./parts.js";
import { count } from "./format.js";
import { keyColumns, keyRow } from "./keyname.js";
import { picked } from "./nodes.js";
import { setRaise } from "./raise.js";
import { raisedFor, ruleIndex } from "./ruleindex.js";
import { maySwitch } from "./switches.js";

export const lead = "Counts are of the last minutes and fade. Each is right to within the error beside it.";

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

// keysOf are the parameters for the keys of a node, or with "" of all.
const keysOf = (name) => (name ? { node: name } : { fleet: "true" });

// unheard is shown where a node that was picked does not tell of itself.
const unheard = (name) => empty(`${name} is not heard of: its keys are not known.`);

const refresh = 2000;
const shown = 50;

export function show(root, { query, me }) {
  const by = choice([["denied", "denials"], ["total", "all requests"]], query.get("by") ?? "denied");
  const rule = choice([["", "all rules"]], "", { "data-search": true });
  const pause = h("button", { type: "button", "aria-pressed": "false", "data-pause": true }, "Pause");
  const t = table("Keys with the most requests", keyColumns);
  const said = h("p", { class: "muted" });
  const holder = h("div", null, loading("keys"));
  const render = keyed(t.rows, (k) => `${k.rule} ${k.hash}`, (k) => keyRow(k, keyColumns.length, (index, rule, domain, key) => [copyButton(key ? `the key ${key}` : `the hash ${k.hash}`, key || k.hash), " ", raiseButton(index, rule, domain, key, me)]));
  const asTable = () => ({ names: ["rule", "key", "hash", "denied", "requests", "error"], rows: listed.map((k) => [k.rule, k.key, k.hash, k.denied, k.total, k.error]) });
  let listed = [];
  let paused = false;

  const load = async () => {
    if (paused) return;
    try {
      const list = await get("keys", { by: by.value, rule: rule.value, limit: shown, ...keysOf(picked()) });
      const keys = list.keys.filter((k) => by.value === "total" || k.denied > 0);
      text(said, `${count(keys.length)} keys of ${picked() || (list.nodes === 1 ? "this node" : `${count(list.nodes)} nodes`)}, by ${by.value === "denied" ? "denials" : "requests"}`);
      if (!list.nodes) put(holder, unheard(picked()));
      else if (!keys.length) put(holder, by.value === "denied" ? empty("No key was denied in the last minutes.", "Order by all requests to see who asks the most.") : empty("No request was counted in the last minutes."));
      else if (t.element.parentNode !== holder) put(holder, t.element);
      render(keys);
      listed = keys;
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  const changed = () => {
    const wanted = new URLSearchParams();
    if (by.value !== "denied") wanted.set("by", by.value);
    if (rule.value) wanted.set("rule", rule.value);
    readdress("keys", wanted);
    load();
  };
  for (const control of [by, rule]) control.addEventListener("change", changed);
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

  put(root, h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, field("Order by", by), field("Rule", rule), pause, exportButton("keys", asTable)),
  me.names === false ? h("p", { class: "note" }, "Your scope is read: keys are shown as hashes. The scopes write and admin see names.") : null,
  h("div", { class: "panel" }, said, holder));
  return every(refresh, load);
}
