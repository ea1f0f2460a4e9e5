// Lines over time, drawn as SVG, with the same in words and as a table.

import { h, svg, put, text, attr, id } from "./dom.js";
import { about as plain, date, day, hms, hm, none } from "./format.js";
import { nodeNow, remembered } from "./live.js";

const left = 52;
const right = 8;
const top = 8;
const bottom = 20;
// A gap of more than so many steps between two points is a gap in the line.
const gap = 3.5;
// So much time is drawn at least, in ms, and a zoom is of as much.
const leastSpan = 60000;
const dayLength = 24 * 3600 * 1000;
// Times on the axis are so far apart, in ms.
const distances = [...[10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600].map((s) => s * 1000), ...[1, 2, 7, 14, 28, 91].map((n) => n * dayLength)];
const tableStep = 10000;
const tableRows = 12;

// scale returns a round number of at least most, and its parts.
function scale(most) {
  if (!(most > 0)) return { most: 1, step: 0.5 };
  const size = 10 ** Math.floor(Math.log10(most / 3));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * size).find((n) => n * 4 >= most);
  return { most: Math.ceil(most / step - 1e-9) * step, step };
}

// tick is a number on the axis, by a format and so far from the next: a round one needs no zeros behind its point, and
// a small one all of its digits.
export const tick = (v, format, step) => (format === plain && step < 0.1 ? String(Number(v.toPrecision(3))) : format(v)).replace(/\.(\d*?)0+(?!\d)/, (_, digits) => (digits ? `.${digits}` : ""));

// line is a path; a point by itself is as long as the line is thick.
const line = (points) => points.map((p, i, list) => {
  const begins = !i || p.gap;
  const alone = begins && (i + 1 === list.length || list[i + 1].gap);
  return `${begins ? "M" : "L"}${p.x.toFixed(1)} ${p.y.toFixed(1)}${alone ? "h2" : ""}`;
}).join("");

// chart draws series: {name, of(point), tone, area}, by format; where of is no number
// nothing is drawn. about says in a few words
// what is drawn. onPoint gets the time that is pointed at, or null, onZoom a range that somebody has drawn
// out, and onPick a point that is clicked on. It returns {element, update(points, range), point(time)}; without a range,
// {from, to, step, parts} in ms, the last minutes are drawn; parts, {from, to}, are shaded: what is drawn
// there is not all.
export function chart({ title, series, format, about, height = 180, least = 0, onPoint, onZoom, onPick }) {
  const heading = id("chart");
  const drawing = svg("svg", { class: "plot", role: "img", height, "aria-label": title });
  const marks = series.map(() => h("span", { class: "num" }, none));
  const legend = h("ul", { class: "legend" }, series.map((s, i) => h("li", null,
    svg("svg", { class: `swatch tone-${s.tone}`, width: 18, height: 10, "aria-hidden": "true" }, svg("path", { class: "line", d: "M0 5H18" })),
    h("span", null, s.name), marks[i])));
  const rows = h("tbody");
  const numbers = h("details", { class: "numbers" },
    h("summary", null, "As a table"),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `${title}, as a table` }, h("table", null,
      h("caption", { class: "unseen" }, `${title}: some of the points, the latest first`),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "Time"), series.map((s) => h("th", { scope: "col", class: "num" }, s.name)))),
      rows)));
  numbers.addEventListener("toggle", () => tabulate());
  const tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  const frame = h("div", { class: "frame" }, drawing, tip);
  const element = h("section", { class: "panel chart", "aria-labelledby": heading }, h("header", null, h("h2", { id: heading }, title), legend), frame, numbers);

  const grid = svg("g", { class: "rule" });
  const shades = svg("path", { class: "shade" });
  const areas = series.map((s) => svg("path", { class: `tone-${s.tone} ${s.area ? "area" : "none"}` }));
  const lines = series.map((s) => svg("path", { class: `tone-${s.tone} line` }));
  const cross = svg("path", { class: "cross" });
  put(drawing, shades, grid, areas, lines, cross);

  let points = [];
  let range = null;
  let drawnFrom = null;
  let width = 0;
  let end = 0;
  let span = remembered;
  let pointed = null;
  let spoken = 0;
  let spokenLength = 0;

  const at = (px) => end - span * (1 - (px - left) / (width - left - right));
  const x = (t) => left + (width - left - right) * (1 - (end - t) / span);

  function draw() {
    if (!width) return;
    attr(drawing, "viewBox", `0 0 ${width} ${height}`);
    end = range?.to ?? Math.max(points.at(-1)?.t ?? 0, nodeNow() - 2000);
    span = range ? end - range.from : Math.min(remembered, Math.max(leastSpan, end - (points[0]?.t ?? end)));
    const { most, step } = scale(Math.max(least, ...points.map((p) => Math.max(...series.map((s) => s.of(p) || 0)))));
    const y = (v) => top + (height - top - bottom) * (1 - v / most);
    const parts = [];
    for (let v = 0; v <= most * 1.001; v += step) {
      parts.push(svg("path", { d: `M${left} ${y(v).toFixed(1)}H${width - right}` }), svg("text", { x: left - 6, y: y(v) + 3.5, "text-anchor": "end" }, tick(v, format, step)));
    }
    const every = distances.find((ms) => (ms / span) * width > 64) ?? distances.at(-1);
    const zone = new Date(end).getTimezoneOffset() * 60000;
    for (let t = Math.ceil((end - span - zone) / every) * every + zone; t <= end; t += every) {
      if (x(t) < left + 26 || x(t) > width - right - 20) continue;
      parts.push(svg("text", { x: x(t), y: height - 5, "text-anchor": "middle" }, (every < 60000 ? hms : every < dayLength ? hm : date)(t)));
    }
    put(grid, parts);
    attr(shades, "d", (range?.parts ?? []).map(({ from, to }) => [Math.max(x(from), left), Math.min(x(to), width - right)]).filter(([a, b]) => b > a)
      .map(([a, b]) => `M${a.toFixed(1)} ${top}H${b.toFixed(1)}V${height - bottom}H${a.toFixed(1)}Z`).join(""));
    series.forEach((s, i) => {
      const dots = points.filter((p) => p.t >= end - span && Number.isFinite(s.of(p))).map((p, n, list) => ({ x: x(p.t), y: y(s.of(p)), gap: n > 0 && p.t - list[n - 1].t > gap * (range?.step ?? 1000) }));
      attr(lines[i], "d", line(dots));
      if (s.area) attr(areas[i], "d", fillOf(dots, y(0)));
    });
    hover();
  }

  function fillOf(dots, base) {
    const pieces = [];
    for (const dot of dots) {
      if (dot.gap || !pieces.length) pieces.push([]);
      pieces.at(-1).push({ ...dot, gap: false });
    }
    return pieces.map((piece) => `${line(piece)}L${piece.at(-1).x.toFixed(1)} ${base}L${piece[0].x.toFixed(1)} ${base}Z`).join("");
  }

  const nearest = (time) => points.reduce((best, p) => (!best || Math.abs(p.t - time) < Math.abs(best.t - time) ? p : best), null);

  function hover() {
    const near = pointed === null ? null : nearest(pointed);
    tip.hidden = !near || x(near.t) < left;
    const from = drawnFrom === null || pointed === null ? "" : `M${x(drawnFrom).toFixed(1)} ${top}V${height - bottom}`;
    attr(cross, "d", tip.hidden ? from : `${from}M${x(near.t).toFixed(1)} ${top}V${height - bottom}`);
    if (tip.hidden) return;
    put(tip, h("div", { class: "num" }, (span > dayLength ? day : hms)(near.t)), series.map((s) => h("div", null, h("span", { class: `dot tone-${s.tone}` }), ` ${s.name} `, h("b", { class: "num" }, format(s.of(near))))));
    const across = tip.offsetWidth + 14;
    tip.style.transform = `translateX(${Math.round(x(near.t) + across > width ? x(near.t) - across : x(near.t) + 12)}px)`;
  }

  const point = (time) => {
    pointed = time;
    hover();
  };
  const timeOf = (event) => at(event.clientX - frame.getBoundingClientRect().left);
  const tell = (time) => {
    point(time);
    onPoint?.(time);
  };
  frame.addEventListener("pointermove", (event) => tell(timeOf(event)));
  frame.addEventListener("pointerleave", () => {
    drawnFrom = null;
    tell(null);
  });
  if (onZoom) {
    frame.addEventListener("pointerdown", (event) => {
      drawnFrom = timeOf(event);
    });
    frame.addEventListener("pointerup", (event) => {
      const [from, to] = [drawnFrom ?? timeOf(event), timeOf(event)].sort((a, b) => a - b);
      drawnFrom = null;
      if (to - from >= leastSpan) onZoom(from, to);
      else if (nearest(to)) onPick?.(nearest(to));
    });
  }

  function tabulate() {
    if (!numbers.open) return;
    const list = [];
    const step = range ? span / tableRows : tableStep;
    for (const p of points.toReversed()) if (!list.length || list.at(-1).t - p.t >= step) list.push(p);
    put(rows, list.slice(0, tableRows).map((p) => h("tr", null, h("th", { scope: "row", class: "num" }, (range ? day : hms)(p.t)), series.map((s) => h("td", { class: "num" }, format(s.of(p)))))));
  }

  // Words change every ten seconds: who listens to them hears them to the end.
  function speak() {
    const last = points.at(-1);
    const length = range ? range.to - range.from : 0;
    if (!last || (Math.abs(last.t - spoken) < tableStep && length === spokenLength)) return;
    spoken = last.t;
    spokenLength = length;
    const most = (s) => Math.max(...points.map((p) => s.of(p) || 0));
    attr(drawing, "aria-label", `${about}, ${range ? `from ${day(range.from)} to ${day(range.to)}` : `over the last ${Math.round(span / 60000)} minutes`}. ${series.map((s) => `${s.name}: ${format(s.of(last))}, at most ${format(most(s))}`).join("; ")}.`);
  }

  new ResizeObserver(() => {
    width = frame.clientWidth;
    draw();
  }).observe(frame);

  return {
    element,
    point,
    update(list, of = null) {
      points = list;
      range = of;
      const last = points.at(-1);
      series.forEach((s, i) => text(marks[i], last ? format(s.of(last)) : none));
      draw();
      tabulate();
      speak();
    },
  };
}
