// What every page says at its top: what is switched, and what somebody should look at.

import { h, put, text } from "./dom.js";
import { age, day, rate } from "./format.js";
import { nodeNow, on } from "./live.js";
import { onShown } from "./nodes.js";

// strip is a line at the top that is drawn anew when what it is about changes.
function strip(tone) {
  const element = h("div", { class: tone ? `strip ${tone}` : "strip", role: "status" });
  let was = "";
  return { element, draw(about, make) {
    const now = JSON.stringify(about);
    if (now === was) return;
    was = now;
    put(element, about.length ? make() : []);
  } };
}

const targets = { all: () => "everything", rule: (name) => `the rule ${name}`, candidate: (name) => `the candidate of ${name}`, raise: (name) => `the limit of ${name}`, tenant: (name) => `the tenant ${name}` };

// targetWords says in words what a switch is for.
export function targetWords(target) {
  const [kind, ...rest] = target.split(":");
  return targets[kind]?.(rest.join(":")) ?? target;
}

// partWords says for which part of the requests a switch is; "" for all of them.
export function partWords(s) {
  return [s.percent ? `${s.percent} %` : "", s.tenants ? `${s.tenants} ${s.tenants === 1 ? "tenant" : "tenants"}` : ""].filter(Boolean).join(" and ");
}

const shownFirst = 5;

// inForce says which switches are in force, who has set them, when, and until when.
export function inForce() {
  const s = strip();
  const end = on("overview", ({ switches = [], switches_more: more = 0 }) => s.draw(switches, () => [
    switches.slice(0, shownFirst).map((x) => h("p", null, h("b", null, `${targetWords(x.target)}: ${x.state}${x.raise ? ` by ${x.raise} %` : ""}`.replace(/^./, (c) => c.toUpperCase())),
      partWords(x) ? ` for ${partWords(x)}` : "", x.by ? ` · by ${x.by}` : "", x.at ? `, ${day(x.at)}` : "", ` · ${x.until ? `until ${day(x.until)}` : "without an end"}`, x.reason ? h("span", { class: "muted" }, ` · ${x.reason}`) : "")),
    switches.length + more > shownFirst ? h("p", null, h("a", { href: "#/switches" }, `${switches.length + more - shownFirst} more switches are in force`)) : null,
  ]));
  return { element: s.element, end };
}

// alerts says what passes unchecked because no domain has its rules, and which nodes are not heard. Numbers in it go on
// by themselves: they are not read aloud again, and a link keeps the focus.
export function alerts() {
  const s = strip("bad");
  const [unchecked, last] = [0, 1].map(() => h("span", { "aria-live": "off" }));
  const end = onShown((shown) => {
    const unknown = shown.rates.unknown_domain;
    const lost = [...shown.unheard, ...shown.gone];
    text(unchecked, rate(unknown));
    text(last, age(lost[0]?.at, nodeNow()));
    s.draw([unknown > 0, lost.map((n) => n.name)].filter((x) => x && x.length !== 0), () => [
      unknown > 0 ? h("p", null, h("b", null, unchecked, " name a domain that has no rules"), ": they pass, and nobody checks them. ", h("a", { href: "#/events?outcome=unknown_domain" }, "Which")) : null,
      lost.length ? h("p", null, h("b", null, `${lost.map((n) => n.name).join(", ")} ${lost.length === 1 ? "is" : "are"} not heard of`), ", last ", last, `: what ${lost.length === 1 ? "it decides" : "they decide"} is in no number here. `, h("a", { href: "#/fleet" }, "Fleet")) : null,
    ]);
  });
  return { element: s.element, end };
}
