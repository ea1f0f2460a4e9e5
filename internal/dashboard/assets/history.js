// What nodes have answered: the last hour by the second, the last week by the minute.

import { h, put, text, attr, flags } from "./dom.js";
import { readdress } from "./address.js";
import { chart } from "./chart.js";
import { get } from "./api.js";
import { nodeNow } from "./live.js";
import { empty, failed, loading } from "./parts.js";
import { about, count, day, percent, seconds } from "./format.js";
import { picked, several } from "./nodes.js";
import { degraded, requests as all, unlimited } from "./counts.js";

export const title = () => "History";
export const lead = "Requests that nodes have answered. Draw over a chart to look closer, click for the events of that time. With --state-dir it outlives a restart.";

const hour = 3600 * 1000;
const ranges = [["1 h", hour], ["6 h", 6 * hour], ["24 h", 24 * hour], ["7 d", 7 * 24 * hour]];
// longer ranges are there where a Prometheus is configured, which tells them.
const longer = [["30 d", 30 * 24 * hour], ["90 d", 90 * 24 * hour]];
const points = 750;
// A range that goes on to now is asked for again after one of its steps, and after this in ms: of
// several nodes each answers by itself.
const leastWait = 5000;
const fleetWait = 15000;
const mostNamed = 8;

const share = (part, whole) => (whole > 0 ? part / whole : 0);

// pointsOf are the points of a timeline in requests per second, at the middle of their steps.
export const pointsOf = ({ step, points: list }) => list.map((p) => ({ t: Date.parse(p.at) + step * 500, ...p.rates, p50: p.p50 || NaN, p99: p.p99 || NaN, whole: p.whole }));

// pointsOfPrometheus are those of a timeline that Prometheus tells. It says nothing of what is missing.
export const pointsOfPrometheus = ({ step, points: list }) => pointsOf({ step, points: list.map((p) => ({ ...p, whole: true })) });

// prometheusWords say whose numbers those of Prometheus are.
export const prometheusWords = (node) => `From Prometheus: ${node ? `of the node whose label instance is ${node}` : "the sum of all nodes that it scrapes"}. Latencies are of all decisions of a step.`;

// partsOf are the times, {from, to} in ms, of which points are no whole sum; times between points have none.
export function partsOf(list, step) {
  const parts = [];
  for (const p of list) {
    if (p.whole) continue;
    const [from, to] = [p.t - step / 2, p.t + step / 2];
    if (parts.at(-1)?.to === from) parts.at(-1).to = to;
    else parts.push({ from, to });
  }
  return parts;
}

const names = (list) => `${list.slice(0, mostNamed).map((n) => n.name).join(", ")}${list.length > mostNamed ? ` and ${count(list.length - mostNamed)} more` : ""}`;

// ofWords says of which nodes a timeline is.
export function ofWords({ nodes }) {
  const there = nodes.filter((n) => n.answered);
  if (!there.length) return "Of no node.";
  return there.length === 1 ? `Of the node ${there[0].name}.` : `The sum of ${count(there.length)} nodes: ${names(there)}.`;
}

// missingWords say what is not in the sum of a timeline.
export function missingWords({ nodes, step, error }) {
  const has = (list, one, more) => `${names(list)} ${list.length === 1 ? one : more}`;
  const silent = nodes.filter((n) => !n.answered && !n.gone_at);
  const gone = nodes.filter((n) => n.gone_at);
  const there = nodes.filter((n) => n.answered);
  const nothing = there.filter((n) => !n.from);
  const first = Math.min(...there.map((n) => Date.parse(n.from ?? "") || Infinity));
  const late = there.filter((n) => Date.parse(n.from ?? "") > first + step * 1000);
  const gaps = there.filter((n) => n.gaps > 0);
  return [
    silent.length ? `${has(silent, "has", "have")} not answered: nothing of ${silent.length === 1 ? "it is" : "them is"} in these numbers.` : "",
    gone.length ? `${has(gone, "is", "are")} not heard of any more: what ${gone.length === 1 ? "it" : "they"} answered is not in these numbers.` : "",
    nothing.length ? `${has(nothing, "knows", "know")} nothing of this time.` : "",
    ...late.slice(0, mostNamed).map((n) => `${n.name} knows nothing of before ${day(n.from)}: it had not begun, or did not keep it.`),
    gaps.length ? `${has(gaps, "has", "have")} gaps, in which nothing was counted.` : "",
    error ?? "",
  ].filter(Boolean);
}

export function show(root, { query }) {
  let range = null; // {from, to} in ms; null: the last length ms
  let length = [...ranges, ...longer].find(([name]) => name === query.get("range"))?.[1] ?? hour;
  let step = 1000; // in ms
  let timer = null;
  let turn = 0;

  const charts = [
    { title: "Requests per second", about: "Requests per second", format: about, height: 220, series: [
      { name: "allowed", tone: "allowed", area: true, of: (p) => p.allowed },
      { name: "denied", tone: "denied", of: (p) => p.denied },
      { name: "degraded", tone: "degraded", of: degraded },
      { name: "no rule", tone: "warn", of: unlimited },
    ] },
    { title: "Denied rate", about: "Denied requests as a share of the traffic", format: percent, least: 0.01, height: 150, series: [
      { name: "denied", tone: "denied", area: true, of: (p) => share(p.denied + p.degraded_denied, all(p)) },
    ] },
    { title: "Decision latency", about: "Decision latency, the highest of a minute in each step", format: seconds, height: 150, series: [
      { name: "p50", tone: "allowed", of: (p) => p.p50 },
      { name: "p99", tone: "denied", of: (p) => p.p99 },
    ] },
  ].map((c) => chart({ ...c, onPoint: (t) => charts.forEach((other) => other.point(t)), onZoom: zoom, onPick: pick }));

  const said = h("span", { class: "muted", role: "status" });
  const whose = h("p", { class: "muted whose", role: "status" });
  const missing = h("div", { role: "status" });
  const whole = h("button", { type: "button", hidden: true, onclick: () => go(null) }, "Whole range");
  const button = ([name, ms]) => h("button", { type: "button", onclick: () => {
    length = ms;
    readdress("history", new URLSearchParams({ range: name }));
    go(null);
  } }, name);
  const buttons = ranges.map(button);
  const longerButtons = longer.map(button);
  const fromPrometheus = () => longer.some(([, ms]) => ms === length);
  const further = h("span", { class: "filters", hidden: true }, longerButtons);
  const holder = h("div", null, loading("the history"));
  const drawn = h("div", { class: "column" }, h("div", { class: "grid main-chart" }, charts[0].element), h("div", { class: "grid two" }, charts[1].element, charts[2].element));
  put(root, h("div", { class: "filters", role: "group", "aria-label": "Range" }, buttons, further, whole, said), whose, missing, holder);

  function zoom(from, to) {
    go({ from, to });
  }

  // pick goes to what was not allowed in the step of a point.
  function pick({ t }) {
    location.hash = `#/events?outcome=over&since=${t - step / 2}&until=${t + step / 2}${several() ? "&of=all" : ""}`;
  }

  // go shows another range, which may take seconds to come: until then nothing says that what is drawn is of it.
  function go(to) {
    range = to;
    forget();
    text(said, "Loading…");
    attr(drawn, "data-stale", "true");
    if (drawn.parentNode !== holder) put(holder, loading("the history"));
    load();
  }

  // forget takes away what is said of charts.
  function forget() {
    for (const words of [said, whose, missing]) text(words, "");
  }

  async function load() {
    clearTimeout(timer);
    turn += 1;
    const mine = turn;
    const to = range?.to ?? nodeNow();
    const from = range?.from ?? to - length;
    [...buttons, ...longerButtons].forEach((b, i) => b.setAttribute("aria-pressed", String(!range && [...ranges, ...longer][i][1] === length)));
    whole.hidden = !range;
    try {
      const prometheus = fromPrometheus();
      const line = await get(prometheus ? "prometheus/timeline" : "fleet/timeline", { node: picked(), from: new Date(from).toISOString(), to: new Date(to).toISOString(), points });
      if (mine !== turn) return;
      const list = prometheus ? pointsOfPrometheus(line) : pointsOf(line);
      step = line.step * 1000;
      const summed = !prometheus && line.nodes.length > 1;
      const parts = summed ? partsOf(list, step) : [];
      const words = prometheus ? [] : missingWords(line);
      text(whose, prometheus ? prometheusWords(picked()) : ofWords(line));
      if (parts.length) words.push("Where the charts are shaded the sum is not whole: some nodes are missing in it.");
      if (missing.textContent !== words.join("")) put(missing, words.map((w) => h("p", { class: "note warn" }, flags(w))));
      if (!list.length) put(holder, empty("Nothing is known of this time.", prometheus ? "Steps from Prometheus are of five minutes at least." : "The nodes did not run, or have just begun."));
      else if (drawn.parentNode !== holder) put(holder, drawn);
      attr(drawn, "data-stale", null);
      for (const c of charts) c.update(list, { from, to, step, parts });
      text(said, `${day(from)} to ${range ? day(to) : "now"}, in steps of ${line.step === 1 ? "a second" : seconds(line.step)}`);
      if (!range) timer = setTimeout(load, Math.max(summed ? fleetWait : leastWait, step));
    } catch (problem) {
      if (problem.status === 401 || mine !== turn) return;
      forget();
      put(holder, failed(problem, () => go(range)));
    }
  }

  // offer shows the longer ranges where there is a Prometheus.
  async function offer() {
    try {
      further.hidden = !(await get("prometheus")).configured;
    } catch {
      // The page shows what nodes tell, and whoever loads it says what is wrong.
    }
  }

  offer();
  load();
  return () => {
    turn += 1;
    clearTimeout(timer);
  };
}
