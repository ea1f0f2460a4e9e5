// A fetch that keeps to the limits which servers tell: it spreads its requests
// when little is left, waits as Retry-After asks, and sends again what was
// refused, within a budget. It needs nothing but a fetch.

/** What one answer says about a limit; null for what it does not say. */
export interface Level {
  readonly remaining: number;
  readonly limit: number | null;
  /** Seconds from now. */
  readonly reset: number | null;
}

/** How a limited fetch waits. The zero value of each is its default. */
export interface LimitedFetchOptions {
  /** Sends; default the global one. */
  readonly fetch?: typeof fetch;
  /** Bound of each wait in seconds; default 30. */
  readonly maxWait?: number;
  /** How often one request is sent again; default 3. */
  readonly maxRetries?: number;
  /** Part of a limit below which requests are spread; default 0.2. */
  readonly paceBelow?: number;
  /** Seconds of a clock that never steps back. */
  readonly now?: () => number;
  readonly sleep?: (seconds: number, signal?: AbortSignal | null) => Promise<void>;
  /** From 0 to 1. */
  readonly random?: () => number;
  /** Told of each wait and retry. */
  readonly observe?: (event: { kind: "waited" | "retried"; seconds: number }) => void;
}

/** A request that was not sent: it would have had to wait for too long. */
export class WaitError extends Error {
  /** Until a request may pass. */
  readonly seconds: number;

  constructor(origin: string, seconds: number) {
    super(`rate limit of ${origin}: the next request may pass in ${Math.ceil(seconds)} s`);
    this.name = "WaitError";
    this.seconds = seconds;
  }
}

const firstBackoff = 0.1, lastBackoff = 10; // seconds
const savedRetries = 10, earnedByRequest = 0.1;
const maxOrigins = 1000;
const farthest = 366 * 24 * 3600; // no limit has a longer window
const idempotent = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

/** A number of seconds, or of units. */
function numeral(text: string | null | undefined): number | null {
  return text != null && /^\d{1,15}(\.\d{1,15})?$/.test(text.trim()) ? Number(text) : null;
}

/** Seconds from now. */
function delta(text: string | null | undefined): number | null {
  const seconds = numeral(text);
  return seconds === null ? null : Math.min(seconds, farthest);
}

/** The instant of an answer by its server's clock, in seconds. */
function serverTime(h: Headers): number {
  const date = Date.parse(h.get("date") ?? "");
  return (Number.isNaN(date) ? Date.now() : date) / 1000;
}

/** Reads Retry-After, in seconds or as a date: seconds from now, null where it says nothing. */
export function retryAfter(h: Headers): number | null {
  const text = h.get("retry-after");
  const seconds = numeral(text);
  if (seconds !== null) return Math.min(seconds, farthest);
  const at = /GMT$/.test(text ?? "") ? Date.parse(text ?? "") / 1000 : NaN;
  return Number.isNaN(at) ? null : Math.min(Math.max(at - serverTime(h), 0), farthest);
}

/** Reads the limits that an answer tells, in the newest of its generations. */
export function levels(h: Headers): Level[] {
  if ((numeral(h.get("age")) ?? 0) > 0) return []; // out of a cache
  const text = h.get("ratelimit");
  if (text !== null) {
    const found = text.trimStart().startsWith('"') ? draft8(text, h.get("ratelimit-policy") ?? "") : draft7(text);
    if (found.length > 0) return found;
  }
  for (const prefix of ["ratelimit", "x-ratelimit"]) {
    const remaining = numeral(h.get(`${prefix}-remaining`));
    if (remaining === null) continue;
    const limit = /^\s*(\d{1,15})/.exec(h.get(`${prefix}-limit`) ?? ""); // also 120;window=60
    let reset = numeral(h.get(`${prefix}-reset`));
    // A number is either seconds from now or an instant near now: never both.
    if (reset !== null && reset > farthest) {
      const left = reset - serverTime(h);
      reset = Math.abs(left) <= farthest ? Math.max(left, 0) : null;
    }
    return [{ remaining: Math.floor(remaining), limit: limit ? Number(limit[1]) : null, reset }];
  }
  return [];
}

const item = /"((?:[ !#-[\]-~]|\\["\\])*)"((?:; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[^"\\]|\\.)*"|[^,;"]*))?)*)\s*(?:,\s*|$)/y;

/** The members of a list of strings with parameters; [] if it is malformed. */
function list(text: string): { name: string; params: Record<string, string> }[] {
  const found: { name: string; params: Record<string, string> }[] = [];
  item.lastIndex = 0;
  text = text.trim();
  while (item.lastIndex < text.length) {
    const m = item.exec(text);
    if (m === null || found.length === 32) return [];
    const params: Record<string, string> = Object.create(null);
    for (const p of m[2]!.matchAll(/; *([a-z*][a-z0-9_.*-]*)(?:=("(?:[^"\\]|\\.)*"|[^,;"]*))?/g)) params[p[1]!] = p[2] ?? "";
    found.push({ name: m[1]!, params });
  }
  return found;
}

/** "writes";r=17;t=42 */
function draft8(text: string, policies: string): Level[] {
  const quota = new Map(list(policies).map((p) => [p.name, p.params]));
  return list(text).flatMap(({ name, params }) => {
    const remaining = numeral(params["r"]), policy = quota.get(name);
    // Bytes and concurrency are nothing that a request more or less would change.
    if (remaining === null || (policy?.["qu"] ?? '"requests"') !== '"requests"') return [];
    return [{ remaining, limit: numeral(policy?.["q"]), reset: delta(params["t"]) }];
  });
}

/** limit=20, remaining=17, reset=42 */
function draft7(text: string): Level[] {
  const members = new Map(text.split(",").map((m) => m.trim().split("=", 2) as [string, string]));
  const remaining = numeral(members.get("remaining"));
  if (remaining === null) return [];
  return [{ remaining, limit: numeral(members.get("limit")), reset: delta(members.get("reset")) }];
}

/** What is known about one origin. */
class Origin {
  blockedUntil = 0;
  remaining = Infinity;
  limit: number | null = null;
  until = 0; // when the limit resets
  next = 0; // when the next request is due while they are spread
  retries = savedRetries;

  reserve(now: number, paceBelow: number): { seconds: number; mustWait: boolean } {
    if (now < this.blockedUntil) return { seconds: this.blockedUntil - now, mustWait: true };
    if (now >= this.until) return { seconds: 0, mustWait: false };
    if (this.remaining <= 0) return { seconds: this.until - now, mustWait: true };
    this.remaining--;
    if (this.remaining >= (this.limit === null ? 10 : this.limit * paceBelow)) return { seconds: 0, mustWait: false };
    const start = Math.min(Math.max(now, this.next), this.until);
    this.next = start + (this.until - start) / (this.remaining + 1);
    return { seconds: start - now, mustWait: false };
  }

  learn(told: readonly Level[], now: number): void {
    const tightest = told.filter((l) => l.reset !== null).sort((a, b) => a.remaining - b.remaining)[0];
    if (tightest === undefined || tightest.reset === null) return;
    this.remaining = tightest.remaining;
    this.limit = tightest.limit;
    this.until = now + tightest.reset;
    this.next = Math.min(this.next, now + (this.until - now) / (this.remaining + 1));
  }
}

const longestTimer = 2_147_483; // seconds; a longer one would end at once

async function sleepFor(seconds: number, signal?: AbortSignal | null): Promise<void> {
  for (let left = seconds; left > 0; left -= longestTimer) await sleepOnce(Math.min(left, longestTimer), signal);
}

function sleepOnce(seconds: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => { clearTimeout(timer); reject(signal?.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); resolve(); }, seconds * 1000);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Returns a fetch that keeps to limits. */
export function limitedFetch(options: LimitedFetchOptions = {}): typeof fetch {
  const { maxWait = 30, maxRetries = 3, paceBelow = 0.2, random = Math.random, observe = () => {} } = options;
  const send = options.fetch ?? fetch, sleep = options.sleep ?? sleepFor;
  const now = options.now ?? (() => performance.now() / 1000);
  const origins = new Map<string, Origin>();

  function originOf(name: string): Origin {
    const origin = origins.get(name) ?? new Origin();
    origins.delete(name); // to the end: the one used last is dropped last
    origins.set(name, origin);
    if (origins.size > maxOrigins) origins.delete(origins.keys().next().value!);
    return origin;
  }

  return async function (input, init) {
    const request = new Request(input, init);
    const name = new URL(request.url).origin, origin = originOf(name);
    const mayRepeat = idempotent.has(request.method) || request.headers.has("idempotency-key");
    origin.retries = Math.min(origin.retries + earnedByRequest, savedRetries);
    for (let attempt = 0; ; attempt++) {
      const wait = origin.reserve(now(), paceBelow);
      if (wait.mustWait && wait.seconds > maxWait) throw new WaitError(name, wait.seconds);
      if (wait.seconds > 0) {
        observe({ kind: "waited", seconds: wait.seconds });
        await sleep(Math.min(wait.seconds, maxWait), request.signal);
      }
      // A body can be read once: each attempt but the last takes a copy.
      const last = !mayRepeat || attempt === maxRetries;
      const response = await send(last ? request : request.clone());
      const told = retryAfter(response.headers), known = levels(response.headers), at = now();
      origin.learn(known, at);
      if (response.status !== 429 && response.status !== 503) return response;
      if (told !== null) origin.blockedUntil = Math.max(origin.blockedUntil, at + told);
      const empty = Math.max(0, ...known.map((l) => (l.remaining === 0 ? l.reset ?? 0 : 0)));
      let seconds = told || empty;
      if (seconds > maxWait || last || origin.retries < 1) return response;
      origin.retries--;
      seconds = seconds > 0
        ? seconds + random() * Math.min(seconds / 10, 1)
        : Math.min(firstBackoff * 2 ** attempt, lastBackoff) * (0.5 + random() / 2);
      observe({ kind: "retried", seconds });
      await response.body?.cancel().catch(() => {}); // it may have broken off, which hinders nothing
      await sleep(seconds, request.signal);
    }
  };
}
