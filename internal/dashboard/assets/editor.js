// Rules as text: tried, reviewed and put into the database, and what they were before.

import { h, put, text } from "./dom.js";
import { all, change, get, post, versioned } from "./api.js";
import { copyButton } from "./copy.js";
import { take } from "./draft.js";
import { nodesOf } from "./nodeevents.js";
import { empty, failed, field, loading, notice, panel, pill, problems, table } from "./parts.js";
import { count, percent, time } from "./format.js";

export const title = ([kind, name]) => (kind ? name : "Edit rules");

const mostBytes = 1 << 20; // of a text, as the API has it
const path = (name) => `rules/documents/${encodeURIComponent(name)}`;
const link = (kind, name) => h("a", { href: `#/edit/${kind}/${encodeURIComponent(name)}` }, name);

// list shows the texts that there are, and makes a new one.
function list(root) {
  const documents = h("div", null, loading("documents"));
  const files = h("div", null, loading("files"));
  const name = h("input", { type: "text", required: true, maxlength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", autocomplete: "off", spellcheck: "false", placeholder: "checkout.yaml" });
  const make = h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/edit/document/${encodeURIComponent(name.value)}`;
  } }, field("A new document", name), h("button", { type: "submit" }, "Write it"));
  const draw = async () => {
    try {
      const found = (await all("rules/documents", "documents")).documents;
      const t = table("Documents of rules", [{ label: "Document" }, { label: "Bytes", num: true }, { label: "Changed" }, { label: "By" }]);
      put(t.rows, found.map((d) => h("tr", null, h("th", { scope: "row" }, link("document", d.name)), h("td", { class: "num" }, count(d.bytes)), h("td", null, time(d.updated_at)), h("td", null, d.updated_by))));
      put(documents, found.length ? t.element : empty("No rules are in the database.", "A document has the rules of domains that no file has."), make);
    } catch (problem) {
      if (problem.status !== 401) put(documents, failed(problem, draw));
    }
  };
  const drawFiles = async () => {
    try {
      const found = (await all("rules/files", "files")).files;
      put(files, found.length ? h("ul", { class: "plain" }, found.map((f) => h("li", null, link("file", f.name), h("span", { class: "muted" }, ` ${count(f.bytes)} bytes`)))) : empty("No rule files are in force on this node."));
    } catch (problem) {
      if (problem.status !== 401) put(files, failed(problem, drawFiles));
    }
  };
  put(root, panel("In the database", {}, h("p", { class: "muted" }, "What is saved here is in force within two seconds on the nodes that share this database; the Fleet shows which rules each has."), documents),
    panel("In files", {}, h("p", { class: "muted" }, "They are tried and reviewed here, and changed where they are kept: the review ends with the difference to copy."), files));
  draw();
  drawFiles();
}

// area is where a text is written, with the numbers of its lines.
function area(label) {
  const numbers = h("pre", { class: "numbers", "aria-hidden": "true" });
  const input = h("textarea", { spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off", rows: 22, class: "mono", "aria-label": label });
  let lines = 0;
  const counted = () => {
    const now = input.value.split("\n").length;
    if (now !== lines) text(numbers, Array.from({ length: (lines = now) }, (_, i) => i + 1).join("\n"));
  };
  input.addEventListener("input", counted);
  input.addEventListener("scroll", () => (numbers.scrollTop = input.scrollTop));
  return {
    element: h("div", { class: "editor" }, numbers, input),
    input,
    set(value) {
      input.value = value;
      counted();
    },
    // go puts the caret at a place, counted from 1.
    go(line, column) {
      const before = input.value.split("\n").slice(0, line - 1);
      const at = before.reduce((sum, l) => sum + l.length + 1, 0) + Math.max(0, (column || 1) - 1);
      input.focus();
      input.setSelectionRange(at, at);
      const height = Number.parseFloat(getComputedStyle(input).lineHeight);
      input.scrollTop = Math.max(0, (line - 6) * height);
    },
  };
}

// places lists what is wrong, each with a way to its line.
const places = (found, into) => h("ul", { class: "plain places" }, found.map((e) => h("li", null,
  e.line && !e.file ? [h("button", { type: "button", onclick: () => into.go(e.line, e.column) }, `Line ${e.line}`), " "] : e.file ? `${e.file}${e.line ? `, line ${e.line}` : ""}: ` : null,
  e.message, e.hint ? h("span", { class: "muted" }, ` Hint: ${e.hint}`) : null)));

function changed(c) {
  if (!c.all) return empty("Nothing changes for requests.");
  const t = table("What changes for requests", [{ label: "", spoken: "How" }, { label: "Where" }, { label: "What" }, { label: "Now" }, { label: "Then" }]);
  put(t.rows, c.list.map((x) => h("tr", null, h("td", null, pill({ added: "allowed", removed: "denied", changed: "warn" }[x.kind], x.kind)), h("th", { scope: "row" }, x.subject), h("td", null, x.field ?? "rule"),
    h("td", { class: "before" }, x.from ?? ""), h("td", { class: "after" }, x.to ?? ""))));
  return [t.element, c.all > c.list.length ? h("p", { class: "muted" }, `and ${count(c.all - c.list.length)} more`) : null,
    h("p", { class: "muted" }, "A limit that is changed keeps its counts, unless the rule says on_change: reset. A rule that is removed or has another path loses them.")];
}

function effect(e) {
  if (!e) return empty("This process remembers no requests.");
  if (e.unknown) return h("p", { class: "note" }, `It is not known: ${e.unknown}.`);
  const there = e.nodes.filter((n) => !n.unknown);
  const who = there.length > 1 ? `${count(there.length)} nodes remember` : `the node ${there[0]?.node || "that answers"} remembers`;
  if (!e.requests) return [empty(`No request of the last hour is there that ${who}.`), nodesOf(e.nodes)];
  const t = table("The effect by rule", [{ label: "Rule" }, { label: "Denied now", num: true }, { label: "Denied then", num: true }, { label: "Newly denied", num: true }, { label: "Newly allowed", num: true }]);
  put(t.rows, e.rules.map((r) => h("tr", null, h("th", { scope: "row" }, r.rule || "(no rule)"), [r.denied_before, r.denied_after, r.newly_denied, r.newly_allowed].map((n) => h("td", { class: "num" }, count(n))))));
  return [
    h("p", null, "Of ", h("b", null, count(e.requests)), ` requests that ${who} from `, time(e.from), " on, ", h("b", { class: "newly" }, `${count(e.newly_denied)} would be newly denied`), ` (${percent(e.newly_denied / e.requests)}) and ${count(e.newly_allowed)} newly allowed.`),
    e.rules.length ? t.element : null, nodesOf(e.nodes),
    h("ul", { class: "muted" }, [...e.notes, e.cut ? "Nodes remember more: only the latest 20,000 requests were asked about, and only those of the time of which all nodes have told." : null, "Both sets of rules begin with empty counters here. Requests that are not remembered are not in it: a node remembers all denials and a sample of the rest.",
      "What clients would have done had they been answered otherwise is not known."].filter(Boolean).map((n) => h("li", null, n)))];
}

function tested(v, into) {
  if (v.test_problems) return places(v.test_problems, into);
  const t = v.tests;
  return [h("p", null, t.failed ? pill("denied", `${count(t.failed)} of ${count(t.run)} failed`) : pill("allowed", `${count(t.run)} passed`)), t.failures.length ? places(t.failures, into) : null];
}

// one shows a text to be edited.
function one(root, kind, name) {
  const stored = kind === "document";
  const main = area(`Rules of ${name}`);
  const tests = area("Tests of these rules");
  tests.input.rows = 8;
  const review = h("div", { "aria-live": "polite" });
  const versions = h("div");
  const state = h("p", { class: "muted" });
  const holder = h("div", null, loading("the text"));
  let etag = null; // of what the text was made from
  let base = "";
  let ended = false;
  const leaving = (event) => main.input.value !== base && event.preventDefault();
  addEventListener("beforeunload", leaving);

  const load = async () => {
    try {
      const there = await versioned(stored ? path(name) : `rules/files/${encodeURIComponent(name)}`);
      if (!stored && there.missing) return put(holder, empty("There is no such rule file in force on this node."));
      etag = there.etag;
      base = there.data ?? "";
      main.set(base || (stored ? "domain: \nmatch: path\ndescriptors:\n" : ""));
      put(state, stored ? (etag ? `Version ${etag.replaceAll('"', "")}.` : "It is not there yet.") : "It comes from a file: it can be reviewed here, and is not saved.");
      put(review);
      put(holder, form);
      if (stored) history();
      drafted(take(kind, name));
    } catch (problem) {
      if (problem.status !== 401) put(holder, failed(problem, load));
    }
  };

  // drafted puts a text that another page has handed over into the editor, and reviews it. Nothing is saved by that.
  const drafted = (draft) => {
    if (!draft) return;
    if (stored && etag !== `"${draft.version}"`) return put(review, h("p", { class: "note warn", role: "alert" }, "The document has changed since the draft was made. Ask for the draft again."));
    main.set(draft.text);
    notice(draft.about);
    look();
  };

  const look = async () => {
    if (new Blob([main.input.value]).size > mostBytes) return put(review, problems(new Error("The text is larger than 1 MiB")));
    put(review, loading("the review"));
    const asked = main.input.value;
    try {
      show(await post("rules/review", { [kind]: name, text: asked, ...(tests.input.value.trim() ? { tests: tests.input.value } : {}) }), asked);
    } catch (problem) {
      if (problem.status !== 401) put(review, problems(problem));
    }
  };

  const show = (v, asked) => {
    const wrong = v.problems.length > 0;
    const lines = h("pre", { class: "diff", tabindex: 0, role: "group", "aria-label": "How the lines differ" }, v.diff.split(/(?<=\n)/).map((l) => h("span", { class: l[0] === "+" ? "after" : l[0] === "-" ? "before" : null }, l)));
    put(review, panel("Review", {}, wrong ? [h("p", null, pill("denied", "cannot be in force")), places(v.problems, main)] : [
      v.warnings.length ? [h("h3", null, "Probably not meant"), places(v.warnings, main)] : null,
      h("h3", null, "What changes"), changed(v.changes),
      v.tests || v.test_problems ? [h("h3", null, "Tests"), tested(v, tests)] : null,
      h("h3", null, "Effect on the last hour"), effect(v.effect)],
    h("h3", null, "Lines"), v.diff ? [lines, v.diff_cut ? h("p", { class: "muted" }, "It goes on: only the first 256 KiB are shown.") : null, h("div", { class: "actions" }, copyButton("the difference", v.diff))] : empty("The text is as it was."),
    stored && !wrong && v.diff ? save(asked, Boolean(v.tests?.failed || v.test_problems)) : null));
    review.querySelector("h2")?.scrollIntoView({ block: "start" });
  };

  const save = (asked, doubtful) => {
    const reason = h("input", { type: "text", maxlength: 200, required: true, placeholder: "for those who come after you" });
    const outcome = h("div");
    const go = h("button", { type: "submit", class: doubtful ? "danger" : "main" }, doubtful ? "Save it although tests fail" : "Save it");
    return h("form", { class: "save", onsubmit: async (event) => {
      event.preventDefault();
      if (main.input.value !== asked) return put(outcome, h("p", { class: "note", role: "alert" }, "The text is another one than that of this review. Review it again."));
      go.disabled = true;
      try {
        await change("PUT", `${path(name)}?${new URLSearchParams({ reason: reason.value.trim() })}`, asked, etag);
        notice(`Saved: ${name}. Nodes follow within two seconds; the fleet shows which rules each has.`);
        await load();
        document.querySelector("main h1")?.focus({ preventScroll: true });
      } catch (problem) {
        go.disabled = false;
        if (problem.status === 412) put(outcome, conflict());
        else if (problem.status !== 401) put(outcome, problems(problem), problem.errors?.some((e) => e.line) ? places(problem.errors, main) : null);
      }
    } }, h("h3", null, "Save"), field("Reason", reason, "It stands in the log of changes."), outcome, h("div", { class: "actions" }, go));
  };

  // conflict is shown when somebody else has changed it: nothing of either is lost.
  const conflict = () => h("div", { class: "state bad", role: "alert" }, h("p", null, h("b", null, "Changed by somebody else meanwhile. "), "Nothing was saved."),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: load }, "Drop mine, take theirs"), h("button", { type: "button", onclick: async () => {
      try {
        const there = await versioned(path(name));
        etag = there.etag;
        base = there.data ?? "";
        put(state, `Version ${etag?.replaceAll('"', "") ?? "none"}.`);
        await look();
      } catch (problem) {
        put(review, problems(problem));
      }
    } }, "Review mine against theirs")));

  const history = async () => {
    try {
      const { versions: found, next_before: more } = await get(`${path(name)}/versions`);
      if (ended || !found.length) return put(versions);
      const t = table("Versions, the latest first", [{ label: "Version" }, { label: "Time" }, { label: "By" }, { label: "Reason" }, { label: "Bytes", num: true }, { label: "", spoken: "To do" }]);
      put(t.rows, found.map((f, i) => h("tr", null, h("th", { scope: "row" }, String(f.version)), h("td", null, time(f.at)), h("td", null, f.actor), h("td", null, f.reason ?? ""), h("td", { class: "num" }, f.bytes ? count(f.bytes) : "taken out"),
        h("td", null, f.bytes && i ? h("button", { type: "button", "aria-label": `Go back to version ${f.version}`, onclick: () => back(f.version) }, "Go back") : null))));
      put(versions, panel("Versions", {}, t.element, more ? h("p", { class: "muted" }, "Older ones are in the log of changes.") : null));
    } catch (problem) {
      if (problem.status !== 401) put(versions, failed(problem, history));
    }
  };

  // back puts an earlier text into the editor; saving it is a change like any other.
  const back = async (version) => {
    try {
      main.set(await get(`${path(name)}/versions/${version}`));
      await look();
      const reason = review.querySelector(".save input");
      if (reason) reason.value = `back to version ${version}`;
    } catch (problem) {
      if (problem.status !== 401) put(review, problems(problem));
    }
  };

  const form = h("form", { onsubmit: (event) => {
    event.preventDefault();
    look();
  } }, panel("Text", { more: state }, main.element, h("details", null, h("summary", null, "Tests"), h("p", { class: "muted" }, "As headgate rules test reads them; they are asked of all rules that there would be, and are not kept."), tests.element),
    h("div", { class: "actions" }, h("button", { type: "submit", class: "main" }, "Review"))));
  put(root, h("p", null, h("a", { href: "#/edit" }, "← All texts")), holder, review, versions);
  load();
  return () => {
    ended = true;
    removeEventListener("beforeunload", leaving);
  };
}

export function show(root, { parts: [kind, name] }) {
  if (name && (kind === "document" || kind === "file")) return one(root, kind, name);
  return list(root);
}
