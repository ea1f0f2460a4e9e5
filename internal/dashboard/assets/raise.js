// Limits that are raised for a time: by operators, and by rules whose keys have become hot.

import { h, put } from "./dom.js";
import { get, versioned, change } from "./api.js";
import { edit, empty, every, expiry, failed, field, panel, table } from "./parts.js";
import { control, remover, stateOf, switches } from "./switches.js";
import { day, time, version } from "./format.js";

const targetOf = (rule) => `raise:${rule}`;
const describe = (s) => (s?.switch?.state ? `raised by ${s.switch.raise} %${s.switch.tenants?.length ? ` for ${s.switch.tenants.join(", ")}` : " for all keys"} until ${day(s.switch.until)}${s.in_force ? "" : " (ended)"}` : "not raised");

// setRaise asks by how much the limits of a rule are raised, for whom and for how long, and
// does it. entry is suggested as for whom; "" suggests all. It resolves to true when
// something was changed.
export async function setRaise(rule, entry = "") {
  const path = `switches/${encodeURIComponent(targetOf(rule))}`;
  const read = () => versioned(path);
  const there = await read();
  const by = h("input", { type: "number", min: 1, max: 100, step: 1, required: true, value: there.data?.switch?.raise ?? 20 });
  const others = (there.data?.in_force && there.data.switch.tenants) || [];
  const keys = h("input", { type: "text", value: [...new Set([...others, entry])].filter(Boolean).join(", "), placeholder: "all keys" });
  const until = expiry("How long", "1800", { ever: false });
  const reason = h("input", { type: "text", maxlength: 200, value: there.data?.switch?.reason ?? "", placeholder: "for those who come after you" });
  const result = await edit({
    title: `Raise the limit of ${rule}`,
    say: "Quota and burst are larger for a time, on the nodes that share this database or store within two seconds. What was used counts on.",
    fields: [field("By how many per cent", by), field("For", keys, "entries of the key, such as user:ann, with commas between; empty for all keys"), until.element, field("Reason", reason)],
    confirm: "Raise it",
    now: async () => describe((await read()).data),
    plan() {
      const body = { state: "raised", raise: Number(by.value), until: until.until() };
      const tenants = keys.value.split(",").map((k) => k.trim()).filter(Boolean);
      if (tenants.length) body.tenants = tenants;
      if (reason.value.trim()) body.reason = reason.value.trim();
      return {
        changes: [{ what: "Limit", before: describe(there.data), after: describe({ switch: body, in_force: true }) }],
        warn: tenants.length ? null : "This is for all keys of the rule, on all nodes that share this database or store.",
        words: `The limit of ${rule} is raised by ${body.raise} %.`,
        send: () => change("PUT", path, body, there.etag),
      };
    },
  });
  return result === "again" ? setRaise(rule, entry) : Boolean(result);
}

// acts are what can be done to a raise, as control has it.
export const acts = {
  set: { words: "Raise", does: (target) => setRaise(target.slice(targetOf("").length)) },
  remove: { words: "End the raise", of: "End the raise of", does: remover({ title: "End the raise of", confirm: "End it", thing: "Limit", before: describe, after: "as the rule says", done: "not raised any more" }) },
  none: "not raised",
};

const hotColumns = [{ label: "Key" }, { label: "By", num: true }, { label: "Until" }, { label: "Again from", hint: "It is not raised again before" }, { label: "Found by" }];

// raised shows what is raised of a rule: by hand in a panel that is always there, and by
// the rule itself in one that is there when anything is.
export function raised(rule, me) {
  const byHand = h("div");
  const hot = h("div");
  const load = async () => {
    const found = await switches();
    const s = found.byTarget.get(targetOf(rule));
    put(byHand, control(targetOf(rule), `the limit of ${rule}`, found, me, load, acts), s?.switch?.tenants?.length ? h("p", { class: "muted" }, "For ", h("code", null, s.switch.tenants.join(", "))) : null);
  };
  const look = async () => {
    try {
      const list = (await get("hot-raises")).raises.filter((r) => r.rule === rule);
      if (!list.length) return put(hot);
      const t = table("Hot keys that the rule raises by itself", hotColumns);
      put(t.rows, list.map((r) => h("tr", null, h("th", { scope: "row" }, h("code", { class: "key hash", title: r.key_hash }, version(r.key_hash))), h("td", { class: "num" }, `${r.raise} %`), h("td", null, time(r.until)), h("td", null, time(r.not_again_before)), h("td", null, r.node))));
      put(hot, panel("Hot keys", { more: h("span", { class: "muted" }, "raised by the rule itself") }, t.element));
    } catch (problem) {
      if (problem.status === 404) put(hot);
      else if (problem.status !== 401) put(hot, failed(problem, look));
    }
  };
  load();
  return { byHand: panel("Raised", {}, byHand), hot, end: every(5000, look) };
}
