// One tenant: its tier, its quotas, what it has used, its top-ups and its switch.

import { h, put } from "./dom.js";
import { change, get, post, versioned } from "./api.js";
import { copyButton } from "./copy.js";
import { live, on } from "./live.js";
import { choice, edit, empty, every, expiry, failed, field, loading, noDatabase, panel, pill, refocus, stale, table, usage } from "./parts.js";
import { count, day, limit, limits, none, time } from "./format.js";
import { control, switches } from "./switches.js";

export const title = ([name]) => name;

// targetOf is what a switch of a tenant is for.
function targetOf(name) {
  const [kind, ...rest] = name.split(":");
  if (kind === "hash") return `tenant:api_key:${rest.join(":")}`;
  return kind === "entry" ? `tenant:${rest.join(":")}` : `tenant:tenant:${rest.join(":")}`;
}

const units = ["second", "minute", "hour", "day", "week", "month", "year"];
const algorithms = [["", "sliding window (usual)"], ["fixed_window", "fixed window"], ["token_bucket", "token bucket"], ["leaky_bucket", "leaky bucket"], ["leaky_queue", "leaky queue"], ["gcra", "GCRA"], ["sliding_log", "sliding log"], ["sub_windows", "sub-windows"]];

// now is the clock of the node, which decides from when on something counts.
const now = () => live.overview?.at.replace(/\.\d+Z$/, "Z") ?? new Date().toISOString();

const begun = (term) => !term.effective_at || Date.parse(term.effective_at) <= Date.parse(now());
const lasting = (term) => !term.expires_at || Date.parse(term.expires_at) > Date.parse(now());

const lasts = (term) => [term.effective_at ? `from ${day(term.effective_at)}` : "", term.expires_at ? `until ${day(term.expires_at)}` : ""].filter(Boolean).join(" ") || "for ever";

// document is what a PUT sends: all of an account but its top-ups, which stay. Times beside
// the tier would hold for overrides too, so such a tier stands in the list.
function document({ top_ups: _, ...account }) {
  if (!account.effective_at && !account.expires_at) return { ...account };
  const { tier, effective_at, expires_at, tiers, ...rest } = account;
  return { ...rest, tiers: [{ tier, effective_at, expires_at }, ...(tiers ?? [])] };
}

// withOverride puts an override into an account. One that ends stands over what was there,
// which then counts again; one that does not end takes its place.
export function withOverride(account, override) {
  const next = document(account);
  const same = (o) => o.descriptor === override.descriptor;
  const others = (next.overrides ?? []).filter((o) => !same(o) || (override.expires_at ? lasting(o) : !begun(o)));
  const over = others.some((o) => same(o) && begun(o));
  next.overrides = [...others, over ? { ...override, effective_at: now() } : override];
  return next;
}

// withTier is withOverride for the tier.
export function withTier(account, tier) {
  const next = document(account);
  const had = [...(next.tier ? [{ tier: next.tier, effective_at: next.effective_at, expires_at: next.expires_at }] : []), ...(next.tiers ?? [])];
  for (const name of ["tier", "effective_at", "expires_at", "tiers"]) delete next[name];
  const others = had.filter((t) => (tier.expires_at ? lasting(t) : !begun(t)));
  const list = tier.tier ? [...others, others.some(begun) ? { ...tier, effective_at: now() } : tier] : others;
  if (list.length) next.tiers = list;
  return next;
}

const nothingIn = (d) => !d.tier && !d.tiers?.length && !d.overrides?.length;

// storing returns what sends an account as next, for the version that seen, {data, etag},
// is now, when the change is reviewed: what is there when it is sent may be another one.
export function storing(path, seen, next) {
  const { data, etag } = seen;
  const empty = nothingIn(next) && !data?.account?.top_ups?.length && etag;
  return () => (empty ? change("DELETE", path, null, etag) : change("PUT", path, next, etag));
}

// limitsOf are the limits that a quota or an override has, [] where it has none.
const limitsOf = (q) => (!q || q.unlimited ? [] : q.limits?.length ? q.limits : q.requests_per_unit === undefined ? [] : [q]);

const mostLimits = 8;

// withLimits is an override of these limits, as the admin API takes it: one stands in its
// fields, several in a list.
export const withLimits = (descriptor, list) => (list.length === 1 ? { descriptor, ...list[0] } : { descriptor, limits: list });

// limitFields asks for limits, all of which count. list() are those that are given; enable
// has them be given or not.
function limitFields(had) {
  const element = h("div", { class: "limits" });
  const more = h("button", { type: "button", class: "quiet", onclick: () => add({}).focus() }, "Add a limit");
  let rows = [];
  let off = false;
  const shown = () => {
    rows.forEach((r, i) => {
      r.element.setAttribute("aria-label", `Limit ${i + 1}`);
      r.remove.hidden = rows.length === 1;
      for (const control of r.controls) control.disabled = off;
      r.hits.required = r.unit.required = !off;
    });
    more.hidden = rows.length >= mostLimits || off;
  };
  const add = (l) => {
    const hits = h("input", { type: "number", min: 0, step: 1, value: l.requests_per_unit ?? "" });
    const unit = h("input", { type: "text", list: "units", value: l.unit ?? (rows.length ? "hour" : "minute"), autocomplete: "off" });
    const algorithm = choice(algorithms, l.algorithm === "sliding_window" ? "" : l.algorithm ?? "");
    // What follows from the quota, or from how a bucket leaks, is no setting of it.
    const burst = h("input", { type: "number", min: 0, step: 1, value: l.burst && l.burst !== l.requests_per_unit && !l.algorithm?.startsWith("leaky") ? l.burst : "" });
    const remove = h("button", { type: "button", class: "quiet", onclick: () => {
      rows = rows.filter((r) => r !== row);
      row.element.remove();
      shown();
      rows.at(-1).hits.focus();
    } }, "Remove the limit");
    const row = { hits, unit, algorithm, burst, remove, controls: [hits, unit, algorithm, burst, remove],
      element: h("div", { role: "group" }, h("div", { class: "row" }, field("Requests", hits), field("per", unit)),
        h("details", null, h("summary", null, "Algorithm and burst"), h("div", { class: "row" }, field("Algorithm", algorithm), field("Burst", burst, "empty: as many as the quota"))), remove) };
    rows.push(row);
    element.append(row.element);
    shown();
    return hits;
  };
  for (const l of had.length ? had : [{}]) add(l);
  return {
    element: h("div", null, element, h("div", { class: "actions" }, more), h("datalist", { id: "units" }, units.map((u) => h("option", { value: u })))),
    enable(is) {
      off = !is;
      shown();
    },
    list: () => rows.map(({ hits, unit, algorithm, burst }) => {
      const one = { requests_per_unit: Number(hits.value), unit: unit.value.trim() };
      if (algorithm.value) one.algorithm = algorithm.value;
      if (burst.value) one.burst = Number(burst.value);
      return one;
    }),
  };
}

export function show(root, { parts: [name], me }) {
  const path = `quotas/${encodeURIComponent(name)}`;
  const note = h("div");
  const about = h("div", null, loading("the account"));
  const quotas = h("div");
  const used = h("div", null, loading("what was used"));
  const topUps = h("div");
  const switched = h("div");
  const may = me.scope !== "read";
  let account = null; // {data, etag}
  let consumed = null;

  const button = (words, act, label, danger) => h("button", { type: "button", class: danger ? "quiet" : null, disabled: !may, title: may ? null : `It takes the scope write; yours is ${me.scope}.`, "aria-label": label, onclick: async (event) => {
    const button = event.currentTarget;
    try {
      for (let result = "again"; result === "again"; ) {
        result = await act();
        if (result) await load();
      }
    } catch (problem) {
      put(note, failed(problem));
    }
    refocus(button);
  } }, words);

  const kept = () => account.data?.account ?? {};
  const resolved = (descriptor) => (descriptor === "default" ? account.data?.quotas?.default : account.data?.quotas?.overrides.find((q) => q.descriptor === descriptor));
  const there = async () => {
    const is = (await versioned(path)).data;
    if (!is) return "There is no account: the fallback tier counts.";
    return `Version ${is.version} of ${day(is.updated_at)}: tier ${is.tier || none}; default ${limits(is.quotas?.default)}${is.account.overrides?.map((o) => `; ${o.descriptor}: ${limits(o)} ${lasts(o)}`).join("") ?? ""}.`;
  };
  const store = (next) => storing(path, account, next);

  const editQuota = (descriptor) => {
    const was = resolved(descriptor ?? "default") ?? consumed?.usage[descriptor ?? "default"];
    const what = h("input", { type: "text", required: true, value: descriptor ?? "", readOnly: descriptor !== undefined, placeholder: "endpoint:POST /v1/orders", autocomplete: "off" });
    const wanted = limitFields(limitsOf(was));
    const unlimited = h("input", { type: "checkbox", checked: Boolean(was?.unlimited) });
    const until = expiry("How long");
    const shown = () => wanted.enable(!unlimited.checked);
    unlimited.addEventListener("change", shown);
    shown();
    return edit({
      title: descriptor ? `Quota of ${name}: ${descriptor}` : `New quota of ${name}`, say: "Of several limits all count.",
      fields: [field("Descriptor", what, "default is for all that the tenant does"), wanted.element, field("No limit at all", unlimited), until.element],
      now: there,
      plan() {
        const override = unlimited.checked ? { descriptor: what.value.trim(), unlimited: true } : withLimits(what.value.trim(), wanted.list());
        const end = until.until();
        if (end) override.expires_at = end;
        const next = withOverride(kept(), override);
        return {
          changes: [{ what: override.descriptor, before: limits(resolved(override.descriptor) ?? consumed?.usage[override.descriptor]), after: limits(override) }, { what: "Lasts", before: "", after: end ? `until ${day(end)}; then what counts now` : "until it is changed" }],
          words: `The quota of ${name} is ${limits(override)}.`,
          send: store(next),
        };
      },
    });
  };

  const removeOverride = (o) => edit({
    title: `Remove the override of ${o.descriptor} from ${name}`, confirm: "Remove override", danger: true, now: there,
    plan() {
      const next = document(kept());
      const at = next.overrides.findIndex((x) => JSON.stringify(x) === JSON.stringify(o));
      next.overrides = next.overrides.toSpliced(at, 1);
      return { changes: [{ what: o.descriptor, before: `${limits(o)}, ${lasts(o)}`, after: "as the tier or the rule says" }], words: `The override of ${o.descriptor} is removed.`, send: store(next) };
    },
  });

  const editTier = async () => {
    const { tiers, fallback } = await get("tiers");
    const tier = choice([["", `none: the fallback tier ${fallback}`], ...tiers.map((t) => [t.name, t.name])], kept().tier ?? "");
    const until = expiry("How long");
    const describe = (t) => limits(tiers.find((x) => x.name === (t || fallback))?.quotas.find((q) => !q.descriptor || q.descriptor === "default"));
    return edit({
      title: `Tier of ${name}`, fields: [field("Tier", tier), until.element], now: there,
      plan() {
        const end = tier.value ? until.until() : null;
        const next = withTier(kept(), end ? { tier: tier.value, expires_at: end } : { tier: tier.value });
        return {
          changes: [{ what: "Tier", before: account.data?.tier ?? `${fallback} (fallback)`, after: tier.value || `${fallback} (fallback)` }, { what: "Its default quota", before: describe(account.data?.tier), after: describe(tier.value) }, { what: "Lasts", before: "", after: end ? `until ${day(end)}` : "until it is changed" }],
          words: `${name} has the tier ${tier.value || fallback}.`,
          send: store(next),
        };
      },
    });
  };

  const grant = () => {
    const hits = h("input", { type: "number", min: 1, step: 1, required: true });
    const descriptor = h("input", { type: "text", required: true, value: "default", autocomplete: "off" });
    const label = h("input", { type: "text", maxlength: 64, placeholder: "invoice-7", autocomplete: "off" });
    const until = expiry("Until", "2592000");
    const key = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
    return edit({
      title: `Add a top-up for ${name}`, say: "Hits beyond the quota. Each can be used once, where the quota denies.",
      fields: [field("Hits", hits), field("Descriptor", descriptor), field("Id", label, "a top-up is added once, however often it is sent; empty: one is drawn"), until.element],
      plan() {
        const end = until.until();
        if (!end) throw new Error("A top-up has an end; hint: choose until when it lasts");
        const body = { descriptor: descriptor.value.trim(), hits: Number(hits.value), expires_at: end };
        if (label.value.trim()) body.id = label.value.trim();
        return { changes: [{ what: "Top-up", before: none, after: `${count(body.hits)} hits for ${body.descriptor}, until ${day(end)}` }], words: `${name} has a top-up of ${count(body.hits)} hits.`, send: () => post(`${path}/top-ups`, body, { "Idempotency-Key": key }) };
      },
    });
  };

  const removeTopUp = (t) => edit({
    title: `Remove a top-up of ${name}`, confirm: "Remove top-up", danger: true, now: there,
    plan() {
      const { etag } = account;
      return { changes: [{ what: t.id, before: `${count(t.hits)} hits for ${t.descriptor}`, after: "none; what was used of it stays used" }], words: "The top-up is removed.", send: () => change("DELETE", `${path}/top-ups/${encodeURIComponent(t.id)}`, null, etag) };
    },
  });

  const reset = () => edit({
    title: `Reset the usage of ${name}`, confirm: "Reset usage", danger: true,
    plan: () => ({ changes: [{ what: "Used", before: count(consumed?.usage.default?.used), after: "0, of all descriptors in all domains; bans end" }], words: `The usage of ${name} is reset.`, send: () => post(`usage/${encodeURIComponent(name)}/reset`, {}) }),
  });

  const drawAccount = () => {
    const a = account.data;
    put(about, h("dl", { class: "facts" }, [["Name", [h("code", { class: "key" }, name), " ", copyButton("the name of the account", name)]], a && a.api_key !== name ? ["Shown as", a.api_key] : null, ["Tier", a ? a.tier || none : "the fallback tier"], ["Changed", a ? [time(a.updated_at), h("span", { class: "muted" }, ` version ${a.version}`)] : "there is no account yet"]].filter(Boolean).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v)))),
      a?.invalid ? h("p", { class: "note bad" }, `It is not in force: ${a.invalid}`) : null, h("div", { class: "actions" }, button("Change tier", editTier)));
    const t = table("Quotas in force", [{ label: "Descriptor" }, { label: "Quota" }, { label: "Algorithm" }, { label: "From" }, { label: "" }]);
    const list = a?.quotas ? [{ ...a.quotas.default, descriptor: "default" }, ...a.quotas.overrides] : [];
    put(t.rows, list.map((q) => h("tr", null, h("th", { scope: "row" }, h("code", null, q.descriptor)), h("td", { class: "says" }, limits(q)), h("td", { class: "muted" }, q.algorithm?.replaceAll("_", " ") ?? none), h("td", null, pill(q.source === "override" ? "accent" : "plain", q.source)),
      h("td", { class: "links" }, button("Change", () => editQuota(q.descriptor), `Change the quota of ${q.descriptor}`)))));
    const keptTable = table("Stored overrides", [{ label: "Descriptor" }, { label: "Quota" }, { label: "Lasts" }, { label: "" }]);
    const overrides = a?.account.overrides ?? [];
    put(keptTable.rows, overrides.map((o) => h("tr", { class: lasting(o) ? null : "old" }, h("th", { scope: "row" }, h("code", null, o.descriptor)), h("td", { class: "says" }, limits(o)), h("td", null, lasts(o), lasting(o) ? null : [" ", pill("plain", "ended")]), h("td", { class: "links" }, button("Remove override", () => removeOverride(o), `Remove override of ${o.descriptor} that lasts ${lasts(o)}`, true)))));
    put(quotas, list.length ? t.element : empty(account.missing ?? "The fallback tier counts.", "Change the default quota to make an account."),
      h("div", { class: "actions" }, list.length ? null : button("Set the default quota", () => editQuota("default")), button("Add a quota for a descriptor", () => editQuota())),
      overrides.length ? [h("h3", null, "Overrides, past and coming ones too"), keptTable.element] : null);
  };

  const drawUsage = () => {
    const t = table("Usage", [{ label: "Descriptor" }, { label: "Used" }, { label: "Quota" }, { label: "Resets at" }, { label: "By rule" }]);
    const lines = Object.entries(consumed.usage).flatMap(([descriptor, u]) => (u.limits?.length ? u.limits : [u]).map((one) => [descriptor, one]));
    if (consumed.burst_pool) lines.push(["burst pool", consumed.burst_pool]);
    put(t.rows, lines.map(([descriptor, u]) => h("tr", null, h("th", { scope: "row" }, h("code", null, descriptor)), h("td", null, usage(u)), h("td", null, limit(u)), h("td", null, u.reset_at ? time(u.reset_at) : none), h("td", null, u.rule ? h("a", { href: `#/rules/${encodeURIComponent(u.rule)}` }, u.rule) : none, u.local ? h("span", { class: "muted" }, " counts of this node") : null))));
    put(used, stale(consumed.stale_s), lines.length ? t.element : empty("No rule counts by this tenant.", "A rule with tenant: true does."), consumed.cut ? h("p", { class: "muted" }, "There are more descriptors.") : null, h("div", { class: "actions" }, button("Reset usage", reset, undefined, true)));
  };

  const drawTopUps = (list) => {
    const left = new Map((consumed?.top_ups ?? []).map((t) => [t.id, t]));
    const t = table("Top-ups", [{ label: "Id" }, { label: "Descriptor" }, { label: "Used" }, { label: "From" }, { label: "Until" }, { label: "" }]);
    put(t.rows, list.map((u) => h("tr", { class: u.in_force ? null : "old" }, h("th", { scope: "row" }, u.id), h("td", null, h("code", null, u.descriptor)), h("td", null, left.get(u.id)?.used === undefined ? `${count(u.hits)} hits` : usage({ used: left.get(u.id).used, limit: u.hits })), h("td", null, time(u.effective_at)), h("td", null, time(u.expires_at)), h("td", { class: "links" }, button("Remove top-up", () => removeTopUp(u), `Remove top-up ${u.id}`, true)))));
    put(topUps, list.length ? t.element : empty("No top-ups."), h("div", { class: "actions" }, button("Add top-up", grant)));
  };

  const loadSwitch = async () => put(switched, control(targetOf(name), `the tenant ${name}`, await switches(), me, loadSwitch));
  const loadUsage = async () => {
    try {
      consumed = await get(`usage/${encodeURIComponent(name)}`);
      if (!used.contains(globalThis.document.activeElement)) drawUsage();
    } catch (problem) {
      if (problem.status !== 401) put(used, failed(problem, loadUsage));
    }
  };
  const load = async () => {
    try {
      account = await versioned(path);
      drawAccount();
      drawTopUps((await get(`${path}/top-ups`)).top_ups);
    } catch (problem) {
      if (problem.status === 401) return;
      account ??= { data: null, etag: null };
      put(about, failed(problem, load));
      put(quotas, empty("Quotas cannot be read."));
      put(topUps, empty("Top-ups cannot be read."));
    }
    await loadUsage();
  };
  put(root, h("p", null, h("a", { href: "#/tenants" }, "← All tenants"), " · ", h("a", { href: `#/events?${new URLSearchParams({ key: name.split(":").at(-1) })}` }, "Events")), note,
    h("div", { class: "grid two" }, panel("Account", {}, about), panel("Switch", {}, switched)),
    panel("Quotas", {}, quotas), panel("Used", { more: h("span", { class: "muted" }, "every three seconds") }, used), panel("Top-ups", {}, topUps));
  load();
  loadSwitch();
  const ends = [every(3000, async () => account && (await loadUsage())), on("overview", (o) => {
    const words = noDatabase(o, "accounts");
    if (words && !note.childElementCount) put(note, words);
  })];
  return () => ends.forEach((end) => end());
}

