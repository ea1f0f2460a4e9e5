// What travels in POST /v1/check and its kin, as pure functions: docs/check-api.md has the
// members of each object, which are the same here in camelCase.

/** Key and value of the entries of a descriptor, in order. A record keeps the order in which its
 * keys were written, except for keys that are whole numbers: those need pairs. Keys are never empty. */
export type Entries = Readonly<Record<string, string>> | readonly (readonly [key: string, value: string])[];

/** What a hit does; the server's default is `hit`. */
export type Op = "hit" | "charge" | "refund" | "reset" | "renew" | "release";

/** What a request is limited on: entries, or the same in text form, `user:42,endpoint:POST /orders`. */
export type Descriptor =
  | { readonly entries: Entries; readonly hits?: number; readonly op?: Op }
  | { readonly descriptor: string; readonly hits?: number; readonly op?: Op };

/** What each check may have besides. */
export interface Asked {
  /** Names the check, 1 to 256 bytes: a repeat is charged nothing and gets the first answer. Never let clients choose it. */
  readonly id?: string;
  /** Who takes a slot of limits on concurrency, 1 to 256 bytes; `true` has an id drawn. */
  readonly hold?: string | true;
  /** For `renew` and `release` alone: milliseconds in flight since the last call. */
  readonly inFlightMs?: number;
  /** Whom the caller asks for, for events. Nothing is decided by it. */
  readonly clientIp?: string;
  /** The same. */
  readonly userAgent?: string;
}

/** A check by the server's rules. One descriptor may stand here as `entries`, with its `hits`. */
export type RuleCheck = Asked & {
  /** By which rules to decide. Never empty. */
  readonly domain: string;
  /** Facts for rules that take their cost from the request, such as `content_length`; up to 32. */
  readonly attributes?: Readonly<Record<string, string>>;
} & (
    | { readonly descriptors: readonly Descriptor[] }
    | { readonly entries: Entries; readonly hits?: number; readonly op?: Op }
  );

/** A check by a limit that the caller names, which takes the right to. */
export interface KeyCheck extends Asked {
  /** Who is limited, best with the kind of it in front: `user:42`. Never empty. */
  readonly key: string;
  /** Hits per window, from 0, which denies all, to 2^50. */
  readonly limit: number;
  /** The length of the window in milliseconds, up to 366 days. */
  readonly windowMs: number;
  /** What the request costs, 1 unless said. 0 is a peek, a number below 0 a refund. */
  readonly hits?: number;
  /** Default `sliding_window`. */
  readonly algorithm?:
    | "sliding_window" | "fixed_window" | "sub_windows" | "sliding_log"
    | "token_bucket" | "leaky_bucket" | "leaky_queue" | "gcra" | "concurrency";
  /** Of `token_bucket` and `gcra`; default `limit`. */
  readonly burst?: number;
  readonly op?: Op;
}

export type Check = RuleCheck | KeyCheck;

/** A cost that is known only afterwards, see docs/reserve.md. */
export type Reserve = RuleCheck & {
  /** How long it may be settled, in milliseconds from 1,000 to 3,600,000; default 300,000. */
  readonly ttlMs?: number;
};

/** What was used of a reservation. */
export interface Commit {
  readonly reservation: string;
  /** One number, or one for each descriptor. Left out, what was reserved. */
  readonly hits?: number | readonly number[];
  readonly attributes?: Readonly<Record<string, string>>;
}

/** A soft limit that the request is above. */
export interface Soft {
  readonly action: string;
  readonly rule: string;
  readonly name?: string;
  readonly percent: number;
  readonly limit: number;
  readonly remaining: number;
  readonly delayMs?: number;
  readonly header?: string;
  readonly value?: string;
  readonly challenge?: string;
}

/** The body of a denial, as the server's `--body` or the rule wants it. */
export interface Body {
  readonly mediaType: string;
  readonly text: string;
}

/** What was decided. What is not known is left out. */
export interface Decision {
  /** Whether the request may pass. */
  readonly allowed: boolean;
  /** false when no rule and no limit of the caller applied, or the server did not answer. */
  readonly matched: boolean;
  /** The quota of a window, or the burst of a bucket. */
  readonly limit?: number;
  /** Hits that would pass now. */
  readonly remaining?: number;
  /** Milliseconds until the limit is as if unused. */
  readonly resetMs?: number;
  /** Milliseconds until its window ends. */
  readonly windowEndsMs?: number;
  /** Seconds until this request would pass, 0 when it may now. Left out where it never will, at this cost. */
  readonly retryAfterS?: number;
  /** How long an allowed request is to be held back, in milliseconds. */
  readonly delayMs: number;
  /** The id of the rule whose limit speaks; "" for none. */
  readonly rule: string;
  /** Not of a main limit: `concurrency`, `secondary`, `sustained`, `ban`. */
  readonly role?: string;
  readonly tier?: string;
  readonly source?: string;
  /** The slot that is held, and until when to renew or release it. */
  readonly hold?: { readonly id: string; readonly renewWithinMs: number };
  /** The soft limits that the request is above. */
  readonly soft: readonly Soft[];
  /** Why the store did not decide: `store_timeout`, `store_unavailable`, `store_breaker`, `store_misconfigured` and others. "" when it did. */
  readonly degraded: string;
  /** Of `reserve`: what settles it, and until when. */
  readonly reservation?: string;
  readonly expiresAt?: string;
  /** In a batch: the name of the limit and its window in seconds. */
  readonly name?: string;
  readonly windowS?: number;
  /** By which to answer the client: 200, 429, or 503 where it is denied because nothing could be decided. */
  readonly status: number;
  /** Header fields for the client, in lower case: `RateLimit` and its kin, `Retry-After`. Empty in a batch. */
  readonly headers: Readonly<Record<string, string>>;
  /** Of a denial. Not in a batch. */
  readonly body?: Body;
}

/** What became of a reservation. */
export interface Settled {
  readonly settled: boolean;
  /** `settled`, `settled_before`, `unknown`: there was nothing to settle, or `undecided`: then try again, which is safe. */
  readonly outcome: "settled" | "settled_before" | "unknown" | "undecided";
  readonly limit?: number;
  readonly remaining?: number;
  readonly resetMs?: number;
  readonly windowEndsMs?: number;
  readonly rule: string;
  readonly degraded: string;
}

/** Header fields of an answer that clients get too. */
const passed = [
  "ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset",
  "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-warning", "retry-after",
];

type Members = Record<string, unknown>;

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The objects of the wire that have names of the caller as keys, and so keep them. */
const named = new Set(["attributes"]);

/** Writes an object of the caller as one of the wire. */
function encode(value: unknown, name = ""): unknown {
  if (name === "entries") return encodeEntries(value as Entries);
  if (Array.isArray(value)) return value.map((each) => encode(each));
  if (!isObject(value) || named.has(name)) return value;
  const out: Members = {};
  for (const [key, member] of Object.entries(value)) {
    const wire = key.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
    out[wire] = encode(member, key);
  }
  return out;
}

function encodeEntries(entries: Entries): { key: string; value: string }[] {
  const pairs = Array.isArray(entries) ? (entries as readonly (readonly [string, string])[]) : Object.entries(entries);
  return pairs.map(([key, value]) => ({ key, value }));
}

/** Writes a check, a reservation or what settles one. drawn is the id of one that has none of its own. */
export function encodeCall(call: Check | Reserve | Commit, drawn?: string): unknown {
  const all: Members = { ...call };
  if (drawn !== undefined) all["id"] ??= drawn;
  if ("entries" in all) {
    const { entries, hits, op, ...rest } = all;
    const descriptor: Members = { entries };
    if (hits !== undefined) descriptor["hits"] = hits;
    if (op !== undefined) descriptor["op"] = op;
    return encode({ ...rest, descriptors: [descriptor] });
  }
  return encode(all);
}

function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The members that are there. */
function known<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}

/** The fields of headers that clients get too. */
export function passedOn(headers: Headers): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of passed) {
    const value = headers.get(name);
    if (value !== null) found[name] = value;
  }
  return found;
}

/** Reads a decision out of an answer of JSON; undefined if it is none, such as the page of a proxy. */
export function decodeDecision(value: unknown): Decision | undefined {
  if (!isObject(value) || typeof value["allowed"] !== "boolean") return undefined;
  const allowed = value["allowed"];
  return {
    allowed,
    matched: value["matched"] === true,
    delayMs: count(value["delay_ms"]) ?? 0,
    rule: text(value["rule"]) ?? "",
    soft: Array.isArray(value["soft"]) ? value["soft"].filter(isObject).map(decodeSoft) : [],
    degraded: text(value["degraded"]) ?? "",
    status: count(value["status"]) ?? (allowed ? 200 : 429),
    headers: {},
    ...known({
      limit: count(value["limit"]), remaining: count(value["remaining"]),
      resetMs: count(value["reset_ms"]), windowEndsMs: count(value["window_ends_ms"]),
      retryAfterS: count(value["retry_after_s"]),
      role: text(value["role"]), tier: text(value["tier"]), source: text(value["source"]),
      hold: decodeHold(value["hold"]),
      reservation: text(value["reservation"]), expiresAt: text(value["expires_at"]),
      name: text(value["name"]), windowS: count(value["window_s"]),
    }),
  };
}

function decodeHold(value: unknown): Decision["hold"] | undefined {
  if (!isObject(value) || typeof value["id"] !== "string") return undefined;
  return { id: value["id"], renewWithinMs: count(value["renew_within_ms"]) ?? 0 };
}

function decodeSoft(value: Members): Soft {
  return {
    action: text(value["action"]) ?? "", rule: text(value["rule"]) ?? "",
    percent: count(value["percent"]) ?? 0, limit: count(value["limit"]) ?? 0, remaining: count(value["remaining"]) ?? 0,
    ...known({
      name: text(value["name"]), delayMs: count(value["delay_ms"]),
      header: text(value["header"]), value: text(value["value"]), challenge: text(value["challenge"]),
    }),
  };
}

/** Reads the results of a batch of so many checks; undefined if they are not that. */
export function decodeBatch(value: unknown, checks: number): Decision[] | undefined {
  const results = isObject(value) ? value["results"] : undefined;
  if (!Array.isArray(results) || results.length !== checks) return undefined;
  const decisions = results.map(decodeDecision);
  return decisions.every((each) => each !== undefined) ? decisions : undefined;
}

/** Reads what became of a reservation; undefined if it is not that. */
export function decodeSettled(value: unknown): Settled | undefined {
  if (!isObject(value) || typeof value["settled"] !== "boolean") return undefined;
  const outcome = value["outcome"];
  if (outcome !== "settled" && outcome !== "settled_before" && outcome !== "unknown" && outcome !== "undecided") return undefined;
  return {
    settled: value["settled"], outcome, rule: text(value["rule"]) ?? "", degraded: text(value["degraded"]) ?? "",
    ...known({
      limit: count(value["limit"]), remaining: count(value["remaining"]),
      resetMs: count(value["reset_ms"]), windowEndsMs: count(value["window_ends_ms"]),
    }),
  };
}

/** What a problem says; undefined if value is none. */
export function decodeProblem(value: unknown): { title: string; detail: string; hint?: string } | undefined {
  if (!isObject(value) || typeof value["title"] !== "string") return undefined;
  return { title: value["title"], detail: text(value["detail"]) ?? "", ...known({ hint: text(value["hint"]) }) };
}
