// @ts-check
// A middleware for Express, Connect and node:http that asks Headgate before a
// request is served: POST /v1/check. When Headgate does not answer in time the
// request passes (fail open), or is answered by 503 (fail closed).

import { randomUUID } from "node:crypto";
import { Agent, request as httpRequest } from "node:http";

/** @typedef {import("node:http").IncomingMessage} Incoming */
/** @typedef {import("node:http").ServerResponse} Outgoing */

/**
 * @typedef {object} Options
 * @property {string} url address of Headgate, such as http://headgate:8080
 * @property {string} domain the domain of its rules
 * @property {(req: Incoming) => {key: string, value: string}[]} entries what the request is limited on
 * @property {number} [timeout] milliseconds; default 20
 * @property {boolean} [failClosed] default false
 * @property {(error: Error) => void} [observe] told when Headgate did not decide
 */

/** Header fields of the check's answer that the client gets too. */
const passed = ["ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset",
  "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"];
const maxAnswer = 64 << 10; // bytes

/**
 * @param {URL} url @param {Agent} agent @param {string} body @param {number} timeout milliseconds, all together
 * @returns {Promise<{status: number, headers: import("node:http").IncomingHttpHeaders, body: string}>}
 */
function post(url, agent, body, timeout) {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
    const req = httpRequest(url, { method: "POST", agent, headers, signal: AbortSignal.timeout(timeout) }, (res) => {
      let text = "";
      res.setEncoding("utf8");
      res.on("data", (part) => {
        text += part;
        if (text.length > maxAnswer) req.destroy(new Error("the answer is too long"));
      });
      res.on("error", reject);
      res.on("end", () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body: text }));
    });
    req.on("error", reject);
    req.end(body);
  });
}

/**
 * Sends body, and once more over another connection when that broke: one that was kept may
 * have been closed in the meantime, or the answer was lost.
 * @param {URL} url @param {Agent} agent @param {string} body @param {number} timeout milliseconds, all together
 */
async function ask(url, agent, body, timeout) {
  const end = performance.now() + timeout;
  try {
    return await post(url, agent, body, timeout);
  } catch (error) {
    const left = end - performance.now();
    if (left < 1 || /** @type {{code?: unknown}} */ (error).code !== "ECONNRESET") throw error;
    return post(url, agent, body, Math.floor(left));
  }
}

/** @param {string} text @returns {{allowed?: unknown}} */
function parse(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/**
 * Returns the middleware.
 * @param {Options} options
 * @returns {(req: Incoming, res: Outgoing, next: (error?: unknown) => void) => Promise<void>}
 */
export function limit({ url, domain, entries, timeout = 20, failClosed = false, observe = () => {} }) {
  const target = new URL("/v1/check", url);
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 64 });
  return async function (req, res, next) {
    let answer;
    try {
      // By the id Headgate decides and counts the check once, however often it arrives.
      const check = JSON.stringify({ id: randomUUID(), domain, descriptors: [{ entries: entries(req) }] });
      answer = await ask(target, agent, check, timeout);
      const { allowed } = parse(answer.body);
      // Anything but a decision, a page of a proxy for instance, is a failure.
      if (typeof allowed !== "boolean") throw new Error(`Headgate answered ${answer.status} without a decision: ${answer.body.slice(0, 200)}`);
      for (const name of passed) {
        const value = answer.headers[name];
        if (value !== undefined) res.setHeader(name, value);
      }
      if (!allowed) return refuse(res, answer.status, String(answer.headers["content-type"]), answer.body);
    } catch (error) {
      observe(/** @type {Error} */ (error));
      if (failClosed) {
        res.setHeader("Retry-After", "1");
        return refuse(res, 503, "application/json", '{"error":"service_unavailable"}\n');
      }
    }
    next();
  };
}

/** @param {Outgoing} res @param {number} status @param {string} media @param {string} body */
function refuse(res, status, media, body) {
  res.statusCode = status;
  res.setHeader("Content-Type", media);
  res.setHeader("Cache-Control", "no-store");
  res.end(body);
}
