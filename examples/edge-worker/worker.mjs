// Runs at the edge of a content network and asks Headgate about each request, before a cache
// or the origin is asked: Cloudflare Workers, and others that know modules with `fetch`.

import { Headgate, HeadgateError } from "@headgate/client";

// One for all requests of this worker, so that three failures in a row spare the next ones the wait.
let headgate;

/** What a request is limited on: its API key, or else the address of the client. */
function checkOf(request, env) {
  const domain = env.HEADGATE_DOMAIN ?? "edge";
  const key = request.headers.get("x-api-key");
  if (key !== null) return { domain, entries: { api_key: key } };
  // Set by the network, in place of what a client sends; other networks name it otherwise.
  const address = request.headers.get("cf-connecting-ip");
  return address === null ? undefined : { domain, entries: { remote_address: address } };
}

/** What Headgate says about a request, or undefined where nothing is asked or it refuses the question. */
async function decide(request, env) {
  headgate ??= new Headgate({
    url: env.HEADGATE_URL,
    ...(env.HEADGATE_TOKEN && { token: env.HEADGATE_TOKEN }),
    timeoutMs: Number(env.TIMEOUT_MS ?? 100),
  });
  const check = checkOf(request, env);
  if (check === undefined) return undefined;
  try {
    return await headgate.check(check);
  } catch (error) {
    if (!(error instanceof HeadgateError)) throw error;
    console.error(error.message); // a fault of this file or of the token's rights, and not of the client
    return undefined;
  }
}

export default {
  async fetch(request, env) {
    const decision = await decide(request, env);
    if (decision === undefined) return fetch(request);
    if (!decision.allowed) {
      const headers = { ...decision.headers, "cache-control": "no-store" };
      if (decision.body !== undefined) headers["content-type"] = decision.body.mediaType;
      return new Response(decision.body?.text ?? null, { status: decision.status, headers });
    }
    const answer = await fetch(request);
    const response = new Response(answer.body, answer); // whose headers may be changed
    for (const [name, value] of Object.entries(decision.headers)) response.headers.set(name, value);
    return response;
  },
};
