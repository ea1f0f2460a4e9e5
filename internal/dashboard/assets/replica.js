// The replica that a node reads in place of the database of tenants, as people see it.

import { pill } from "./parts.js";
import { bytes, seconds } from "./format.js";

// standing is a pill that says how the replica is.
export function standing(r) {
  if (!r.ok) return pill("denied", "replica away", "What was read of it last counts on");
  if (r.primary) return pill("warn", "a primary", "The server at --tenants-replica replays nobody");
  if (r.paused) return pill("warn", "replay paused", "Somebody has paused the replay of the replica");
  return r.receiving ? pill("allowed", "replica follows") : pill("warn", "replica cut off", "It is not connected to its primary: what changes there does not come");
}

// behind says how old at most what it has is; "" where it has all that it was sent.
export function behind(r) {
  if (typeof r.lag_s !== "number") return "lag not known";
  return r.lag_s > 0 ? `${seconds(r.lag_s)} behind at most` : "";
}

// details is that and all else that is worth a word.
export function details(r) {
  const words = [behind(r)];
  if (r.unreplayed_bytes > 0) words.push(`${bytes(r.unreplayed_bytes)} not replayed yet`);
  if (!r.primary_opened) words.push("the primary has not answered since start: nothing can be changed through this node");
  return words.filter(Boolean).join("; ");
}
