import { Breaker } from "./breaker.js";
import {
  decodeBatch, decodeDecision, decodeProblem, decodeSettled, encodeCall, passedOn,
  type Check, type Commit, type Decision, type Reserve, type Settled,
} from "./wire.js";

/** Which way requests go when Headgate does not answer: `open` lets them pass, `closed` denies them by 503. */
export type Failure = "open" | "closed";

/** Why Headgate did not decide: no answer in time; no connection, a broken one, or a status from 500 on
 * without a decision, as of a proxy; it failed three times in a row and is not asked for a moment; it, or
 * something in its place, answered what is no decision, or does not know the token. */
export type Reason = "store_timeout" | "store_unavailable" | "store_breaker" | "store_misconfigured";

/** How a client asks. */
export interface HeadgateOptions {
  /** Address of a Headgate, such as `http://headgate:8080`; paths go below it. */
  readonly url: string | URL;
  /** A token of the server's callers, or what returns the one that is in force. It is sent as
   * `Authorization: Bearer`, and stands in no error. */
  readonly token?: string | (() => string);
  /** Milliseconds for a call as a whole, connecting and a retry included; default 100. */
  readonly timeoutMs?: number;
  /** Default `open`. */
  readonly failure?: Failure;
  /** How often a call whose answer was lost is sent again within the timeout: 0 (default) or 1. Each check then
   * has an id, by which the server charges it once; that costs the server two more trips to its store. */
  readonly retries?: 0 | 1;
  /** Sends; default the global one, which keeps connections. For TLS with files of your own, one over a
   * dispatcher of undici. */
  readonly fetch?: typeof fetch;
  /** Told each time that the failure mode decides. It must not throw. */
  readonly onDegraded?: (reason: Reason, error: Error) => void;
  /** Milliseconds of a clock that never steps back; default `performance.now`. */
  readonly now?: () => number;
}

/** What one call may be given. */
export interface CallOptions {
  /** Ends the call, which then rejects by the reason of the signal. */
  readonly signal?: AbortSignal;
}

/** A call that the server refused, such as a check that is malformed (400) or that takes a right which the
 * token has not (403). Nothing was decided or charged. */
export class HeadgateError extends Error {
  /** Of the answer; 0 for a call that was not sent. */
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly hint: string;

  constructor(operation: string, status: number, problem: { title: string; detail: string; hint?: string }) {
    const { title, detail, hint = "" } = problem;
    super(`headgate ${operation}: ${title}: ${detail}${hint === "" ? "" : `; hint: ${hint}`}`);
    this.name = "HeadgateError";
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.hint = hint;
  }
}

/** Bounds the checks of one batch, as the server does. */
export const maxChecks = 1000;
const maxAnswer = 4 << 20; // bytes
const defaultTimeoutMs = 100;
const longestTimeoutMs = 2 ** 31 - 1; // of a timer

/** An answer, read whole. */
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: unknown;
}

/** No answer, or none that can be used. */
class Failed extends Error {
  readonly reason: Reason;

  constructor(reason: Reason, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "HeadgateUnavailable";
    this.reason = reason;
  }
}

/** Asks a Headgate over HTTP. One is enough for a process; it has nothing to close. */
export class Headgate {
  readonly failure: Failure;
  readonly #base: string;
  readonly #token: string | (() => string) | undefined;
  readonly #timeoutMs: number;
  readonly #retries: number;
  readonly #fetch: typeof fetch;
  readonly #onDegraded: (reason: Reason, error: Error) => void;
  readonly #now: () => number;
  readonly #breaker = new Breaker();

  /** Throws a TypeError for options that cannot be used. It does not ask the server yet. */
  constructor(options: HeadgateOptions) {
    this.#base = baseOf(options.url);
    this.#token = options.token;
    if (typeof options.token === "string") bearer(options.token);
    this.#timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    if (!(this.#timeoutMs >= 1 && this.#timeoutMs <= longestTimeoutMs)) {
      throw new TypeError(`headgate: timeoutMs ${this.#timeoutMs}; hint: milliseconds, from 1 on`);
    }
    this.failure = options.failure ?? "open";
    if (this.failure !== "open" && this.failure !== "closed") {
      throw new TypeError(`headgate: failure ${String(this.failure)}; hint: open or closed`);
    }
    this.#retries = options.retries ?? 0;
    if (this.#retries !== 0 && this.#retries !== 1) {
      throw new TypeError(`headgate: ${String(this.#retries)} retries; hint: 0 or 1`);
    }
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#onDegraded = options.onDegraded ?? (() => {});
    this.#now = options.now ?? (() => performance.now());
  }

  /** Decides whether a request may pass. When the server does not answer in time the failure mode decides, and
   * `degraded` says why. Rejects by a HeadgateError when the server refuses the check. */
  async check(check: Check, options?: CallOptions): Promise<Decision> {
    return this.#decide("check", check, this.#retries, options);
  }

  /** Decides 1 to 1,000 checks in their order and in one call; one decision for each. */
  async checkAll(checks: readonly Check[], options?: CallOptions): Promise<Decision[]> {
    if (checks.length === 0) return [];
    if (checks.length > maxChecks) {
      throw new HeadgateError("check", 0, { title: "Too many checks", detail: `${checks.length} checks`, hint: `up to ${maxChecks} in one call` });
    }
    const body = { checks: checks.map((each) => encodeCall(each, this.#draw(this.#retries))) };
    return this.#call("check", body, this.#retries, options, (answer) => decodeBatch(answer.json, checks.length), (reason) =>
      checks.map(() => this.undecided(reason)));
  }

  /** Says that a request which holds a slot goes on. The check again, with the `id` of its hold. */
  async renew(check: Check & { readonly hold: string }, options?: CallOptions): Promise<Decision> {
    return this.#decide("renew", check, 0, options);
  }

  /** Frees the slot of a request that has ended. The check again, with the `id` of its hold. */
  async release(check: Check & { readonly hold: string }, options?: CallOptions): Promise<Decision> {
    return this.#decide("release", check, 0, options);
  }

  /** Reserves a cost that is known only afterwards. When it is allowed the decision has a `reservation`, except
   * where the failure mode let it pass: then there is nothing to settle. */
  async reserve(reserve: Reserve, options?: CallOptions): Promise<Decision> {
    return this.#decide("reserve", reserve, this.#retries, options);
  }

  /** Settles a reservation by what was used. */
  async commit(commit: Commit, options?: CallOptions): Promise<Settled> {
    return this.#settle("commit", commit, options);
  }

  /** Settles a reservation of which nothing was used. */
  async cancel(reservation: string, options?: CallOptions): Promise<Settled> {
    return this.#settle("cancel", { reservation }, options);
  }

  #draw(retries: number): string | undefined {
    return retries > 0 ? crypto.randomUUID() : undefined;
  }

  #decide(operation: string, check: Check | Reserve, retries: number, options: CallOptions | undefined): Promise<Decision> {
    const read = (answer: Answer): Decision | undefined => {
      const decision = decodeDecision(answer.json);
      if (decision === undefined) return undefined;
      const told = { ...decision, headers: passedOn(answer.headers) };
      if (decision.allowed) return { ...told, status: 200 };
      // A denial is never passed on as a success, whatever the answer says.
      const status = answer.status === 200 ? 429 : answer.status;
      return { ...told, status, body: { mediaType: answer.headers.get("content-type") ?? "application/json", text: answer.text } };
    };
    return this.#call(operation, encodeCall(check, this.#draw(retries)), retries, options, read, (reason) => this.undecided(reason));
  }

  #settle(operation: string, commit: Commit, options: CallOptions | undefined): Promise<Settled> {
    return this.#call(operation, encodeCall(commit), this.#retries, options, (answer) => decodeSettled(answer.json), (reason) => (
      { settled: false, outcome: "undecided", rule: "", degraded: reason }));
  }

  /** The decision of the failure mode, for a check that was not decided. */
  undecided(reason: Reason): Decision {
    const allowed = this.failure === "open";
    const decision: Decision = {
      allowed, matched: false, delayMs: 0, rule: "", soft: [], degraded: reason, status: allowed ? 200 : 503, headers: {},
    };
    return allowed ? decision : { ...decision, retryAfterS: 1, headers: { "retry-after": "1" }, body: unavailable };
  }

  /** Makes one call, unless the breaker is open, and answers by fallback when it fails. */
  async #call<T>(
    operation: string, body: unknown, retries: number, options: CallOptions | undefined,
    read: (answer: Answer) => T | undefined, fallback: (reason: Reason) => T,
  ): Promise<T> {
    const signal = options?.signal;
    signal?.throwIfAborted();
    if (!this.#breaker.allow(this.#now())) {
      return this.#degrade(new Failed("store_breaker", `headgate ${operation}: not asked, because it has failed of late`), fallback);
    }
    let succeeded: boolean | undefined; // undefined: the call says nothing about the server
    try {
      const answer = await this.#ask(operation, JSON.stringify(body), retries, signal);
      const result = decided.has(answer.status) ? read(answer) : undefined;
      if (result === undefined) throw refusalOf(operation, answer);
      succeeded = true;
      return result;
    } catch (error) {
      if (error instanceof HeadgateError) succeeded = true;
      if (!(error instanceof Failed)) throw error;
      succeeded = false;
      return this.#degrade(error, fallback);
    } finally {
      if (signal?.aborted || succeeded === undefined) this.#breaker.forget();
      else this.#breaker.done(this.#now(), succeeded);
    }
  }

  #degrade<T>(error: Failed, fallback: (reason: Reason) => T): T {
    this.#onDegraded(error.reason, error);
    return fallback(error.reason);
  }

  /** Sends a call, and again when its answer is lost; each try has an even share of the time that is left. */
  async #ask(operation: string, body: string, retries: number, signal: AbortSignal | undefined): Promise<Answer> {
    const end = this.#now() + this.#timeoutMs;
    for (let left = retries; ; left--) {
      const share = (end - this.#now()) / (left + 1);
      try {
        return await this.#exchange(operation, body, share, signal);
      } catch (error) {
        if (left === 0 || !(error instanceof Failed) || error.reason === "store_misconfigured") throw error;
      }
    }
  }

  async #exchange(operation: string, body: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<Answer> {
    const headers: Record<string, string> = { "content-type": "application/json", accept: "application/json" };
    const token = typeof this.#token === "function" ? shown(operation, this.#token) : this.#token;
    if (token !== undefined) headers["authorization"] = bearer(token);
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    const timer = setTimeout(abort, Math.max(timeoutMs, 0));
    signal?.addEventListener("abort", abort, { once: true });
    try {
      // A redirection would carry the check, and perhaps the token, to where nobody said.
      const response = await this.#fetch(`${this.#base}/v1/${operation}`, { method: "POST", headers, body, redirect: "manual", signal: stop.signal });
      const text = await readText(operation, response);
      return { status: response.status, headers: response.headers, text, json: parse(text) };
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof Failed) throw error;
      if (stop.signal.aborted) throw new Failed("store_timeout", `headgate ${operation}: no answer in time`);
      throw new Failed("store_unavailable", `headgate ${operation}: no answer: ${said(error)}`, error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

/** The body of a denial by the failure mode. */
const unavailable = {
  mediaType: "application/problem+json",
  text: JSON.stringify({
    type: "about:blank", title: "Service Unavailable", status: 503, detail: "The limit could not be checked. Retry in 1 second.",
  }),
};

function baseOf(url: string | URL): string {
  let base: URL;
  try {
    base = new URL(url);
  } catch {
    throw new TypeError("headgate: the url cannot be read; hint: the address of a Headgate, such as http://headgate:8080");
  }
  if ((base.protocol !== "http:" && base.protocol !== "https:") || base.username !== "" || base.password !== "" || base.search !== "" || base.hash !== "") {
    throw new TypeError("headgate: the url is not of http or https, or has a user, a query or a fragment; hint: http://headgate:8080, and a token beside it");
  }
  // Not href, which keeps a lone "?" or "#", behind which the path would not be one.
  const address = (base.origin + base.pathname).replace(/\/+$/, "");
  if (address.endsWith("/v1/check")) throw new TypeError("headgate: the url ends with /v1/check; hint: leave that out, it is added");
  return address;
}

/** The header field of a token. What is wrong with one is said without it. */
function bearer(token: string): string {
  if (typeof token !== "string" || !/^[!-~]+$/.test(token)) throw new TypeError("headgate: the token is empty or has a space, a line break or another sign that cannot be sent");
  return `Bearer ${token}`;
}

/** The token of a function, which may fail. */
function shown(operation: string, token: () => string): string {
  try {
    const word = token();
    bearer(word);
    return word;
  } catch {
    throw new Failed("store_misconfigured", `headgate ${operation}: there is no token that can be sent`);
  }
}

/** Reads a body as text, up to its bound. */
async function readText(operation: string, response: Response): Promise<string> {
  if (response.body === null) return "";
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let text = "", length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    length += value.length;
    if (length > maxAnswer) {
      void reader.cancel().catch(() => {}); // the connection is of no more use
      throw new Failed("store_misconfigured", `headgate ${operation}: the answer is longer than ${maxAnswer} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What the platform says of a call that failed. Node keeps the reason one level below. */
function said(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = (inner as { code?: unknown } | null)?.code;
  if (typeof code === "string") return code;
  return inner instanceof Error ? inner.message : "unknown";
}

/** The statuses of decisions, and of what became of a reservation. */
const decided = new Set([200, 429, 503]);
/** The statuses by which the server refuses a call. 401 is for operators: no caller can mend it. */
const refusals = new Set([400, 403, 409, 410, 413, 415, 501]);

/** What to make of an answer without a decision. */
function refusalOf(operation: string, answer: Answer): Error {
  const problem = decodeProblem(answer.json);
  if (problem !== undefined && refusals.has(answer.status)) return new HeadgateError(operation, answer.status, problem);
  const what = answer.status === 401 ? "the server does not know the token" : `an answer with status ${answer.status} and no decision`;
  // From 500 on: what a proxy says for a server that is away.
  return new Failed(answer.status >= 500 ? "store_unavailable" : "store_misconfigured", `headgate ${operation}: ${what}`);
}
