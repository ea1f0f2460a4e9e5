// The frame of the dashboard: who is logged in, which page is shown, and how the node is.

import { h, put, text, attr, flags } from "./dom.js";
import { change, get, login, logout, onLoggedOut, ways } from "./api.js";
import { live, listen, silent, on } from "./live.js";
import { announcer, dialog, empty, failed, field, problems, pill } from "./parts.js";
import { hms, seconds, version, zone } from "./format.js";
import { alerts, inForce } from "./alerts.js";
import { picker } from "./nodes.js";

// A page has a title, the topics that it needs live, and show(root, {parts, query, me}), which may
// return what ends it. It is loaded when it is first gone to. One with a scope is for those who have it.
const pages = [
  { name: "overview", label: "Overview", key: "o", page: () => import("./overview.js") },
  { name: "keys", label: "Limited keys", key: "k", page: () => import("./keys.js") },
  { name: "rules", label: "Rules", key: "r", page: () => import("./rules.js"), inner: () => import("./rule.js") },
  { name: "edit", label: "Edit rules", key: "w", scope: "admin", page: () => import("./editor.js") },
  { name: "tenants", label: "Tenants", key: "t", page: () => import("./tenants.js"), inner: () => import("./tenant.js") },
  { name: "explain", label: "Explain", key: "x", page: () => import("./explain.js") },
  { name: "events", label: "Events", key: "e", page: () => import("./events.js") },
  { name: "history", label: "History", key: "h", page: () => import("./history.js") },
  { name: "fleet", label: "Fleet", key: "f", page: () => import("./fleet.js") },
  { name: "switches", label: "Switches", key: "s", page: () => import("./switched.js") },
  { name: "changes", label: "Changes", key: "c", page: () => import("./changes.js") },
  { name: "settings", label: "Settings", key: "i", scope: "admin", page: () => import("./settings.js") },
  { name: "accuracy", label: "Accuracy", key: "a", page: () => import("./accuracy.js") },
  { name: "regions", label: "Regions", key: "n", page: () => import("./regions.js") },
  { name: "dual-run", label: "Dual run", key: "d", page: () => import("./dualrun.js") },
];

// mayOpen says whether who is logged in has the scope of a page; reachable are all of which that holds.
const mayOpen = (p) => !p.scope || p.scope === me?.scope;
const reachable = () => pages.filter(mayOpen);

let me = null;
let leave = null;
let main = null;
const links = new Map();

// route reads the address: #/page/part/part?query.
function route() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...parts] = path.split("/");
  const found = name ? pages.find((p) => p.name === name) : pages[0];
  let decoded = [];
  try {
    decoded = parts.map(decodeURIComponent);
  } catch {
    history.replaceState(null, "", `#/${name}`); // an address that somebody has cut off is that of the page
  }
  return { found, name, parts: decoded, query: new URLSearchParams(search) };
}

// nowhere is shown where an address names no page.
const nowhere = (name) => ({
  title: () => "No such page",
  show: (root) => void put(root, empty(`There is no page ${name}.`, "The list on the left has all there are.")),
});

// notYours is shown where the page that an address names is of another scope.
const notYours = ({ label, scope }) => ({
  title: () => label,
  show: (root) => void put(root, empty(`This page is for the scope ${scope}; yours is ${me.scope}.`)),
});

// closeDialogs ends what a page has asked for, which would else stand over another one.
function closeDialogs() {
  for (const open of document.querySelectorAll("dialog")) open.close();
}

let turn = 0;

async function show({ focus = true } = {}) {
  if (!me) return;
  const { found, name: asked, parts, query } = route();
  turn += 1;
  const mine = turn;
  leave?.();
  leave = null;
  let page;
  try {
    page = !found ? nowhere(asked) : mayOpen(found) ? await (found.inner && parts.length ? found.inner : found.page)() : notYours(found);
  } catch {
    page = { title: () => found.label, show: (root) => void put(root, failed(new Error("Headgate does not answer, or has no such page any more; hint: is it running? If it was upgraded, reload"), () => show())) };
  }
  if (mine !== turn || !me) return; // somebody has gone on
  for (const [name, link] of links) attr(link, "aria-current", name === found?.name ? "page" : null);
  links.get(found?.name)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const title = page.title?.(parts) ?? found.label;
  document.title = `${title} · Headgate`;
  const heading = h("h1", { tabindex: -1 }, title);
  const lead = page.lead ? h("p", { class: "lead" }, flags(page.lead)) : null;
  const root = h("div", { class: `page page-${found?.name ?? "none"}` });
  put(main, h("div", { class: "title" }, heading, lead), root, h("footer", { class: "muted" }, `Times are those of this browser: ${zone()}.`));
  listen(...(page.topics ?? []));
  leave = page.show(root, { parts, query, me }) ?? null;
  scrollTo(0, 0);
  if (focus) heading.focus({ preventScroll: true });
}

function themeButton() {
  const order = ["auto", "light", "dark"];
  const button = h("button", { type: "button", class: "quiet" });
  const now = () => document.documentElement.dataset.theme ?? "auto";
  const label = () => {
    const [sign, word] = { auto: ["◐", "Auto"], light: ["☀", "Light"], dark: ["☾", "Dark"] }[now()];
    put(button, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "word" }, ` ${word}`));
    attr(button, "aria-label", `Colours: ${now()}. Change`);
  };
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(now()) + 1) % order.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("headgate-theme", next);
    } catch {
      // Then it is for this page alone.
    }
    label();
  });
  label();
  return button;
}

// health is how the node is, in one word and why. It is read aloud when it changes.
function healthOf(o) {
  const { health: is } = o;
  const whys = [is.store, is.rules, is.tenants, is.documents].filter((s) => s && !s.ok).map((s) => s.error || s.reason);
  if (is.draining) return ["degraded", "Draining", "it takes leave"];
  if (!is.ready) return ["denied", "Not ready", whys.join("; ")];
  if (is.degraded) return ["degraded", "Degraded", whys.join("; ")];
  if (is.homes && !is.homes.ok) return ["degraded", "Cut off", is.homes.error];
  return ["allowed", "Ready", ""];
}

function status() {
  const word = h("span", { class: "health", role: "status" });
  const mark = h("span", { class: "mark", role: "status" }, "Connecting…");
  const node = h("span", { class: "node" });
  const keep = [];
  let was = "";
  const say = (tone, name, why) => {
    if (was !== name + why) put(word, pill(tone, name, why), why ? h("span", { class: "why" }, why) : null);
    was = name + why;
  };
  keep.push(on("overview", (o) => {
    say(...healthOf(o));
    put(node, h("b", null, o.node.name), h("span", { class: "muted" }, ` ${version(o.node.version)}${o.node.layer ? ` · ${o.node.layer}` : ""}`));
  }));
  keep.push(on("state", (s) => {
    attr(mark, "class", s.live ? "mark live" : "mark stale");
    if (!s.live && live.overview) say("plain", `Was ${healthOf(live.overview)[1].toLowerCase()}`, "");
    if (s.live) text(mark, "Live");
    else if (s.since && live.overview) text(mark, `Stale since ${hms(s.since)}; trying again in ${seconds(Math.ceil(s.retryIn / 1000))}`);
    else text(mark, "Connecting…");
    document.body.classList.toggle("stale", !s.live && Boolean(live.overview));
  }));
  return { element: h("div", { class: "status" }, word, node, mark), end: () => keep.forEach((k) => k()) };
}

// drillStrip says on every page that nodes rehearse a fault, while they do.
function drillStrip(me) {
  const strip = h("div", { class: "strip", role: "status" });
  let was = "";
  const end = on("overview", ({ drill }) => {
    const id = drill ? `${drill.id} ${drill.here}` : "";
    if (was !== id) {
      was = id;
      put(strip, drill ? [
        h("b", null, "Drill"), ` ${drill.fault} of ${drill.of}, by ${drill.actor}`, drill.reason ? `: ${drill.reason}` : "", drill.here ? "" : " (not on this node)",
        " · ends in ", h("span", { class: "left", "aria-hidden": "true" }),
        me.scope === "admin" ? h("button", { type: "button", onclick: (event) => stopDrill(event.target) }, "End it") : null,
      ] : []);
    }
    const left = strip.querySelector(".left");
    if (left) text(left, seconds(Math.ceil(drill.left_ms / 1000)));
  });
  return { element: strip, end };
}

async function stopDrill(button) {
  button.disabled = true;
  try {
    await change("DELETE", "drill");
  } catch (problem) {
    button.after(` ${problem.message}`);
    button.disabled = false;
  }
}

const shortcuts = () => [
  ...reachable().map((p) => [["g", p.key], `Go to ${p.label}`]),
  [["/"], "Go to the search or the filter of the page"],
  [["p"], "Pause or resume live updates"],
  [["?"], "Show this"],
  [["Esc"], "Close a dialog"],
];

function help() {
  if (document.querySelector("dialog")) return;
  dialog("Keys", (close) => [
    h("dl", { class: "shortcuts" }, shortcuts().map(([list, what]) => h("div", null,
      h("dt", null, list.map((k, i) => [i ? " then " : "", h("kbd", null, k)])), h("dd", null, what)))),
    h("div", { class: "actions" }, h("button", { type: "button", class: "main", onclick: () => close() }, "Close")),
  ]);
}

let prefix = 0;
const prefixLasts = 1500;

function onKey(event) {
  if (!me || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, dialog")) return;
  const after = event.timeStamp - prefix < prefixLasts;
  prefix = 0;
  if (after) {
    const found = reachable().find((p) => p.key === event.key);
    if (found) {
      event.preventDefault();
      location.hash = `#/${found.name}`;
      return;
    }
  }
  if (event.key === "g") prefix = event.timeStamp;
  else if (event.key === "?") help();
  else if (event.key === "/") {
    const search = main.querySelector("[data-search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (event.key === "p") main.querySelector("[data-pause]")?.click();
}

let endFrame = null;

function frame() {
  const strip = status();
  const strips = [drillStrip(me), inForce(), alerts()];
  const nodes = picker(() => show({ focus: false }));
  endFrame = () => {
    for (const part of [strip, nodes, ...strips]) part.end();
  };
  links.clear();
  const nav = h("nav", { "aria-label": "Pages" }, h("ul", null, reachable().map((p) => {
    const link = h("a", { href: `#/${p.name}`, title: `g then ${p.key}` }, p.label);
    links.set(p.name, link);
    return h("li", null, link);
  })));
  main = h("main", { id: "main" });
  const out = h("button", { type: "button", class: "quiet", onclick: async () => {
    try {
      await logout();
    } catch {
      // Then the session ends by itself.
    }
    enter("You are logged out.");
  } }, "Log out");
  put(document.body,
    h("a", { class: "skip", href: "#main", onclick: (event) => {
      event.preventDefault();
      main.querySelector("h1").focus();
    } }, "Skip to the page"),
    h("header", { class: "top" },
      h("a", { class: "brand", href: "#/overview" }, "Headgate"),
      strip.element,
      nodes.element, h("div", { class: "tools" }, themeButton(), h("button", { type: "button", class: "quiet", "aria-label": "Keys and help", onclick: help }, "?"),
        h("span", { class: "who", title: `scope ${me.scope}` }, h("b", null, me.actor), h("span", { class: "muted word" }, ` ${me.scope}`)), out), strips.map((s) => s.element)),
    nav, main, announcer());
  show({ focus: false });
}

// enter shows the login; words say why.
function enter(words) {
  me = null;
  leave?.();
  leave = null;
  endFrame?.();
  endFrame = null;
  silent();
  closeDialogs();
  document.body.className = "";
  document.title = "Log in · Headgate";
  const token = h("input", { type: "password", name: "token", required: true, autocomplete: "current-password", spellcheck: "false", autocapitalize: "off" });
  const outcome = h("div");
  const button = h("button", { type: "submit", class: "main" }, "Log in");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    put(outcome);
    try {
      me = await login(token.value);
      me = await get("me");
      frame();
    } catch (problem) {
      me = null;
      put(outcome, problems(problem));
      token.select();
      token.focus();
    } finally {
      button.disabled = false;
    }
  } }, h("input", { type: "text", autocomplete: "username", value: "headgate", hidden: true }), words ? h("p", { class: "muted", role: "status" }, words) : null,
  field("Token", token, "A token of the admin API. Create one with headgate admin token. It stays in this process and is not kept in the browser."),
  outcome, h("div", { class: "actions" }, button));
  const other = h("div", { class: "by" });
  put(document.body, h("main", { class: "login" }, h("h1", null, "Headgate"), other, form), announcer());
  token.focus();
  byIssuer(other);
}

// byIssuer offers the login by an issuer, where there is one, and says why the last one failed.
async function byIssuer(other) {
  try {
    const { issuer, why } = await ways();
    if (!issuer) return;
    put(other, why ? problems(new Error(why)) : null,
      h("a", { class: "button", href: "/login/oidc", onclick: () => location.hash && place(location.hash) }, `Log in with ${issuer}`), h("p", { class: "muted" }, "or with a token:"));
  } catch {
    // Then there is the token.
  }
}

// place keeps the hash while somebody is at the issuer, which sends back to no page in
// particular, and returns what was kept before.
function place(hash) {
  try {
    const before = sessionStorage.getItem("headgate-place");
    sessionStorage.setItem("headgate-place", hash);
    return before;
  } catch {
    return ""; // then it is the Overview
  }
}

async function begin() {
  route().found?.page().catch(() => {}); // it is on its way while somebody logs in
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", () => {
    closeDialogs();
    show();
  });
  onLoggedOut(() => {
    if (me) enter("Your login has ended.");
  });
  try {
    me = await get("me");
    const before = place("");
    if (before && !location.hash) history.replaceState(null, "", before);
    frame();
  } catch (problem) {
    enter(problem.status === 401 ? "" : problem.message);
  }
}

begin();
