// How a request would be decided now, and why.

import { h, put } from "./dom.js";
import { readdress } from "./address.js";
import { post } from "./api.js";
import { copyButton } from "./copy.js";
import { bar, empty, failed, field, loading, panel, pill, table } from "./parts.js";
import { count, millis, none, version } from "./format.js";
import { format, parse } from "./descriptor.js";
import { several } from "./nodes.js";
import { ruleIndex, tenantOf } from "./ruleindex.js";

export const lead = "Nothing is charged: this says what would happen to a request if it came now.";

const most = 8; // descriptors of a request here

function descriptorField(value, onRemove) {
  const input = h("input", { type: "text", value, required: true, autocomplete: "off", spellcheck: "false", class: "mono", placeholder: "tenant:acme,endpoint:POST /v1/orders", "data-search": true });
  const hits = h("input", { type: "number", min: 0, value: "1", required: true });
  const element = h("div", { class: "descriptor" }, field("Descriptor", input, "key:value,key:value; a backslash before a comma of a value"), field("Hits", hits), onRemove ? h("button", { type: "button", class: "quiet", onclick: () => onRemove(element) }, "Remove") : null);
  return { element, input, hits };
}

const counters = (c) => `${count(c.used)} of ${count(c.limit)} used, ${count(c.remaining)} left${c.reset_ms ? `, resets in ${millis(c.reset_ms)}` : ""}`;

// knownCounters are those of a limit that the store has told, or else that it has not.
const knownCounters = (l, c, words) => (l.degraded && !c.limit ? h("span", { class: "muted" }, "unknown: the store does not answer") : [bar(c.used, c.limit), " ", h("span", { class: "num" }, words)]);

function limitOf(l, tenant) {
  const state = l.degraded && !l.before.limit ? pill("warn", "unknown") : l.allowed ? pill("allowed", "allows") : l.enforced ? pill("denied", "denies") : pill("shadow", l.shadow ? "would deny: shadow" : "would deny: only watches");
  const fact = (name, ...words) => h("div", null, h("dt", null, name), h("dd", null, words));
  return h("article", { class: "limit" },
    h("header", null, h("h4", null, h("a", { href: `#/rules/${encodeURIComponent(l.rule)}` }, l.rule), l.name ? ` · ${l.name}` : ""), state, l.degraded ? pill("degraded", `degraded: ${l.degraded}`) : null),
    h("p", { class: "arithmetic mono" }, l.arithmetic),
    h("dl", { class: "facts wide" },
      fact("Limit", l.limit, ` (${l.role}; from the ${l.source}${l.source === "tier" ? ` ${l.tier}` : ""})`),
      fact("Counts by", h("code", null, l.key || "everything together"), tenant ? [" · ", h("a", { href: `#/tenants/${encodeURIComponent(tenant)}` }, "Its tenant")] : null,
        l.key ? [" · ", h("a", { href: `#/events?${new URLSearchParams({ key: l.key, rule: l.rule, ...(several() ? { of: "all" } : {}) })}` }, "Its events")] : null),
      fact("Before", knownCounters(l, l.before, counters(l.before))),
      fact("After", knownCounters(l, l.after, counters(l.after) + (l.after.retry_after_ms ? `; retry after ${millis(l.after.retry_after_ms)}` : ""))),
      l.promise ? fact("Promise", l.promise) : null,
      l.file ? fact("From", `${l.file}${l.line ? `, line ${l.line}` : ""}`) : null));
}

// explained is a descriptor; account returns the name of the account of a key, null where there is none.
function explained(d, account) {
  const t = table(`How ${d.descriptor} was matched`, [{ label: "Entry" }, { label: "Compared with" }, { label: "", spoken: "Matches" }, { label: "Why" }]);
  put(t.rows, d.steps.map((s) => h("tr", null, h("th", { scope: "row", class: `depth depth-${Math.min(s.depth - d.steps[0].depth, 5)}` }, h("code", { class: "key" }, s.entry || none)), h("td", null, h("code", { class: "key" }, s.tried)), h("td", null, s.matched ? pill("allowed", "matches") : h("span", { class: "muted" }, "no")), h("td", { class: "muted" }, s.note ?? ""))));
  return panel(d.descriptor || "No entries", { more: h("span", { class: "muted" }, d.hits === 1 ? "1 hit" : `${count(d.hits)} hits`), wide: true },
    h("h3", null, "How the rules were matched"), d.steps.length ? t.element : empty("No rule was compared."), d.ended ? h("p", null, d.ended) : null,
    h("h3", null, "Limits that apply"), d.limits.length ? d.limits.map((l) => limitOf(l, account(l.key))) : empty("No limit applies: it passes."));
}

export function show(root, { query }) {
  const domain = h("input", { type: "text", required: true, value: query.get("domain") ?? "", list: "explain-domains", autocomplete: "off" });
  const domains = h("datalist", { id: "explain-domains" });
  const list = h("div", { class: "descriptors" });
  const outcome = h("div", { "aria-live": "polite" });
  let descriptors = [];
  const add = (value = "") => {
    if (descriptors.length >= most) return;
    const d = descriptorField(value, descriptors.length ? (element) => {
      descriptors = descriptors.filter((x) => x.element !== element);
      element.remove();
    } : null);
    descriptors.push(d);
    list.append(d.element);
    return d;
  };
  const given = query.getAll("d");
  (given.length ? given : [""]).forEach((d) => add(d));

  const run = async () => {
    let body;
    try {
      body = { domain: domain.value.trim(), descriptors: descriptors.map((d) => ({ entries: parse(d.input.value), hits: Number(d.hits.value) })) };
    } catch (error) {
      return put(outcome, failed(error));
    }
    const wanted = new URLSearchParams([["domain", body.domain], ...body.descriptors.map((d) => ["d", format(d.entries)])]);
    readdress("explain", wanted);
    put(outcome, loading("the explanation"));
    try {
      const [e, index] = await Promise.all([post("explain", body), ruleIndex().catch(() => null)]);
      const account = (key) => key && index && tenantOf(index, e.domain, key);
      const json = JSON.stringify(e, null, 2);
      const words = e.unknown ? `Unknown: the store does not answer; failure mode ${e.failure} would ${e.allowed ? "allow" : "deny"} it.` : e.allowed ? "It would be allowed." : "It would be denied.";
      put(outcome, h("p", { class: `verdict tone-${e.unknown || !e.domain_known ? "warn" : e.allowed ? "allowed" : "denied"}` }, h("b", null, words),
        e.domain_known ? "" : ` There is no domain ${e.domain}.`, h("span", { class: "muted" }, " By the configuration ", h("code", { title: e.config_version }, version(e.config_version)), ".")),
      e.descriptors.map((d) => explained(d, account)), h("details", null, h("summary", null, "As text"), h("div", { class: "actions" }, copyButton("the explanation as text", e.text)), h("pre", { tabindex: 0 }, e.text)),
      h("details", null, h("summary", null, "As JSON"), h("div", { class: "actions" }, copyButton("the explanation as JSON", json)), h("pre", { tabindex: 0 }, json)));
    } catch (problem) {
      if (problem.status !== 401) put(outcome, failed(problem));
    }
  };
  ruleIndex().then((index) => {
    put(domains, [...index.domains.keys()].map((name) => h("option", { value: name })));
    if (!domain.value && index.domains.size === 1) [domain.value] = index.domains.keys();
  }).catch(() => {});
  put(root, h("form", { class: "panel", onsubmit: (event) => {
    event.preventDefault();
    run();
  } }, field("Domain", domain), domains, list, h("div", { class: "actions" },
    h("button", { type: "button", class: "quiet", onclick: () => add()?.input.focus() }, "Add a descriptor"), h("button", { type: "submit", class: "main" }, "Explain"))), outcome);
  if (domain.value && given.length) run();
}
