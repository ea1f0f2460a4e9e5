import type { IncomingMessage, ServerResponse } from "node:http";

import { decide, denialOf, turn, type LimitOptions } from "./answer.js";

export { decisionOf, type LimitOptions } from "./answer.js";

/** A middleware for Express 4 and 5, Connect and node:http that asks Headgate before a request is served. It sets
 * the fields in which clients are told their limits, holds back what is to wait, and answers a denial by 429, or
 * by 503 where nothing could be decided. What `check` throws goes to `next`. */
export function limit<Request extends IncomingMessage = IncomingMessage>(
  options: LimitOptions<Request>,
): (request: Request, response: ServerResponse, next: (error?: unknown) => void) => void {
  return (request, response, next) => {
    serve(options, request, response).then(
      (passes) => { if (passes) next(); },
      next,
    );
  };
}

/** Whether the request goes on. */
async function serve<Request extends IncomingMessage>(options: LimitOptions<Request>, request: Request, response: ServerResponse): Promise<boolean> {
  const decision = await decide(options, request);
  if (decision === undefined) return true;
  if (response.headersSent || response.destroyed) return false; // answered by a time-out, or the client has gone
  for (const [name, value] of Object.entries(decision.headers)) response.setHeader(name, value);
  if (decision.allowed) {
    if (decision.delayMs > 0) await turn(decision.delayMs, response);
    return !response.destroyed;
  }
  const denial = denialOf(decision);
  response.writeHead(denial.status, denial.headers);
  response.end(denial.body);
  return false;
}
