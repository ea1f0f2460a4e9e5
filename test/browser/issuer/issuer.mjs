// A real issuer of OpenID Connect, for the login of a real browser: panva's oidc-provider with one
// client. Anybody may log in by any name; ann is in the group ops, nobody else is in any. It has
// pages of its own, because those that the library brings load fonts from elsewhere. What it prints
// first is that it is ready.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { modules, port, redirect, secret } = JSON.parse(process.env.ISSUER);
const require = createRequire(path.join(modules, "here.js"));
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: "headgate", client_secret: secret, redirect_uris: [redirect], grant_types: ["authorization_code", "refresh_token"], response_types: ["code"] }],
  cookies: { keys: [secret] },
  claims: { openid: ["sub", "groups"], email: ["email", "email_verified"] },
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/person/${interaction.uid}` },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: id === "ann" ? ["ops"] : [] }) }),
  issueRefreshToken: () => true,
  // A token is renewed half a minute before its end: so this one soon.
  ttl: { IdToken: 32, AccessToken: 60, AuthorizationCode: 60, Grant: 3600, Interaction: 3600, Session: 3600, RefreshToken: 3600 },
});

let renewed = 0;
provider.on("grant.success", (context) => {
  if (context.oidc.params.grant_type === "refresh_token") renewed += 1;
});

const page = `<!doctype html><html lang="en"><title>Issuer</title><h1>Issuer</h1><form method="post">
<label>Name <input name="name"></label><button>Agree</button><button name="no" value="1">Do not agree</button></form>`;

// person shows who wants to log in a page, and takes what was said there.
async function person(request, response) {
  if (request.method !== "POST") {
    response.setHeader("Content-Type", "text/html").end(page);
    return;
  }
  let body = "";
  for await (const part of request) body += part;
  const said = new URLSearchParams(body);
  let result = { error: "access_denied", error_description: "End-User aborted interaction" };
  if (!said.has("no")) {
    const { params } = await provider.interactionDetails(request, response);
    const grant = new provider.Grant({ accountId: said.get("name"), clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    result = { login: { accountId: said.get("name") }, consent: { grantId: await grant.save() } };
  }
  await provider.interactionFinished(request, response, result);
}

const answer = provider.callback();
createServer((request, response) => {
  if (request.url === "/renewed") response.end(String(renewed));
  else if (request.url.startsWith("/person/")) person(request, response);
  else answer(request, response);
}).listen(port, "127.0.0.1", () => console.log("the issuer is ready"));
