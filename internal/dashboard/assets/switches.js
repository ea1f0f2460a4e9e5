// Switches of rules, tenants and everything: shown, set and removed.

import { h, put } from "./dom.js";
import { all, change, versioned } from "./api.js";
import { choice, edit, expiry, field, pill, refocus } from "./parts.js";
import { day, none, time } from "./format.js";
import { live } from "./live.js";

const words = {
  on: ["allowed", "on", "enforced, whatever the rule says"],
  shadow: ["shadow", "shadow", "counts and reports, denies nothing"],
  off: ["warn", "off", "does not count and does not deny"],
  raised: ["warn", "raised", "quota and burst are larger"],
};

// switches returns all by their targets. Where there is no database there are none, and
// problem says so.
export async function switches() {
  try {
    const { switches: list } = await all("switches", "switches");
    return { byTarget: new Map(list.map((s) => [s.target, s])), problem: null };
  } catch (problem) {
    return { byTarget: new Map(), problem };
  }
}

// stateOf shows a switch.
export function stateOf(s) {
  if (s.invalid) return pill("denied", "not valid", s.invalid);
  const [tone, name, about] = words[s.switch.state] ?? ["warn", s.switch.state, ""];
  if (!s.in_force) return h("span", { class: "muted" }, `${name}, ended`);
  const { percent, tenants, until, reason, raise } = s.switch;
  const whose = tenants?.length === 1 ? "1 tenant" : `${tenants?.length} tenants`;
  const part = [percent ? `${percent} %` : "", tenants?.length ? whose : ""].filter(Boolean).join(" and ");
  return h("span", null, pill(tone, `${name}${raise ? ` by ${raise} %` : ""}${part ? ` for ${part}` : ""}`, about), until ? h("span", { class: "muted" }, " until ", time(until)) : null,
    reason ? h("span", { class: "muted" }, ` ${reason}`) : null);
}

// followers says who obeys a switch, as far as this node knows.
export function followers(o) {
  const nodes = o?.live_nodes ?? 1;
  if (nodes < 2) return "This node follows within two seconds.";
  return `Nodes that share this database or store follow within two seconds; the column Switches of the fleet shows which of the ${nodes} have.`;
}

const describe = (s) => (s?.switch?.state ? `${s.switch.state}${s.switch.until ? ` until ${day(s.switch.until)}` : ""}${s.switch.reason ? `: ${s.switch.reason}` : ""}${s.in_force ? "" : " (ended)"}` : "no switch");

// maySwitch reports whether a scope reaches for a target.
export function maySwitch(me, target) {
  return me.scope === "admin" || (me.scope === "write" && target.startsWith("tenant:"));
}

// setSwitch asks what to switch a target to, and does it. It resolves to true when
// something was changed.
export async function setSwitch(target, what) {
  const path = `switches/${encodeURIComponent(target)}`;
  const read = () => versioned(path);
  const there = await read();
  const state = choice([["shadow", "shadow: counts and reports, denies nothing"], ["off", "off: does not count and does not deny"], ["on", "on: enforced, also where the rule says shadow"]], there.data?.switch?.state ?? "shadow");
  const until = expiry("How long");
  const reason = h("input", { type: "text", maxlength: 200, value: there.data?.switch?.reason ?? "", placeholder: "for those who come after you" });
  const result = await edit({
    title: `Switch ${what}`,
    say: `${followers(live.overview)} Counts are kept.`,
    fields: [field("State", state), until.element, field("Reason", reason)],
    confirm: "Switch it",
    danger: target === "all",
    now: async () => describe((await read()).data),
    plan() {
      const body = { state: state.value };
      const end = until.until();
      if (end) body.until = end;
      if (reason.value.trim()) body.reason = reason.value.trim();
      // A canary stays one: this dialog does not ask for its share.
      for (const name of ["percent", "tenants"]) if (there.data?.switch?.[name]) body[name] = there.data.switch[name];
      return {
        changes: [{ what: "Switch", before: describe(there.data), after: describe({ switch: body, in_force: true }) }],
        warn: target === "all" ? "This is for all rules of all domains, on all nodes that share this database or store." : null,
        words: `Switched: ${what} is ${state.value}.`,
        send: () => change("PUT", path, body, there.etag),
      };
    },
  });
  return result === "again" ? setSwitch(target, what) : Boolean(result);
}

// remover returns what removes a switch once somebody has confirmed it; before says what it
// is of one that is there.
export function remover({ title, confirm, thing, before, after, done }) {
  return async function remove(target, what) {
    const path = `switches/${encodeURIComponent(target)}`;
    const there = await versioned(path);
    if (!there.data) return true;
    const result = await edit({
      title: `${title} ${what}`,
      confirm,
      now: async () => before((await versioned(path)).data),
      plan: () => ({
        changes: [{ what: thing, before: before(there.data), after }],
        words: `${what[0].toUpperCase()}${what.slice(1)}: ${done}.`,
        send: () => change("DELETE", path, null, there.etag),
      }),
    });
    return result === "again" ? remove(target, what) : Boolean(result);
  };
}

const acts = {
  set: { words: "Switch", does: setSwitch },
  remove: { words: "Remove switch", of: "Remove switch of", does: remover({ title: "Remove the switch of", confirm: "Remove switch", thing: "Switch", before: describe, after: "none: the rules decide", done: "the switch is removed" }) },
  none: "no switch",
};

// control shows a switch and, to those who may, what can be done to it. changed is called
// after that; what can be done is the acts.
export function control(target, what, found, me, changed, { set, remove, none: nothing } = acts) {
  const there = found.byTarget.get(target);
  const holder = h("div", { class: "control" });
  const run = (act) => async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      if (await act(target, what)) await changed();
    } catch (problem) {
      put(holder, h("span", { class: "tone-denied", role: "alert" }, problem.message));
    } finally {
      button.disabled = false;
      refocus(button);
    }
  };
  const may = maySwitch(me, target);
  const why = found.problem ? found.problem.message : may ? null : `It takes the scope ${target.startsWith("tenant:") ? "write" : "admin"}; yours is ${me.scope}.`;
  put(holder, h("span", null, there ? stateOf(there) : h("span", { class: "muted" }, nothing)),
    h("span", { class: "actions" },
      h("button", { type: "button", disabled: Boolean(why), title: why, "aria-label": `${set.words} ${what}`, onclick: run(set.does) }, set.words),
      there ? h("button", { type: "button", class: "quiet", disabled: Boolean(why), title: why, "aria-label": `${remove.of} ${what}`, onclick: run(remove.does) }, remove.words) : null));
  return holder;
}

// byWhom says who has switched and when.
export function byWhom(s) {
  return s ? h("span", { class: "muted" }, "by ", s.updated_by, ", ", time(s.updated_at)) : none;
}
