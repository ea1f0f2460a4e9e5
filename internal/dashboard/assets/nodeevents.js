// How many events of each node something is told of.

import { h, put, flags } from "./dom.js";
import { pill, table } from "./parts.js";
import { count } from "./format.js";

// nodesOf says of how many events of each node something is told, and who is missing in it; of one node alone nothing.
export function nodesOf(nodes) {
  if (nodes.length < 2) return null;
  const t = table("Events by node", [{ label: "Node" }, { label: "Events", num: true }]);
  put(t.rows, nodes.map((n) => h("tr", null, h("th", { scope: "row" }, n.node), h("td", { class: "num" }, n.unknown ? pill("warn", "missing", n.unknown) : count(n.events)))));
  const missing = nodes.filter((n) => n.unknown);
  return [missing.map((n) => h("p", { class: "note warn" }, flags(`Nothing of ${n.node} is in it: ${n.unknown}.`))), t.element];
}
