// What the middlewares of all frameworks do with a check.

import { Headgate, HeadgateError } from "./headgate.js";
import type { Check, Decision } from "./wire.js";

/** How a middleware asks. Request is that of its framework. */
export interface LimitOptions<Request> {
  /** Whom to ask. */
  readonly headgate: Headgate;
  /** What a request is limited on; undefined lets it pass unasked. What it throws is an error of the request. */
  readonly check: (request: Request) => Check | undefined | Promise<Check | undefined>;
  /** Told when the server refuses a check, which is a fault of `check` or of the token's rights. The request
   * then goes as the failure mode of `headgate` says. Default: a warning of the process, once for each message. */
  readonly onRefused?: (error: HeadgateError, request: Request) => void;
}

/** What a client is told. */
export interface Denial {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const decisions = new WeakMap<object, Decision>();

/** The decision about a request that a middleware has let pass: counts, soft limits, why it is degraded. Of several
 * middlewares the last. undefined for a request that was not asked about. request is the one of the framework. */
export function decisionOf(request: object): Decision | undefined {
  return decisions.get(request);
}

const maxWarnings = 100;
const warned = new Set<string>();

function warn(error: HeadgateError): void {
  if (warned.has(error.message) || warned.size >= maxWarnings) return;
  warned.add(error.message);
  process.emitWarning(error.message, "HeadgateWarning");
}

/** Asks about a request. */
export async function decide<Request extends object>(options: LimitOptions<Request>, request: Request): Promise<Decision | undefined> {
  const check = await options.check(request);
  if (check === undefined) return undefined;
  let decision: Decision;
  try {
    decision = await options.headgate.check(check);
  } catch (error) {
    if (!(error instanceof HeadgateError)) throw error;
    (options.onRefused ?? warn)(error, request);
    decision = options.headgate.undecided("store_misconfigured");
  }
  decisions.set(request, decision);
  return decision;
}

/** What the client of a denied request is told. */
export function denialOf(decision: Decision): Denial {
  const body = decision.body ?? { mediaType: "application/json", text: "" };
  return {
    status: decision.status,
    headers: { ...decision.headers, "content-type": body.mediaType, "cache-control": "no-store" },
    body: body.text,
  };
}

/** Waits until the turn of a request that is held back, or until ended says that its client has gone. */
export function turn(delayMs: number, ended: { once(event: "close", listener: () => void): unknown; off(event: "close", listener: () => void): unknown }): Promise<void> {
  return new Promise((resolve) => {
    const go = (): void => {
      clearTimeout(timer);
      ended.off("close", go);
      resolve();
    };
    const timer = setTimeout(go, delayMs);
    ended.once("close", go);
  });
}
