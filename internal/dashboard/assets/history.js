// What the node has answered: the last hour by the second, the last week by the minute.

import { h, put, text } from "./dom.js";
import { chart } from "./chart.js";
import { get } from "./api.js";
import { empty, failed, loading } from "./parts.js";
import { about, day, percent, seconds } from "./format.js";
import { degraded, requests as all, unlimited } from "./counts.js";

export const title = () => "History";
export const lead = "Requests that this node has answered. Draw over a chart to look closer, click for the events of that time. With --state-dir it outlives a restart.";

const hour = 3600 * 1000;
const ranges = [["1 h", hour], ["6 h", 6 * hour], ["24 h", 24 * hour], ["7 d", 7 * 24 * hour]];
const points = 750;
// A range that goes on to now is asked for again after so many of its steps, and after this in ms.
const leastWait = 5000;

const share = (part, whole) => (whole > 0 ? part / whole : 0);

// pointsOf are the points of a timeline in requests per second, at the middle of their steps.
export const pointsOf = ({ step, points: list }) => list.map((p) => {
  const per = Object.fromEntries(Object.entries(p.requests).map(([name, n]) => [name, p.known > 0 ? n / p.known : NaN]));
  return { t: Date.parse(p.at) + step * 500, ...per, p50: p.p50 || NaN, p99: p.p99 || NaN };
});

export function show(root, { query }) {
  let range = null; // {from, to} in ms; null: the last length ms
  let length = ranges.find(([name]) => name === query.get("range"))?.[1] ?? hour;
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
    { title: "Denied, of the traffic", about: "Denied requests as a share of the traffic", format: percent, least: 0.01, height: 150, series: [
      { name: "denied", tone: "denied", area: true, of: (p) => share(p.denied + p.degraded_denied, all(p)) },
    ] },
    { title: "Decision latency", about: "Decision latency, the highest of a minute in each step", format: seconds, height: 150, series: [
      { name: "p50", tone: "allowed", of: (p) => p.p50 },
      { name: "p99", tone: "denied", of: (p) => p.p99 },
    ] },
  ].map((c) => chart({ ...c, onPoint: (t) => charts.forEach((other) => other.point(t)), onZoom: zoom, onPick: pick }));

  const said = h("span", { class: "muted", role: "status" });
  const whole = h("button", { type: "button", hidden: true, onclick: () => go(null) }, "Whole range");
  const buttons = ranges.map(([name, ms]) => h("button", { type: "button", onclick: () => {
    length = ms;
    history.replaceState(null, "", `#/history?range=${encodeURIComponent(name)}`);
    go(null);
  } }, name));
  const holder = h("div", null, loading("the history"));
  const drawn = h("div", { class: "column" }, h("div", { class: "grid main-chart" }, charts[0].element), h("div", { class: "grid two" }, charts[1].element, charts[2].element));
  put(root, h("div", { class: "filters", role: "group", "aria-label": "Range" }, buttons, whole, said), holder);

  function zoom(from, to) {
    go({ from, to });
  }

  // pick goes to what was not allowed in the step of a point.
  function pick({ t }) {
    location.hash = `#/events?outcome=over&since=${t - step / 2}&until=${t + step / 2}`;
  }

  function go(to) {
    range = to;
    load();
  }

  async function load() {
    clearTimeout(timer);
    turn += 1;
    const mine = turn;
    const to = range?.to ?? Date.now();
    const from = range?.from ?? to - length;
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(!range && ranges[i][1] === length)));
    whole.hidden = !range;
    try {
      const line = await get("timeline", { from: new Date(from).toISOString(), to: new Date(to).toISOString(), points });
      if (mine !== turn) return;
      const list = pointsOf(line);
      step = line.step * 1000;
      if (!list.length) put(holder, empty("Nothing is known of this time.", "The node did not run, or has just begun."));
      else if (drawn.parentNode !== holder) put(holder, drawn);
      for (const c of charts) c.update(list, { from, to, step });
      text(said, `${day(from)} to ${range ? day(to) : "now"}, in steps of ${line.step === 1 ? "a second" : seconds(line.step)}`);
      if (!range) timer = setTimeout(load, Math.max(leastWait, step));
    } catch (problem) {
      if (problem.status !== 401 && mine === turn) put(holder, failed(problem, load));
    }
  }

  load();
  return () => {
    turn += 1;
    clearTimeout(timer);
  };
}
