import type { FastifyReply, FastifyRequest } from "fastify";

import { decide, denialOf, turn, type LimitOptions } from "./answer.js";

export { decisionOf, type LimitOptions } from "./answer.js";

/** A hook for Fastify 4 and later that asks Headgate before a request is served: for all routes by
 * `app.addHook("onRequest", limit({...}))`, or for one by its option `onRequest`. It sets the fields in which clients
 * are told their limits, holds back what is to wait, and answers a denial by 429, or by 503 where nothing could be
 * decided. What `check` throws is an error of the request. As `preHandler` it sees the body too. */
export function limit(options: LimitOptions<FastifyRequest>): (request: FastifyRequest, reply: FastifyReply) => Promise<unknown> {
  return async (request, reply) => {
    const decision = await decide(options, request);
    if (decision === undefined || reply.sent) return undefined;
    if (decision.allowed) {
      reply.headers(decision.headers);
      if (decision.delayMs > 0) await turn(decision.delayMs, reply.raw);
      return reply.raw.destroyed ? reply.hijack() : undefined;
    }
    const denial = denialOf(decision);
    return reply.code(denial.status).headers(denial.headers).send(denial.body);
  };
}
