// The admin API, by the session of this browser.

// Problem is an answer that is an error (RFC 9457), or none at all.
export class Problem extends Error {
  constructor(status, detail, errors = [], etag = null) {
    super(detail);
    this.status = status;
    this.errors = errors;
    this.etag = etag;
  }
}

const listeners = new Set();

// onLoggedOut calls when the session has ended.
export function onLoggedOut(call) {
  listeners.add(call);
}

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy in between answers in words of its own.
  }
  let detail = body.detail || `${response.status} ${response.statusText}`;
  if (response.status === 429) detail += `; try again in ${response.headers.get("Retry-After") ?? "some"} s`;
  return new Problem(response.status, detail, body.errors ?? [], response.headers.get("ETag"));
}

async function send(method, path, body, headers = {}) {
  const init = { method, headers: { Accept: "application/json", ...headers }, credentials: "same-origin", cache: "no-store" };
  if (method === "POST" || method === "PUT") {
    const yaml = typeof body === "string"; // rules as they are written
    init.headers["Content-Type"] = yaml ? "application/yaml" : "application/json";
    init.body = yaml ? body : JSON.stringify(body ?? {});
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Problem(0, "Headgate does not answer; hint: is it running, and is the network up?");
  }
  if (!response.ok) {
    const problem = await problemOf(response);
    if (response.status === 401 && path.startsWith("/api/")) for (const call of listeners) call();
    throw problem;
  }
  const kind = response.headers.get("Content-Type") ?? "";
  const data = response.status === 204 ? null : kind.includes("json") ? await response.json() : await response.text();
  return { data, etag: response.headers.get("ETag"), status: response.status };
}

const query = (parameters) => {
  const list = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "" && one !== false) list.append(name, one);
  }
  const text = list.toString();
  return text && `?${text}`;
};

// url is the address of a path of the API, such as "quotas/tenant:acme".
export function url(path, parameters) {
  return `/api/${path}${query(parameters)}`;
}

// get asks for something and returns its JSON.
export async function get(path, parameters) {
  return (await send("GET", url(path, parameters))).data;
}

// versioned asks for something that has a version: {data, etag}; both null where it is
// not there.
export async function versioned(path) {
  try {
    return await send("GET", url(path));
  } catch (problem) {
    if (problem.status === 404) return { data: null, etag: null, missing: problem.message };
    throw problem;
  }
}

// all follows the pages of a list to their end, or to so many items.
export async function all(path, name, parameters, most = 5000) {
  const list = [];
  let page = {};
  do {
    page = await get(path, { ...parameters, limit: 1000, cursor: page.next_cursor });
    list.push(...page[name]);
  } while (page.next_cursor && list.length < most);
  return { ...page, [name]: list };
}

// change sends a change, only if it is for what was seen: etag is its version, null
// where there was none.
export function change(method, path, body, etag) {
  const condition = etag ? { "If-Match": etag } : method === "PUT" ? { "If-None-Match": "*" } : {};
  return send(method, url(path), body, condition);
}

// post sends something that is no change of something there.
export async function post(path, body, headers) {
  return (await send("POST", url(path), body, headers)).data;
}

export async function login(token) {
  return (await send("POST", "/login", { token })).data;
}

// ways are how one can log in beside a token, and why the last login failed.
export async function ways() {
  return (await send("GET", "/login/ways")).data;
}

export async function logout() {
  await send("POST", "/logout");
}
