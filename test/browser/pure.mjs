// What needs no browser: descriptors as text, and what a change makes of an account. The
// Go side gives {text, entries} and gets the texts that this side writes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { allowed, degraded, denied, outcomeRows, requests, unlimited } from "../../internal/dashboard/assets/counts.js";
import { format, parse } from "../../internal/dashboard/assets/descriptor.js";
import { live } from "../../internal/dashboard/assets/live.js";
import { storing, withOverride, withTier } from "../../internal/dashboard/assets/tenant.js";

const cases = JSON.parse(readFileSync(0, "utf8"));
for (const { text, entries } of cases) assert.deepEqual(parse(text), entries, text);
for (const text of ["x", ":v", "a:b,", "a:b,c", "a:\\q", "a:\\x4"]) assert.throws(() => parse(text), /hint/, text);

const at = "2026-11-22T12:00:00Z";
live.overview = { at };
const past = "2026-01-01T00:00:00Z";
const soon = "2026-12-01T00:00:00Z";
const later = "2027-01-01T00:00:00Z";
const quota = (n, term) => ({ descriptor: "default", requests_per_unit: n, unit: "hour", ...term });
const other = { descriptor: "endpoint:/a", unlimited: true };

for (const [name, account, override, want] of [
  ["the first", {}, quota(5), [quota(5)]],
  ["in place of another", { overrides: [quota(1), other] }, quota(5), [other, quota(5)]],
  ["for a while, over another", { overrides: [quota(1)] }, quota(5, { expires_at: soon }), [quota(1), quota(5, { expires_at: soon, effective_at: at })]],
  ["for a while, over none", { overrides: [other] }, quota(5, { expires_at: soon }), [other, quota(5, { expires_at: soon })]],
  ["for ever, over one for a while", { overrides: [quota(1, { effective_at: past, expires_at: soon })] }, quota(5), [quota(5)]],
  ["before one that is to come", { overrides: [quota(9, { effective_at: later })] }, quota(5), [quota(9, { effective_at: later }), quota(5)]],
  ["after one that has ended", { overrides: [quota(1, { expires_at: past })] }, quota(5, { expires_at: soon }), [quota(5, { expires_at: soon })]],
]) assert.deepEqual(withOverride({ tier: "pro", top_ups: [{ id: "a" }], ...account }, override), { tier: "pro", overrides: want }, name);

for (const [name, account, tier, want] of [
  ["the first", {}, { tier: "pro" }, { tiers: [{ tier: "pro" }] }],
  ["in place of another", { tier: "free" }, { tier: "pro" }, { tiers: [{ tier: "pro" }] }],
  ["none", { tier: "free", overrides: [other] }, { tier: "" }, { overrides: [other] }],
  ["for a while, over another", { tier: "free" }, { tier: "pro", expires_at: soon }, { tiers: [{ tier: "free", effective_at: undefined, expires_at: undefined }, { tier: "pro", expires_at: soon, effective_at: at }] }],
  ["before one that is to come", { tier: "free", tiers: [{ tier: "pro", effective_at: later }] }, { tier: "big" }, { tiers: [{ tier: "pro", effective_at: later }, { tier: "big" }] }],
]) assert.deepEqual(withTier({ top_ups: [], ...account }, tier), want, name);

// A change is for the version that was reviewed, whatever has been read until it is sent.
const sent = [];
globalThis.fetch = async (path, { method, headers }) => {
  sent.push([method, headers["If-Match"] ?? null, headers["If-None-Match"] ?? null]);
  return new Response("{}", { headers: { "Content-Type": "application/json" } });
};
const seen = { data: { account: {} }, etag: '"1"' };
const changes = [storing("quotas/tenant:a", seen, { tier: "pro" }), storing("quotas/tenant:a", seen, {}), storing("quotas/tenant:a", { data: null, etag: null }, { tier: "pro" })];
Object.assign(seen, { data: { account: { top_ups: [{ id: "a" }] } }, etag: '"2"' });
for (const send of changes) await send();
assert.deepEqual(sent, [["PUT", '"1"', null], ["DELETE", '"1"', null], ["PUT", null, "*"]], "the version that was reviewed");

// Powers of two, so that a sum tells what it is made of.
const asked = { allowed: 1, denied: 2, degraded_allowed: 4, degraded_denied: 8, unmatched: 16, unknown_domain: 32 };
assert.deepEqual([requests(asked), degraded(asked), unlimited(asked)], [63, 12, 48], "requests: what no rule limits is not allowed by any");
const said = { allowed: 1, denied: 2, shadow_denied: 4, replaced: 8, degraded_allowed: 16, degraded_denied: 32, local_allowed: 64, local_denied: 128, skipped: 256, open_denied: 512 };
assert.deepEqual([allowed(said), denied(said)], [1 + 16 + 64, 2 + 32 + 128 + 512], "limits: one that was skipped has said nothing");
assert.deepEqual(outcomeRows.map(([key]) => key).toSorted(), Object.keys(said).toSorted(), "each outcome has a row");
assert.doesNotMatch(new Map(outcomeRows).get("skipped"), /off/i, "skipped is no switch");

console.log(JSON.stringify(cases.map(({ entries }) => format(entries))));
