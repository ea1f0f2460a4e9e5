// Decisions as they are made, and one of them in full.

import { h, put, text, attr, flags } from "./dom.js";
import { readdress } from "./address.js";
import { get, url } from "./api.js";
import { copyButton, withCopy } from "./copy.js";
import { exportButton } from "./csv.js";
import { follow, nodeNow } from "./live.js";
import { choice, empty, failed, field, loading, panel, pill, table } from "./parts.js";
import { count, hms, hmsm, millis, none, role, seconds, time, tone, usedWords, verdict, version } from "./format.js";
import { explainLink, keyName } from "./keyname.js";
import { here, onNodes, picked, several } from "./nodes.js";
import { ruleIndex, tenantOf } from "./ruleindex.js";

export const title = ([event]) => (event ? "Event" : "Events");

const kept = 200;
const first = 100;
const columns = [{ label: "Time" }, { label: "Outcome" }, { label: "Key" }, { label: "Rule" }, { label: "Used", num: true }, { label: "Retry after", num: true }, { label: "Client" }, { label: "Took", num: true }];
const mostNamed = 8;
const outcomes = [["", "all"], ["over", "all that are not allowed"], ["denied", "denied"], ["shadow_denied", "denied in shadow"], ["degraded_denied", "denied, degraded"], ["degraded_allowed", "allowed, degraded"], ["allowed", "allowed (a sample)"], ["unmatched", "no rule"], ["unknown_domain", "unknown domain"]];

// local is an instant in ms as a field of this place has it, "" for what is none; instant is
// the other way round.
export const local = (ms) => {
  const at = new Date(ms === "" ? NaN : Number(ms));
  const here = new Date(at - at.getTimezoneOffset() * 60000);
  return Number.isNaN(here.getTime()) || here.getTime() < 0 || here.getUTCFullYear() > 9999 ? "" : here.toISOString().slice(0, 23);
};
export const instant = (text) => (text ? new Date(text).getTime() : "");

// took is how long a decision took, where it was timed.
const took = (e) => (e.took_us ? seconds(e.took_us / 1e6) : none);

// address is where an event is shown, which another node may have told.
const address = (e, told) => `#/events/${encodeURIComponent(e.event_id)}${told && e.node !== here() ? `?${new URLSearchParams({ node: e.node })}` : ""}`;

// silentWords say which nodes have told nothing, and why.
export function silentWords(nodes) {
  const silent = nodes.filter((n) => n.unknown);
  const words = silent.slice(0, mostNamed).map((n) => `Nothing of ${n.node} is in it: ${n.unknown}.`);
  return silent.length > mostNamed ? [...words, `Nor of ${count(silent.length - mostNamed)} more.`] : words;
}

// toldWords say of which nodes events are.
export function toldWords({ nodes, cut }, of) {
  const there = nodes.filter((n) => !n.unknown);
  const whose = there.length ? `Of ${there.length === 1 ? "the node" : `${count(there.length)} nodes:`} ${there.slice(0, mostNamed).map((n) => n.node).join(", ")}${there.length > mostNamed ? ", …" : ""}` : of ? `${of} is not heard of` : "Of no node";
  return `${whose}${cut ? "; older ones are remembered, too" : ""}.`;
}

function row(e, withNode) {
  return h("tr", null,
    h("th", { scope: "row", class: "num" }, h("a", { href: address(e, withNode) }, time(e.ts, hmsm))),
    h("td", null, pill(tone(e.outcome, e.allowed), verdict(e))),
    h("td", null, keyName(e.key_hashed ? "" : e.key, e.key)),
    h("td", null, e.rule ? h("a", { href: `#/rules/${encodeURIComponent(e.rule)}` }, e.rule) : none),
    h("td", { class: "num" }, usedWords(e)),
    h("td", { class: "num" }, e.retry_after_ms ? millis(e.retry_after_ms) : none),
    h("td", null, e.client_ip || none), h("td", { class: "num" }, took(e)), withNode ? h("td", null, e.node) : null);
}

function tail(root, query) {
  const domain = h("input", { type: "text", value: query.get("domain") ?? "", list: "domains", autocomplete: "off" });
  const domains = h("datalist", { id: "domains" });
  const rule = h("input", { type: "text", value: query.get("rule") ?? "", list: "rules", autocomplete: "off" });
  const rules = h("datalist", { id: "rules" });
  const what = choice(outcomes, query.get("outcome") ?? "");
  const key = h("input", { type: "search", value: query.get("key") ?? "", "data-search": true, placeholder: "a part of it, or its hash", autocomplete: "off" });
  const pause = h("button", { type: "button", "aria-pressed": "false", "data-pause": true }, "Pause");
  const said = h("span", { class: "muted" });
  // Another node, or all, are asked once; this one tells what comes.
  const of = choice([["", "this node, live"], ["all", picked() ? `${picked()}, now` : "all nodes, now"]], query.get("of") ?? (picked() && picked() !== here() ? "all" : ""));
  const ofField = field("Nodes", of);
  const whose = h("p", { class: "muted", role: "status" });
  const missing = h("div", { role: "status" });
  const askAgain = h("button", { type: "button", hidden: true }, "Ask again");
  let t = null;
  const holder = h("div");
  let waiting = [];
  let drawing = false;
  let paused = false;
  let missed = 0;
  let ids = new Set();
  let listed = []; // the latest first
  let end = () => {};

  const [since, until] = ["since", "until"].map((name) => h("input", { type: "datetime-local", step: "0.001", value: local(query.get(name) ?? "") }));
  const always = h("button", { type: "button" }, "Any time");
  const filters = () => ({ since: instant(since.value), until: instant(until.value), domain: domain.value.trim(), rule: rule.value.trim(), outcome: what.value, key: key.value.trim() });
  const draw = () => {
    drawing = false;
    if (paused) return text(said, `${count(waiting.length)} more since`);
    const fresh = waiting.filter((e) => !ids.has(e.event_id));
    waiting = [];
    for (const e of fresh.slice(-kept)) {
      ids.add(e.event_id);
      t.rows.prepend(row(e, of.value));
      listed.unshift(e);
    }
    listed.splice(kept);
    while (t.rows.children.length > kept) t.rows.lastElementChild.remove();
    if (ids.size > 10 * kept) ids = new Set([...ids].slice(-kept));
    if (t.rows.children.length && t.element.parentNode !== holder) put(holder, t.element);
    text(said, missed ? `${count(missed)} came too fast to be shown` : "");
  };
  const soon = () => {
    if (drawing) return;
    drawing = true;
    setTimeout(draw, 200); // so many times a second a screen is worth reading
  };
  const begin = async () => {
    end();
    const now = filters();
    always.hidden = now.since === "" && now.until === "";
    const wanted = new URLSearchParams(Object.entries({ ...now, of: of.value }).filter(([, v]) => v));
    if (!readdress("events", wanted)) return;
    t = table("Events, the latest first", of.value ? [...columns, { label: "Node" }] : columns);
    askAgain.hidden = !of.value;
    pause.hidden = Boolean(of.value);
    put(missing);
    say();
    put(holder, loading(of.value ? "events of all nodes" : "events"));
    ids = new Set();
    listed = [];
    waiting = [];
    missed = 0;
    let stopped = false;
    let stop = () => {};
    end = () => {
      stopped = true;
      stop();
    };
    try {
      const all = Boolean(of.value);
      const told = all ? await get("fleet/events", { ...now, node: picked(), limit: first }) : await get("events", { ...now, limit: first });
      if (stopped) return;
      if (all) {
        text(whose, `${toldWords(told, picked())} Asked at ${hms(nodeNow())}.`);
        put(missing, silentWords(told.nodes).map((words) => h("p", { class: "note warn" }, flags(words))));
      }
      waiting = told.events.toReversed();
      draw();
      if (!told.events.length) put(holder, empty("No such decision is remembered.", "The latest denied ones are, and a sample of the allowed ones."), !all && several() ? h("button", { type: "button", onclick: askAll }, "Ask all nodes") : null);
      if (all) return;
      if (now.until !== "" && now.until <= nodeNow()) return; // a time that is over has no events to come
      stop = follow(url("events/live", now), {
        decision(e) {
          waiting.push(e);
          if (waiting.length > 4 * kept) waiting.splice(0, waiting.length - kept);
          soon();
        },
        dropped({ dropped }) {
          missed += dropped;
          soon();
        },
      }, (s) => attr(holder, "data-stale", s.live ? null : "true"));
    } catch (problem) {
      if (problem.status !== 401 && !stopped) put(holder, failed(problem, begin));
    }
  };
  const asTable = () => ({
    names: ["time", "outcome", "allowed", "key", "key_hashed", "rule", "domain", "role", "limit", "used", "remaining", "hits", "retry_after_ms", "degraded", "tier", "client_ip", "user_agent", "node", "event_id"],
    rows: listed.map((e) => [new Date(e.ts).toISOString(), e.outcome, e.allowed, e.key, e.key_hashed ?? false, e.rule, e.domain, e.role, e.limit, e.used, e.remaining, e.hits, e.retry_after_ms, e.degraded, e.tier, e.client_ip, e.user_agent, e.node, e.event_id]),
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    attr(pause, "aria-pressed", String(paused));
    text(pause, paused ? "Resume" : "Pause");
    draw();
  });
  const askAll = () => {
    of.value = "all";
    begin();
    of.focus();
  };
  // say says whose the events are that come live.
  const say = () => {
    ofField.hidden = !several() && !of.value;
    if (!of.value) text(whose, several() ? `Of the node ${here()}, as they come.` : "");
  };
  let typing = null;
  const changed = () => {
    clearTimeout(typing);
    typing = setTimeout(begin, 300);
  };
  for (const control of [domain, rule, key, since, until]) control.addEventListener("input", changed);
  always.addEventListener("click", () => {
    since.value = until.value = "";
    begin();
    since.focus();
  });
  for (const control of [what, of]) control.addEventListener("change", begin);
  askAgain.addEventListener("click", begin);
  ruleIndex().then((index) => {
    put(domains, [...index.domains.keys()].map((name) => h("option", { value: name })));
    put(rules, [...index.byID.keys()].map((name) => h("option", { value: name })));
  }).catch(() => {});
  put(root, h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, ofField, field("Outcome", what), field("Key", key), field("Rule", rule), field("Domain", domain), field("Since", since), field("Until", until), always, pause, askAgain, exportButton("events", asTable), domains, rules),
    panel("Latest decisions", { more: said }, whose, missing, holder));
  begin();
  const ends = [onNodes(say), () => clearTimeout(typing), () => end()];
  return () => ends.forEach((last) => last());
}

// event is one that this node remembers, or the node that is named.
async function event(name, node) {
  if (!node || node === here()) return get(`events/${encodeURIComponent(name)}`);
  const told = await get("fleet/events", { event: name, node });
  if (told.events.length) return told.events[0];
  throw new Error(silentWords(told.nodes)[0] ?? (told.nodes.length ? `${node} does not remember this event any more.` : `${node} is not heard of: what it remembers is not known.`));
}

function one(root, name, node) {
  const holder = h("div", null, loading("the event"));
  put(root, h("p", null, h("a", { href: "#/events" }, "← All events")), holder);
  const load = async () => {
    try {
      const e = await event(name, node);
      const index = await ruleIndex().catch(() => null);
      const key = e.key_hashed ? null : e.key;
      const explain = explainLink(e.domain, key);
      const tenant = key && index ? tenantOf(index, e.domain, key) : null;
      const facts = [["Time", time(e.ts, (at) => `${at.toLocaleDateString()} ${hmsm(at)}`)], ["Outcome", pill(tone(e.outcome, e.allowed), verdict(e))], ["Domain", e.domain], ["Key", [keyName(key, e.key), " ", copyButton(key ? "the key" : "the hash of the key", e.key)]],
        ["Rule", e.rule ? h("a", { href: `#/rules/${encodeURIComponent(e.rule)}` }, e.rule) : none], ["Limit", e.limit ? `${count(e.limit)}${e.limit_name ? ` (${e.limit_name})` : ""}${role(e.role) ? `, ${role(e.role)}` : ""}${e.algorithm && e.algorithm !== e.role ? `, ${e.algorithm.replaceAll("_", " ")}` : ""}` : none],
        ["Used", usedWords(e)], ["Remaining", count(e.remaining)], ["Hits", count(e.hits)], ["Retry after", e.retry_after_ms ? millis(e.retry_after_ms) : none], ["Degraded", e.degraded || "no"], ["Tier", e.tier || none],
        ["Client", e.client_ip || none], ["User agent", e.user_agent || none], ["Trace", e.trace_id ? withCopy("the id of the trace", e.trace_id) : none], ["Configuration", e.config_version ? withCopy("the version of the configuration", e.config_version, version(e.config_version)) : none],
        ["Node", e.node], ["Took", e.took_us ? took(e) : "not timed"], ["Sample weight", e.sample_rate > 1 ? `about ${count(e.sample_rate)}` : "1"], ["Event", withCopy("the id of the event", e.event_id)]];
      put(holder, panel("One decision", { more: [explain ? h("a", { href: explain }, "Explain it now") : null, " ", tenant ? h("a", { href: `#/tenants/${encodeURIComponent(tenant)}` }, "Its tenant") : null, " ", h("a", { href: `#/events?${new URLSearchParams({ key: e.key, ...(several() ? { of: "all" } : {}) })}` }, "Events of the key")] },
        h("dl", { class: "facts wide" }, facts.map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))))));
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  load();
}

export function show(root, { parts, query }) {
  return parts.length ? one(root, parts[0], query.get("node")) : tail(root, query);
}
