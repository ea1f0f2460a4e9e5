// The rules in force on this node, and what they say of keys.

import { all } from "./api.js";
import { format, isCut, parse } from "./descriptor.js";
import { live } from "./live.js";

let index = null;
let indexed = null;

// ruleIndex returns the rules in force on this node, by id and by domain; asked for once
// for each version of them.
export async function ruleIndex() {
  const version = live.overview?.health.rules.version ?? "";
  if (index && indexed === version) return index;
  indexed = version;
  index = all("rules", "rules").then(({ rules, version: is }) => {
    const domains = new Map();
    for (const r of rules) domains.set(r.domain, [...(domains.get(r.domain) ?? []), r]);
    return { rules, version: is, byID: new Map(rules.map((r) => [r.id, r])), domains };
  });
  index.catch(() => (index = null));
  return index;
}

// entriesOf returns the entries of a key, none where they cannot be told.
function entriesOf(key) {
  try {
    return isCut(key) ? [] : parse(key);
  } catch {
    return [];
  }
}

// tenantEntry returns the entry of a key that names its tenant, and what that is called;
// null where a rule of the domain counts by no tenant in it.
function tenantEntry(found, domain, key) {
  const entries = entriesOf(key);
  for (const r of found.domains.get(domain) ?? []) {
    const by = /(?:^|; )tenants by ([^;]+)/.exec(r.summary)?.[1];
    const entry = by && entries.find((e) => e.key === by);
    if (entry) return entry;
  }
  return null;
}

// accountOf returns the name of the account of a tenant that an entry names.
export function accountOf(key, value) {
  if (key === "tenant") return `tenant:${value}`;
  return key === "api_key" ? `hash:${value}` : `entry:${key}:${value}`;
}

// tenantOf returns the name of the account whose key that is, null where there is none.
export function tenantOf(found, domain, key) {
  const entry = tenantEntry(found, domain, key);
  return entry && accountOf(entry.key, entry.value);
}

// raisedFor returns the entry by which the limit of a key alone is raised, "" where there
// is none: that of the tenant, or the last.
export function raisedFor(found, domain, key) {
  const entry = tenantEntry(found, domain, key) ?? entriesOf(key).at(-1);
  return entry ? format([entry]) : "";
}
