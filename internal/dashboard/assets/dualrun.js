// What a dual run has found: the verdict, what differs and why.

import { h, put } from "./dom.js";
import { get } from "./api.js";
import { empty, every, failed, loading, panel, pill, table } from "./parts.js";
import { count, hms, percent, time } from "./format.js";

export const lead = "Another service answers Envoy, and the rules of this process decide the same requests beside it.";

// verdicts are what can be made of it, in a colour and a word.
const verdicts = { go: ["allowed", "Go"], look: ["denied", "Look"], wait: ["plain", "Wait"] };

// causes say why answers differ.
const causes = {
  shape: "There are not as many statuses: one of the two is not the service that it is taken for.",
  limit: "The limits are not the same: the rules differ.",
  start: "A window had begun before the dual run, and hits in it are known there alone.",
  window: "The same limit ends at another instant.",
  counts: "Requests that came together, or hits of denied requests, which one of the two counts.",
};

const causeColumns = [{ label: "Cause" }, { label: "Answers", num: true }, { label: "Meaning" }];
const placeColumns = [{ label: "Domain" }, { label: "Keys" }, { label: "Cause" }, { label: "Answers", num: true }];
const exampleColumns = [{ label: "At" }, { label: "Cause" }, { label: "Domain" }, { label: "Keys" }, { label: "Key", hint: "A keyed hash, as in events" },
  { label: "The other service" }, { label: "Headgate" }, { label: "", spoken: "Does it decide" }];

function verdict(r) {
  const [tone, word] = verdicts[r.verdict] ?? ["plain", r.verdict];
  const [why, hint] = r.why.split("; hint: ");
  const share = (n) => `${count(n)} (${percent(r.compared ? n / r.compared : 0)})`;
  const facts = [["Beside", r.of], ["Since", time(r.since)], ["Compared", count(r.compared)], ["Decide otherwise", share(r.different)], ["Differ in a part", share(r.different_in_part)],
    ["Denied there", share(r.old_denied)], ["Denied here", share(r.own_denied)], ["Failed there", count(r.old_failed)], ["Failed here", count(r.own_failed)], ["Not compared", count(r.skipped)]];
  return [h("p", null, pill(tone, word), ` ${why}`), hint ? h("p", { class: "muted" }, `Hint: ${hint}`) : null,
    h("dl", { class: "facts wide" }, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))))];
}

function rowsOf(name, columns, list, cells) {
  const t = table(name, columns);
  put(t.rows, list.map((one) => h("tr", null, cells(one).map((cell, i) => (i ? h("td", { class: columns[i].num ? "num" : null }, cell) : h("th", { scope: "row" }, cell))))));
  return t.element;
}

export function show(root) {
  const holder = h("div", null, loading("the dual run"));
  put(root, holder);
  const load = async () => {
    try {
      const r = await get("dual-run");
      if (!r.of) {
        put(holder, panel("No dual run", {}, empty("No other service answers here.", "--dual-run grpc://old:8081 lets one answer, and shows what would differ.")));
        return;
      }
      const some = r.causes.filter((c) => c.count > 0);
      put(holder,
        panel("Verdict", { wide: true }, verdict(r)),
        panel("Why answers differ", { wide: true }, some.length ? rowsOf("Causes", causeColumns, some, (c) => [c.cause, count(c.count), causes[c.cause] ?? ""]) : empty("No answer differs so far.")),
        r.places.length ? panel("Where", { wide: true }, rowsOf("Places", placeColumns, r.places, (p) => [p.domain, p.keys, p.cause, count(p.count)])) : null,
        r.examples.length ? panel("Examples", { more: h("span", { class: "muted" }, "the newest of each cause"), wide: true }, rowsOf("Examples", exampleColumns, [...r.examples].reverse(),
          (e) => [time(e.at, hms), e.cause, e.domain, e.keys, h("code", null, e.hash), e.old, e.own, e.decides ? pill("denied", "decides otherwise") : h("span", { class: "muted" }, "in part")])) : null);
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  return every(5000, load);
}
