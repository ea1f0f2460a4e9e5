// Parts that several pages are made of.

import { h, put, id, flags } from "./dom.js";
import { Problem } from "./api.js";
import { nodeNow } from "./live.js";
import { count, percent, none } from "./format.js";

// panel is a part of a page under a heading. more stands beside the heading.
export function panel(title, { more, level = 2, wide } = {}, ...children) {
  const heading = id("panel");
  return h("section", { class: wide ? "panel wide" : "panel", "aria-labelledby": heading },
    h("header", null, h(`h${level}`, { id: heading }, title), more), children);
}

// pill is one word in a colour, which is never all that says it.
export function pill(tone, words, title) {
  return h("span", { class: `pill tone-${tone}`, title }, words);
}

// table is one that scrolls sideways by itself where it is too wide. columns are
// {label, spoken, num, hint}; spoken stands for a label that is not to be seen. rows is where its rows go.
export function table(caption, columns, { unseen = true } = {}) {
  const rows = h("tbody");
  const element = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption }, h("table", null,
    h("caption", { class: unseen ? "unseen" : null }, caption),
    h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.num ? "num" : c.class, title: c.hint }, c.label || h("span", { class: "unseen" }, c.spoken ?? "To do"))))),
    rows));
  return { element, rows };
}

// loading, empty and failed are what stands where there is nothing yet, nothing at all,
// and nothing to be had.
export function loading(what) {
  return h("p", { class: "state", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), `Loading ${what}…`);
}

export function empty(words, hint) {
  return h("div", { class: "state" }, h("p", null, flags(words)), hint ? h("p", { class: "muted" }, flags(hint)) : null);
}

export function failed(problem, retry) {
  const [what, hint] = problem.message.split("; hint: ");
  return h("div", { class: "state bad", role: "alert" },
    h("p", null, h("b", null, problem.status === 403 ? "Your scope does not allow this. " : "This failed. "), flags(what)),
    hint ? h("p", { class: "muted" }, flags(`Hint: ${hint}`)) : null,
    retry ? h("button", { type: "button", onclick: retry }, "Try again") : null);
}

// noDatabase says why nothing can be changed here; null where there is a database.
export function noDatabase(overview, what) {
  if (!overview || overview.health.documents) return null;
  return h("div", { class: "note" }, h("p", null, `No database: ${what} cannot be changed here.`),
    h("p", { class: "muted" }, flags("Hint: start Headgate with --tenants sqlite:///var/lib/headgate/tenants.db, or with a PostgreSQL.")));
}

// bar shows how much of a limit is used; the words beside it say the same.
export function bar(used, limit) {
  const share = limit > 0 ? Math.min(1, used / limit) : used > 0 ? 1 : 0;
  const fill = h("span", { class: `fill ${share >= 1 ? "tone-denied" : share >= 0.8 ? "tone-warn" : "tone-allowed"}` });
  fill.style.width = `${(share * 100).toFixed(1)}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}

// usage is a bar with its numbers.
export function usage(u) {
  if (!u) return h("span", { class: "muted" }, none);
  if (u.unlimited) return h("span", { class: "muted" }, "unlimited");
  if (u.used === undefined || u.limit === undefined) return h("span", { class: "muted" }, u.degraded ? `not known: ${u.degraded}` : none);
  return h("span", { class: "usage" }, bar(u.used, u.limit),
    h("span", { class: "num" }, `${count(u.used)} of ${count(u.limit)}`), h("span", { class: "muted num" }, percent(u.limit ? u.used / u.limit : 1)));
}

// stale says that replicas have told what stands below, and how old it may be; null where
// none has.
export function stale(seconds) {
  if (!seconds) return null;
  return h("p", { class: "muted", role: "note" }, `Stale: told by a replica, which heard of its primary ${seconds} s ago or less. What was used since is missing.`);
}

// field is a control under its label. hint says more of it.
export function field(label, control, hint) {
  control.id ||= id("field");
  let described = null;
  if (hint) {
    described = h("span", { class: "hint", id: id("hint") }, hint);
    control.setAttribute("aria-describedby", described.id);
  }
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, described);
}

// choice is a list to choose from: [value, label] or value.
export function choice(options, value, props) {
  const element = h("select", props, options.map((o) => h("option", { value: [o].flat()[0] }, [o].flat().at(-1))));
  if (value !== undefined) element.value = value;
  return element;
}

const lengths = [["", "until it is removed"], ["1800", "for 30 minutes"], ["7200", "for 2 hours"], ["86400", "for a day"], ["604800", "for 7 days"], ["2592000", "for 30 days"], ["at", "until a time …"]];

// expiry lets choose how long something lasts. until() is an instant as text, or null for
// ever, where that may be.
export function expiry(label, usual = "", { ever = true } = {}) {
  const select = choice(ever ? lengths : lengths.slice(1), usual);
  const at = h("input", { type: "datetime-local", "aria-label": `${label}: the time, local` });
  const shown = () => {
    at.hidden = select.value !== "at";
    at.required = !at.hidden;
  };
  select.addEventListener("change", shown);
  shown();
  return {
    element: h("div", { class: "field" }, h("label", { for: (select.id = id("field")) }, label), select, at),
    until() {
      if (select.value === "") return null;
      if (select.value === "at") return new Date(at.value).toISOString();
      return new Date(nodeNow() + Number(select.value) * 1000).toISOString().replace(/\.\d+Z$/, "Z");
    },
  };
}

let notices = null;

// announcer is where notices appear, and are read aloud.
export function announcer() {
  notices = h("div", { class: "notices", role: "status", "aria-live": "polite" });
  return notices;
}

const shownFor = 8000;
const mostNotices = 3;

// notice tells of something that has happened.
export function notice(words, tone = "allowed") {
  const one = h("div", { class: `notice tone-${tone}` }, h("span", null, words),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => one.remove() }, "×"));
  notices?.append(one);
  while (notices?.children.length > mostNotices) notices.firstElementChild.remove();
  setTimeout(() => one.remove(), shownFor);
}

// comparison is what will change: [{what, before, after}].
export function comparison(changes) {
  const t = table("What changes", [{ label: "", spoken: "What" }, { label: "Now" }, { label: "Then" }]);
  put(t.rows, changes.map((c) => h("tr", null, h("th", { scope: "row" }, c.what), h("td", { class: "before" }, c.before), h("td", { class: "after" }, c.after))));
  return t.element;
}

// dialog shows a dialog until it is closed. make(close) returns its content; the promise
// is of what close was given, undefined when it was left.
export function dialog(title, make) {
  return new Promise((resolve) => {
    const heading = id("dialog");
    let result;
    const element = h("dialog", { "aria-labelledby": heading, onclose: () => {
      element.remove();
      resolve(result);
    } });
    const close = (value) => {
      result = value;
      element.close();
    };
    put(element, h("h2", { id: heading }, title), make(close));
    document.body.append(element);
    element.showModal();
  });
}

// problems says what is wrong, field by field where that is known.
export function problems(problem) {
  const [what, hint] = problem.message.split("; hint: ");
  return h("div", { class: "state bad", role: "alert" }, h("p", null, flags(what)), hint ? h("p", { class: "muted" }, flags(`Hint: ${hint}`)) : null,
    problem.errors?.length > 1 ? h("ul", null, problem.errors.map((e) => h("li", null, `${e.field}: ${e.message}`))) : null);
}

// edit is a dialog in two steps: a form that says what is to be, and what will change by
// it, to be confirmed. fields are shown in the form; plan() returns {changes, send, words,
// warn} or throws what is wrong. again() makes the same dialog anew after a conflict; its
// now() says what is there.
export function edit({ title, fields, plan, say, act = "Review", confirm = "Change it", danger, now }) {
  return dialog(title, (close) => {
    const holder = h("div");
    const cancel = () => h("button", { type: "button", class: "quiet", onclick: () => close() }, "Cancel");
    const showForm = (problem) => {
      const form = h("form", { onsubmit: (event) => {
        event.preventDefault();
        try {
          showReview(plan());
        } catch (error) {
          showForm(error);
        }
      } }, say ? h("p", { class: "muted" }, say) : null, fields, problem ? problems(problem) : null,
      h("div", { class: "actions" }, cancel(), h("button", { type: "submit", class: "main" }, act)));
      put(holder, form);
      (form.querySelector("input:not([type=hidden]), select, textarea") ?? form.querySelector("button")).focus();
    };
    const showReview = (planned) => {
      const outcome = h("div", { "aria-live": "polite" });
      const go = h("button", { type: "button", class: danger ? "danger" : "main" }, confirm);
      const back = h("button", { type: "button", class: "quiet", onclick: () => (fields ? showForm() : close()) }, fields ? "Back" : "Cancel");
      go.addEventListener("click", async () => {
        go.disabled = back.disabled = true;
        put(outcome, h("p", { class: "state" }, "Working…"));
        try {
          const done = await planned.send();
          close(done ?? true);
          notice(planned.words ?? "Done.");
        } catch (error) {
          if (!go.isConnected) return notice(`${title}: ${error.message}`, "denied"); // somebody has gone on
          go.disabled = back.disabled = false;
          if (error instanceof Problem && error.status === 412) await showConflict(outcome, go);
          else put(outcome, problems(error));
        }
      });
      put(holder, planned.warn ? h("p", { class: "note" }, planned.warn) : null, comparison(planned.changes), outcome, h("div", { class: "actions" }, back, go));
      go.focus();
    };
    const showConflict = async (outcome, go) => {
      go.hidden = true;
      let there = "It cannot be read now.";
      try {
        there = await now();
      } catch (error) {
        there = error.message;
      }
      put(outcome, h("div", { class: "state bad", role: "alert" },
        h("p", null, h("b", null, "Changed by somebody else meanwhile. "), "Nothing was changed. This is there now:"), h("p", { class: "there" }, there),
        h("button", { type: "button", onclick: () => close("again") }, "Look at it")));
      outcome.querySelector("button").focus();
    };
    if (fields) showForm();
    else showReview(plan());
    return holder;
  });
}

// refocus gives the focus that a button had to the one that has taken its place, else to
// the heading of the page: what it did may have drawn the page anew.
export function refocus(button) {
  if (document.activeElement !== document.body && document.activeElement.isConnected) return;
  const name = (b) => b.getAttribute("aria-label") ?? b.textContent;
  const all = [...document.querySelectorAll("main button:not(:disabled)")];
  (all.find((b) => name(b) === name(button)) ?? document.querySelector("main h1"))?.focus({ preventScroll: true });
}

// every calls at once and then each so many ms, one call at a time and while somebody
// looks. It returns what ends it.
export function every(ms, call) {
  let ended = false;
  let timer = null;
  const run = async () => {
    if (!document.hidden) await call();
    if (!ended) timer = setTimeout(run, ms);
  };
  run();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
