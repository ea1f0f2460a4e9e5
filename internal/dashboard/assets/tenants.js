// Accounts of tenants: found by name or tier, with what they may use and have used.

import { h, put } from "./dom.js";
import { readdress } from "./address.js";
import { all, get } from "./api.js";
import { exportButton } from "./csv.js";
import { live, on } from "./live.js";
import { choice, empty, failed, field, loading, noDatabase, notice, panel, pill, stale, table, usage } from "./parts.js";
import { count, limits, none, percent, time } from "./format.js";

const page = 50;
const mostExported = 5000;

const columns = [{ label: "Tenant" }, { label: "Tier" }, { label: "Quota" }, { label: "Used of it" }, { label: "Overrides", num: true }, { label: "Top-ups", num: true }, { label: "Changed" }];

// usages returns what some accounts have used, by name. Where that cannot be had it is
// empty: the rest of the page does without.
async function usages(names) {
  if (!names.length) return new Map();
  try {
    const { usage: list } = await get("usage", { name: names });
    return new Map(list.map((u) => [u.name, u]));
  } catch {
    return new Map();
  }
}

// nearlyAll is the share of a quota from which an account is near its end.
const nearlyAll = 0.8;

// tiersTable sums up what the accounts on the page have used, by tier.
function tiersTable(accounts, used) {
  const tiers = new Map();
  for (const a of accounts) {
    const u = used.get(a.name)?.usage.default;
    const t = tiers.get(a.tier) ?? { accounts: 0, near: 0, over: 0, shares: [] };
    t.accounts += 1;
    if (u?.limit > 0 && u.used !== undefined) {
      const share = u.used / u.limit;
      t.shares.push(share);
      if (share >= 1) t.over += 1;
      else if (share >= nearlyAll) t.near += 1;
    }
    tiers.set(a.tier, t);
  }
  const t = table("Use of quotas by tier", [{ label: "Tier" }, { label: "Accounts", num: true }, { label: "Average use", num: true }, { label: "Most", num: true }, { label: "80 % or more", num: true }, { label: "All used", num: true }]);
  put(t.rows, [...tiers].sort().map(([name, x]) => h("tr", null, h("th", { scope: "row" }, name || none), h("td", { class: "num" }, count(x.accounts)),
    h("td", { class: "num" }, x.shares.length ? percent(x.shares.reduce((a, b) => a + b, 0) / x.shares.length) : none), h("td", { class: "num" }, x.shares.length ? percent(Math.max(...x.shares)) : none),
    h("td", { class: "num" }, x.shares.length ? count(x.near) : none), h("td", { class: x.over ? "num tone-denied" : "num" }, x.shares.length ? count(x.over) : none))));
  return panel("Use by tier", { more: h("span", { class: "muted" }, "of the accounts on this page, of the default quota") }, t.element);
}

// exported are the accounts that a filter finds, on whichever page.
async function exported(filter) {
  const { quotas, next_cursor: more } = await all("quotas", "quotas", filter, mostExported);
  if (more) notice(`The file has the first ${count(quotas.length)} accounts; headgate quota export has all.`, "warn");
  return {
    names: ["name", "shown_as", "tier", "quota", "overrides", "top_ups", "not_in_force", "version", "updated_at"],
    rows: quotas.map((q) => [q.name, q.api_key, q.tier, q.quotas ? limits(q.quotas.default) : "", JSON.stringify(q.account.overrides ?? []), JSON.stringify(q.account.top_ups ?? []), q.invalid, q.version, q.updated_at]),
  };
}

export function show(root, { query }) {
  const prefix = h("input", { type: "search", value: query.get("prefix") ?? "", "data-search": true, placeholder: "tenant:ac", autocomplete: "off", spellcheck: "false" });
  const tier = choice([["", "all tiers"]], "");
  const open = h("button", { type: "submit" }, "Open");
  const holder = h("div", null, loading("accounts"));
  const summary = h("div");
  const note = h("div");
  let cursors = history.state?.cursors ?? [undefined]; // of the page that somebody comes back to
  let turn = 0;

  const load = async () => {
    turn += 1;
    const mine = turn;
    const wanted = new URLSearchParams();
    if (prefix.value) wanted.set("prefix", prefix.value);
    if (tier.value) wanted.set("tier", tier.value);
    if (!readdress("tenants", wanted, { cursors })) return;
    try {
      const { quotas, next_cursor } = await get("quotas", { limit: page, name_prefix: prefix.value.trim(), tier: tier.value, cursor: cursors.at(-1) });
      const used = await usages(quotas.map((q) => q.name));
      if (mine !== turn) return;
      if (!quotas.length) {
        put(summary);
        return put(holder, empty("No account is found.", prefix.value ? "Names begin with tenant:, hash: or entry:KEY:. Open shows what a tenant without an account has." : "A tenant without an account has the fallback tier. Enter its name above and press Open to give it a quota."));
      }
      const t = table("Accounts", columns);
      put(t.rows, quotas.map((q) => h("tr", null, h("th", { scope: "row" }, h("a", { href: `#/tenants/${encodeURIComponent(q.name)}` }, q.api_key === q.name || q.name.startsWith("hash:") ? (q.name.startsWith("hash:") ? q.api_key : q.name) : q.name), q.invalid ? [" ", pill("denied", "not in force", q.invalid)] : null),
        h("td", null, q.tier || none), h("td", { class: "says" }, limits(q.quotas?.default)), h("td", null, usage(used.get(q.name)?.usage.default)),
        h("td", { class: "num" }, count(q.account.overrides?.length ?? 0)), h("td", { class: "num" }, count(q.account.top_ups?.length ?? 0)), h("td", null, time(q.updated_at)))));
      const step = (words, go) => h("button", { type: "button", disabled: !go, onclick: go || null }, words);
      put(holder, stale(Math.max(0, ...[...used.values()].map((u) => u.stale_s ?? 0))), t.element, cursors.length > 1 || next_cursor ? h("div", { class: "actions" },
        step("← Before", cursors.length > 1 && (() => {
          cursors.pop();
          load();
        })), step("Next →", next_cursor && (() => {
          cursors.push(next_cursor);
          load();
        }))) : null);
      put(summary, tiersTable(quotas, used));
    } catch (problem) {
      if (problem.status === 401 || mine !== turn) return;
      put(holder, noDatabase(live.overview, "accounts") ? empty("No accounts are kept here.", "Open shows what a tenant has used all the same.") : failed(problem, load));
    }
  };
  const anew = () => {
    cursors = [undefined];
    load();
  };
  let typing = null;
  prefix.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(anew, 300);
  });
  tier.addEventListener("change", anew);
  get("tiers").then(({ tiers, fallback }) => {
    tier.append(...tiers.map((t) => h("option", { value: t.name }, t.name === fallback ? `${t.name} (fallback)` : t.name)));
    tier.value = query.get("tier") ?? "";
    if (tier.value && root.isConnected) load(); // it would put its address in the place of that of another page
  }).catch(() => {});
  put(root, h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    const name = prefix.value.trim();
    if (name) location.hash = `#/tenants/${encodeURIComponent(/^(tenant|hash|entry):/.test(name) ? name : `tenant:${name}`)}`;
  } }, field("Name or prefix", prefix), open, field("Tier", tier), exportButton("accounts", () => exported({ name_prefix: prefix.value.trim(), tier: tier.value }))), note, h("div", { class: "panel" }, holder), summary);
  load();
  if (live.overview) put(note, noDatabase(live.overview, "accounts"));
  const end = on("overview", (o) => put(note, noDatabase(o, "accounts")));
  return () => {
    turn += 1;
    clearTimeout(typing);
    end();
  };
}
