// Numbers and times as people read them, always with their unit.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// none stands where there is no number.
export const none = "–";

const isNumber = (n) => typeof n === "number" && Number.isFinite(n);

// count is a whole number of things.
export function count(n) {
  return isNumber(n) ? whole.format(n) : none;
}

// about is a number with three digits or so.
export function about(n) {
  if (!isNumber(n)) return none;
  const size = Math.abs(n);
  if (size === 0) return "0";
  if (size < 0.005) return n < 0 ? "> -0.01" : "< 0.01";
  if (size < 10) return hundredths.format(n);
  if (size < 100) return tenths.format(n);
  if (size < 100000) return whole.format(n);
  return short.format(n);
}

// rate is so many a second.
export function rate(n) {
  return isNumber(n) ? `${about(n)}/s` : none;
}

// percent is a share of 1 in percent.
export function percent(share) {
  if (!isNumber(share)) return none;
  const n = share * 100;
  if (n === 0 || n === 100) return `${n} %`;
  if (n < 0.01) return "< 0.01 %";
  return `${n < 10 ? hundredths.format(n) : tenths.format(n)} %`;
}

// seconds is a length of time that is given in seconds.
export function seconds(s) {
  if (!isNumber(s)) return none;
  if (s === 0) return "0 s";
  if (s < 1e-3) return `${whole.format(s * 1e6)} µs`;
  if (s < 1) return `${(s < 0.01 ? hundredths : s < 0.1 ? tenths : whole).format(s * 1e3)} ms`;
  if (s < 90) return `${s < 10 ? tenths.format(s) : whole.format(s)} s`;
  if (s < 5400) return `${whole.format(s / 60)} min`;
  if (s < 129600) return `${tenths.format(s / 3600)} h`;
  return `${tenths.format(s / 86400)} d`;
}

// millis is a length of time that is given in milliseconds.
export function millis(ms) {
  return isNumber(ms) ? seconds(ms / 1000) : none;
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(n) {
  if (!isNumber(n)) return none;
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? n : tenths.format(n)} ${units[unit]}`;
}

// age is how long ago an instant was.
export function age(instant, now) {
  const at = Date.parse(instant);
  if (Number.isNaN(at)) return none;
  const s = Math.max(0, Math.round((now - at) / 1000));
  return `${s < 90 ? `${s} s` : seconds(s)} ago`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const clockMillis = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
const dayClock = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// hms is the time of day here.
export function hms(instant) {
  return clock.format(new Date(instant));
}

// hmsm is hms with milliseconds.
export function hmsm(instant) {
  return clockMillis.format(new Date(instant));
}

// hm is the time of day to the minute.
export function hm(instant) {
  return clock.format(new Date(instant)).slice(0, 5);
}

const justDate = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

// date is the day of an instant here.
export function date(instant) {
  return justDate.format(new Date(instant));
}

// day is a date and time here.
export function day(instant) {
  return dayClock.format(new Date(instant));
}

const utc = (instant) => new Date(instant).toISOString().replace("T", " ").replace("Z", " UTC");

// zone is the place of which times are, and how far it is from UTC now.
export function zone() {
  const offset = new Intl.DateTimeFormat("en", { timeZoneName: "longOffset" }).formatToParts().find((p) => p.type === "timeZoneName").value;
  return `${Intl.DateTimeFormat().resolvedOptions().timeZone}, ${offset.replace("GMT", "UTC")}`;
}

// time is an instant as an element: local, and in UTC under the pointer. A text that is
// none, or the zero time, is shown as none.
export function time(instant, as = day) {
  const at = new Date(instant ?? NaN);
  if (Number.isNaN(at.getTime()) || at.getUTCFullYear() < 1970) return h("span", null, none);
  return h("time", { datetime: at.toISOString(), title: utc(at) }, as(at));
}

// version is the beginning of one, which is long.
export function version(v) {
  if (!v) return none;
  return v.length > 12 ? v.slice(0, 12) : v;
}

// limit is a limit as the admin API tells it.
export function limit(l) {
  if (!l) return none;
  if (l.unlimited) return "unlimited";
  if (l.requests_per_unit === undefined || l.requests_per_unit === null) return l.source === "rule" ? "as the rules say" : none;
  const burst = l.burst && l.burst !== l.requests_per_unit ? `, burst ${count(l.burst)}` : "";
  return `${count(l.requests_per_unit)} per ${l.unit}${burst}`;
}

// limits is a quota with all its limits.
export function limits(q) {
  return q?.limits?.length ? q.limits.map(limit).join(" and ") : limit(q);
}

const outcomes = {
  allowed: "allowed",
  denied: "denied",
  shadow_denied: "denied in shadow",
  degraded_allowed: "allowed, degraded",
  degraded_denied: "denied, degraded",
  local_allowed: "allowed by share",
  local_denied: "denied by share",
  open_denied: "denied, limit used up on this node",
  unmatched: "no rule",
  unknown_domain: "unknown domain",
};

// outcome is the word for one.
export function outcome(name) {
  return outcomes[name] ?? name;
}

// What a limit that is none of the main ones is, and what its denial is called.
const roles = { ban: "ban", concurrency: "concurrency limit", secondary: "secondary limit", sustained: "limit on time in flight", candidate: "candidate" };
const denials = { ban: "denied: banned", concurrency: "denied: too many in flight", secondary: "denied: secondary limit", sustained: "denied: time in flight", candidate: "denied: candidate" };

// role is the word for what a limit is, "" for a main one.
export const role = (name) => (name === "main" ? "" : roles[name] ?? name ?? "");

// verdict is the word for the outcome of an event, which says what kind of limit it was.
export const verdict = (e) => (e.outcome === "denied" && denials[e.role]) || outcome(e.outcome);

// usedWords says how much of its limit an event has found used; of a ban that is the denials which
// were too many.
export const usedWords = (e) => (e.limit ? `${count(e.used)} of ${count(e.limit)}${{ ban: " denials", concurrency: " in flight" }[e.role] ?? ""}` : none);

// tone is the colour of an outcome.
export function tone(name, allowed) {
  if (name.startsWith("degraded") || name.startsWith("local") || name === "open_denied") return "degraded";
  if (name === "shadow_denied") return "shadow";
  if (name === "denied") return "denied";
  if (name.startsWith("un")) return "plain";
  return allowed === false ? "denied" : "allowed";
}
