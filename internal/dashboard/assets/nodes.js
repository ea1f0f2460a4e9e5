// Of which nodes the pages are: all, or one that somebody has picked.

import { h, put, attr } from "./dom.js";
import { live, nodeNow, on, remembered } from "./live.js";
import { chosen } from "./sums.js";

let name = "";
let fleet = null;
let history = [];
const calls = new Set();

function tell() {
  const shown = chosen(name, live.overview, fleet, nodeNow());
  if (!shown) return;
  const t = Date.parse(live.overview.at);
  if (shown.rates && !(history.at(-1)?.t >= t) && shown.of.length) {
    history.push({ t, ...shown.rates, p50: shown.latency.p50, p90: shown.latency.p90, p99: shown.latency.p99, decided: shown.latency.count });
    while (history[0].t < t - remembered) history.shift();
  }
  for (const call of calls) call(shown, history);
}

// onShown calls with what is shown of the picked nodes and with its history, as it changes and at
// once. It returns what ends it.
export function onShown(call) {
  calls.add(call);
  const shown = chosen(name, live.overview, fleet, nodeNow());
  if (shown) call(shown, history);
  return () => calls.delete(call);
}

// pick shows a node from now on, or with "" all.
export function pick(next) {
  name = next;
  history = [];
  tell();
}

// picked is the name of the node that was picked, "" for all.
export const picked = () => name;

// several says whether there are other nodes that this one knows of; onNodes calls when that may have changed, and
// at once, and returns what ends it.
export const several = () => (fleet?.nodes.length ?? 0) > 1;
export function onNodes(call) {
  call();
  return on("fleet", call);
}

// here is the name of the node that serves the page.
export const here = () => live.overview?.node.name ?? "";

// picker is the list to pick from; it is seen where there is more than one node. changed is
// called when somebody has picked.
export function picker(changed) {
  const select = h("select", { "aria-label": "Shown nodes", title: "Of which nodes the pages are" });
  const element = h("span", { class: "picker", hidden: true }, select);
  let was = "";
  const draw = () => {
    const own = live.overview?.node.name;
    const names = [...new Set([...(fleet?.nodes ?? []).map((n) => n.name), ...(name ? [name] : [])])].sort();
    const list = JSON.stringify([names, own]);
    element.hidden = names.length < 2;
    if (list !== was && document.activeElement !== select) {
      was = list;
      put(select, h("option", { value: "" }, "All nodes"), names.map((n) => h("option", { value: n }, n === own ? `${n} (this one)` : n)));
    }
    select.value = name;
    attr(element, "class", name ? "picker one" : "picker");
  };
  select.addEventListener("change", () => {
    pick(select.value);
    draw();
    changed();
  });
  const ends = [on("overview", () => {
    draw();
    tell();
  }), on("fleet", (f) => {
    fleet = f;
    draw();
    tell();
  })];
  draw();
  return {
    element,
    end() {
      for (const end of ends) end();
      name = "";
      fleet = null;
      history = [];
    },
  };
}
