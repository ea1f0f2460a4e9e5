export { Headgate, HeadgateError, maxChecks, type CallOptions, type Failure, type HeadgateOptions, type Reason } from "./headgate.js";
export { WaitError, levels, limitedFetch, retryAfter, type Level, type LimitedFetchOptions } from "./fetch.js";
export type { Body, Check, Commit, Decision, Descriptor, Entries, KeyCheck, Op, Reserve, RuleCheck, Settled, Soft } from "./wire.js";
