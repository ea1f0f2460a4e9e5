// How exact decisions were, beside what is promised.

import { h, put } from "./dom.js";
import { get } from "./api.js";
import { empty, every, failed, loading, panel, pill, table } from "./parts.js";
import { count, none, percent } from "./format.js";

export const lead = "A sample of keys is counted a second time, exactly. A decision is wrong where that count says otherwise.";

const columns = [{ label: "Rule" }, { label: "Measured", num: true, hint: "Decisions that were compared" }, { label: "Wrongly allowed", num: true }, { label: "Wrongly denied", num: true },
  { label: "Overshoot", num: true, hint: "Most hits beyond a limit that were admitted in the last hour, as a share of it" }, { label: "Bound", hint: "What the rule promises" }, { label: "", spoken: "Kept" }, { label: "Compared with" }];

const references = { sliding_log: "an exact sliding log", sub_windows: "a count in parts of the period", token_bucket: "an exact token bucket" };

// accuracyTable shows what was measured of some rules.
export function accuracyTable(list) {
  const t = table("Accuracy of rules", columns);
  put(t.rows, list.map((r) => {
    const [measured, allowed, denied, overshoot, bound, verdict, reference] = factsOf(r);
    const number = (words) => h("td", { class: "num" }, words);
    return h("tr", null, h("th", { scope: "row" }, h("a", { href: `#/rules/${encodeURIComponent(r.rule)}` }, r.rule)), number(measured), number(allowed), number(denied), number(overshoot), h("td", null, bound), h("td", null, verdict), h("td", { class: "muted" }, reference));
  }));
  return t.element;
}

// accuracyFacts shows what was measured of one.
export function accuracyFacts(r) {
  const facts = factsOf(r);
  const names = ["Measured", "Wrongly allowed", "Wrongly denied", "Overshoot", "Bound", "Kept", "Compared with"];
  return h("dl", { class: "facts wide" }, names.map((name, i) => h("div", null, h("dt", null, name), h("dd", null, facts[i]))));
}

function factsOf(r) {
  const share = (n) => `${count(n)} (${percent(r.decided ? n / r.decided : 0)})`;
  const verdict = () => {
    if (!r.decided) return h("span", { class: "muted" }, "nothing yet");
    if (r.bound < 0) return h("span", { class: "muted" }, "no bound known");
    return r.overshoot <= r.bound ? pill("allowed", "within") : pill("denied", "beyond the bound");
  };
  return [count(r.decided), share(r.wrong_allowed), share(r.wrong_denied), percent(r.overshoot),
    [r.bound < 0 ? none : h("b", { class: "num" }, percent(r.bound)), r.bound_text ? h("span", { class: "muted" }, ` ${r.bound_text}`) : null], verdict(), references[r.reference] ?? r.reference];
}

export function show(root) {
  const holder = h("div", null, loading("what was measured"));
  const said = h("span", { class: "muted" });
  put(root, panel("Measured on this node", { more: said }, holder));
  const load = async () => {
    try {
      const { share, rules } = await get("accuracy");
      put(said, share > 0 ? `${percent(share)} of keys` : "off");
      put(holder, rules.length ? accuracyTable(rules) : share > 0 ? empty("Nothing was measured yet.", "It takes requests of keys that are in the sample; a larger --accuracy-sample has more of them.") : empty("Nothing is measured.", "--accuracy-sample 0.001 measures one key of a thousand."));
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };
  return every(5000, load);
}
