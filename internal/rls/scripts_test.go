package rls

import (
	"strconv"
	"time"
)

const fivePerMinute = `
domain: d
descriptors:
- key: k
  rate_limit: {name: five, unit: minute, requests_per_unit: 5}
`

// What envoyproxy/ratelimit does, by the statements of its behaviour.
var compatScripts = []serviceScript{{
	name: "exactly the limit passes, and the window ends", rules: fivePerMinute,
	steps: []step{
		{0, "d: k=a", "OK: OK five 5/minute left=4 reset=30"},
		{0, "d+3: k=a", "OK: OK five 5/minute left=1 reset=30"},
		{time.Second, "d: k=a", "OK: OK five 5/minute left=0 reset=29"},
		{1500 * time.Millisecond, "d: k=a", "OVER: OVER five 5/minute left=0 reset=29"},
		{29999 * time.Millisecond, "d: k=a", "OVER: OVER five 5/minute left=0 reset=1"},
		{30 * time.Second, "d: k=a", "OK: OK five 5/minute left=4 reset=60"},
	},
}, {
	name: "a default rule counts each value on its own", rules: fivePerMinute,
	steps: []step{
		{0, "d+5: k=a", "OK: OK five 5/minute left=0 reset=30"},
		{0, "d: k=a", "OVER: OVER five 5/minute left=0 reset=30"},
		{0, "d: k=b", "OK: OK five 5/minute left=4 reset=30"},
		{0, "d: k=", "OK: OK five 5/minute left=4 reset=30"},
	},
}, {
	name: "a denied hit stays counted", rules: fivePerMinute,
	steps: []step{
		{0, "d+3: k=a", "OK: OK five 5/minute left=2 reset=30"},
		{0, "d+3: k=a", "OVER: OVER five 5/minute left=0 reset=30"},
		{0, "d+2: k=a", "OVER: OVER five 5/minute left=0 reset=30"},
	},
}, {
	name: "zero hits look and do not count", rules: fivePerMinute,
	steps: []step{
		{0, "d+5: k=a", "OK: OK five 5/minute left=0 reset=30"},
		{0, "d: k=a *0", "OK: OK five 5/minute left=0 reset=30"},
		{0, "d: k=a", "OVER: OVER five 5/minute left=0 reset=30"},
		{0, "d: k=a *0", "OVER: OVER five 5/minute left=0 reset=30"},
	},
}, {
	name: "the hits of a descriptor win over the request's", rules: fivePerMinute,
	steps: []step{
		{0, "d+4: k=a *2 | k=b", "OK: OK five 5/minute left=3 reset=30 | OK five 5/minute left=1 reset=30"},
	},
}, {
	name: "every descriptor is charged though another is over", rules: fivePerMinute,
	steps: []step{
		{0, "d+5: k=a", "OK: OK five 5/minute left=0 reset=30"},
		{0, "d: k=a | k=b", "OVER: OVER five 5/minute left=0 reset=30 | OK five 5/minute left=4 reset=30"},
		{0, "d: k=b *0", "OK: OK five 5/minute left=4 reset=30"},
	},
}, {
	name: "equal descriptors are charged one by one", rules: fivePerMinute,
	steps: []step{
		{0, "d: k=a | k=a", "OK: OK five 5/minute left=4 reset=30 | OK five 5/minute left=3 reset=30"},
	},
}, {
	name: "a limit of nothing denies every hit",
	rules: `
domain: d
descriptors:
- key: k
  rate_limit: {unit: hour, requests_per_unit: 0}
`,
	steps: []step{{0, "d: k=a", "OVER: OVER  0/hour left=0 reset=3570"}},
}, {
	name: "units",
	rules: `
domain: d
descriptors:
- {key: s, rate_limit: {unit: SECOND, requests_per_unit: 1}}
- {key: h, rate_limit: {unit: Hour, requests_per_unit: 1}}
- {key: d, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: w, rate_limit: {unit: week, requests_per_unit: 1}}
- {key: m, rate_limit: {unit: month, requests_per_unit: 1}}
- {key: y, rate_limit: {unit: year, requests_per_unit: 1}}
`,
	// 20,777 days and 43,230 seconds after the beginning of 1970: a day has
	// 43,170 seconds left, a week of which one day is past 6 days more, a
	// month of 30 days 12 more and a year of 365 days 27 more.
	steps: []step{
		{0, "d: s=", "OK: OK  1/second left=0 reset=1"},
		{0, "d: h=", "OK: OK  1/hour left=0 reset=3570"},
		{0, "d: d=", "OK: OK  1/day left=0 reset=43170"},
		{0, "d: w=", "OK: OK  1/week left=0 reset=" + strconv.Itoa(43170+5*86400)},
		{0, "d: m=", "OK: OK  1/month left=0 reset=" + strconv.Itoa(43170+12*86400)},
		{0, "d: y=", "OK: OK  1/year left=0 reset=" + strconv.Itoa(43170+27*86400)},
	},
}, {
	name: "nothing matches", rules: fivePerMinute,
	steps: []step{
		{0, "other: k=a", "OK: OK"},
		{0, "other: k=a @5/minute", "OK: OK"},
		{0, "d: x=a", "OK: OK"},
		{0, "d: k=a x=b", "OK: OK"},
		{0, "d: ", "OK: OK"},
		{0, "d: x=a | k=a", "OK: OK | OK five 5/minute left=4 reset=30"},
	},
}, {
	name: "a node without a limit frees, and there is no way back",
	rules: `
domain: d
descriptors:
- key: tenant
  value: acme
  descriptors:
  - {key: op, value: write, rate_limit: {unit: minute, requests_per_unit: 2}}
- key: tenant
  rate_limit: {unit: minute, requests_per_unit: 50}
  descriptors:
  - {key: op, rate_limit: {unit: minute, requests_per_unit: 7}}
`,
	steps: []step{
		{0, "d: tenant=acme", "OK: OK"},
		{0, "d: tenant=acme op=read", "OK: OK"},
		{0, "d: tenant=acme op=write", "OK: OK  2/minute left=1 reset=30"},
		{0, "d: tenant=bob op=read", "OK: OK  7/minute left=6 reset=30"},
		{0, "d: tenant=bob", "OK: OK  50/minute left=49 reset=30"},
	},
}, {
	name: "an override decides alone, beside the rules", rules: fivePerMinute,
	steps: []step{
		{0, "d+2: k=a @3/hour", "OK: OK  3/hour left=1 reset=3570"},
		{0, "d+2: k=a @3/hour", "OVER: OVER  3/hour left=0 reset=3570"},
		// Upstream could count both on one key; here the rule has its own.
		{0, "d: k=a", "OK: OK five 5/minute left=4 reset=30"},
		{0, "d: x=never-configured @1/second", "OK: OK  1/second left=0 reset=1"},
	},
}, {
	name: "overrides of two units on one descriptor count apart", rules: fivePerMinute,
	steps: []step{
		{0, "d: k=a @2/hour | k=a @2/day", "OK: OK  2/hour left=1 reset=3570 | OK  2/day left=1 reset=43170"},
		{0, "d: k=a @2/hour | k=a @2/day", "OK: OK  2/hour left=0 reset=3570 | OK  2/day left=0 reset=43170"},
		{0, "d: k=a @2/hour | k=a @2/day", "OVER: OVER  2/hour left=0 reset=3570 | OVER  2/day left=0 reset=43170"},
		{0, "d+30: k=b @30/second", "OK: OK  30/second left=0 reset=1"},
		{0, "d+3: k=b @3/hour", "OK: OK  3/hour left=0 reset=3570"},
		{time.Second, "d+30: k=b @30/second", "OK: OK  30/second left=0 reset=1"},
		{time.Second, "d: k=b @3/hour", "OVER: OVER  3/hour left=0 reset=3569"},
		// Another number of one unit is the same bucket.
		{time.Second, "d: k=b @4/hour *0", "OK: OK  4/hour left=0 reset=3569"},
	},
}, {
	name: "the window of a bucket of which nothing is used ends too", rules: fivePerMinute,
	steps: []step{
		{0, "d: k=a *0", "OK: OK five 5/minute left=5 reset=30"},
		{29500 * time.Millisecond, "d: k=a *0", "OK: OK five 5/minute left=5 reset=1"},
		{30 * time.Second, "d: k=a *0", "OK: OK five 5/minute left=5 reset=60"},
	},
}, {
	name: "a threshold is shared by the values of one key",
	rules: `
domain: d
descriptors:
- {key: path, value: "*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 2}}
`,
	steps: []step{
		{0, "d: path=/a", "OK: OK  2/minute left=1 reset=30"},
		{0, "d: path_prefix=/b", "OK: OK  2/minute left=1 reset=30"},
		{0, "d: path=/c", "OK: OK  2/minute left=0 reset=30"},
		{0, "d: path_prefix=/d", "OK: OK  2/minute left=0 reset=30"},
		{0, "d: path=/e", "OVER: OVER  2/minute left=0 reset=30"},
	},
}, {
	name: "a refund never goes below nothing and is always OK", rules: fivePerMinute,
	steps: []step{
		{0, "d+4: k=a", "OK: OK five 5/minute left=1 reset=30"},
		{0, "d: k=a -3", "OK: OK five 5/minute left=4 reset=30"},
		{0, "d: k=a -3", "OK: OK five 5/minute left=5 reset=30"},
		{0, "d: k=a *9", "OVER: OVER five 5/minute left=0 reset=30"},
		{0, "d: k=a -1", "OK: OK five 5/minute left=0 reset=30"},
	},
}, {
	name: "unlimited passes uncounted, and replaces",
	rules: `
domain: d
descriptors:
- {key: k, rate_limit: {name: five, unit: minute, requests_per_unit: 5}}
- {key: vip, rate_limit: {unlimited: true, replaces: [{name: five}]}}
- {key: more, rate_limit: {name: ten, unit: minute, requests_per_unit: 10, replaces: [{name: five}]}}
`,
	steps: []step{
		{0, "d: vip=x", "OK: OK left=4294967295"},
		{0, "d+9: k=a | vip=x", "OK: OK | OK left=4294967295"},
		{0, "d+9: k=a | more=x", "OK: OK | OK ten 10/minute left=1 reset=30"},
		{0, "d: k=a", "OK: OK five 5/minute left=4 reset=30"},
	},
}, {
	name: "a shadow rule counts and does not deny",
	rules: `
domain: d
descriptors:
- key: k
  shadow_mode: true
  rate_limit: {name: five, unit: minute, requests_per_unit: 5}
- {key: real, rate_limit: {unit: minute, requests_per_unit: 1}}
`,
	steps: []step{
		{0, "d+5: k=a", "OK: OK five 5/minute left=0 reset=30"},
		{0, "d: k=a", "OK: OK five 5/minute left=0 reset=30"},
		{0, "d: k=a | real=x", "OK: OK five 5/minute left=0 reset=30 | OK  1/minute left=0 reset=30"},
		{0, "d: k=a | real=x", "OVER: OK five 5/minute left=0 reset=30 | OVER  1/minute left=0 reset=30"},
		// An override is never shadowed by a rule.
		{0, "d+2: k=a @1/minute", "OVER: OVER  1/minute left=0 reset=30"},
	},
}, {
	name: "shadow mode for all rules holds back the overall code alone", shadow: true, rules: fivePerMinute,
	steps: []step{
		{0, "d+6: k=a", "OK: OVER five 5/minute left=0 reset=30"},
		{0, "d+2: k=a @1/minute", "OK: OVER  1/minute left=0 reset=30"},
	},
}, {
	name: "quota rules deny only together",
	rules: `
domain: d
descriptors:
- {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
- {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
- {key: c, rate_limit: {unit: minute, requests_per_unit: 9}}
`,
	steps: []step{
		{0, "d: a= | b=", "OK: OK  1/minute left=0 reset=30 | OK  2/minute left=1 reset=30"},
		{0, "d: a= | b=", "OK: OVER  1/minute left=0 reset=30 | OK  2/minute left=0 reset=30"},
		{0, "d: a= | b= | c=", "OVER: OVER  1/minute left=0 reset=30 | OVER  2/minute left=0 reset=30 | OK  9/minute left=8 reset=30"},
		{0, "d+9: c= | b= *0 | a= *0", "OVER: OVER  9/minute left=0 reset=30 | OVER  2/minute left=0 reset=30 | OVER  1/minute left=0 reset=30"},
		{0, "d: c=", "OVER: OVER  9/minute left=0 reset=30"},
	},
}, {
	name: "values that match a pattern share one budget when told so",
	rules: `
domain: d
descriptors:
- {key: files, value: "files/*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 3}}
- {key: docs, value: "docs/*", rate_limit: {unit: minute, requests_per_unit: 3}}
`,
	steps: []step{
		{0, "d: files=files/a.pdf", "OK: OK  3/minute left=2 reset=30"},
		{0, "d: files=files/b.csv", "OK: OK  3/minute left=1 reset=30"},
		{0, "d: docs=docs/a", "OK: OK  3/minute left=2 reset=30"},
		{0, "d: docs=docs/b", "OK: OK  3/minute left=2 reset=30"},
	},
}}

// What Headgate does where it is not told to be compatible.
var plainScripts = []serviceScript{{
	name: "a denial charges nothing", rules: fivePerMinute,
	steps: []step{
		{0, "d+3: k=a", "OK: OK five 5/minute left=2 reset=90"},
		{0, "d+3: k=a", "OVER: OVER five 5/minute left=0 reset=50"},
		{0, "d+2: k=a", "OK: OK five 5/minute left=0 reset=90"},
	},
}, {
	name: "a denial charges nothing anywhere", rules: fivePerMinute,
	steps: []step{
		{0, "d+5: k=a", "OK: OK five 5/minute left=0 reset=90"},
		{0, "d: k=a | k=b", "OVER: OVER five 5/minute left=0 reset=42 | OK five 5/minute left=5 reset=0"},
	},
}, {
	name: "more than the limit at once can never pass", rules: fivePerMinute,
	steps: []step{
		{0, "d+1: k=a", "OK: OK five 5/minute left=4 reset=90"},
		{0, "d+6: k=a", "OVER: OVER five 5/minute left=0 reset=90"},
	},
}, {
	name: "windows of any length are multiples of a unit",
	rules: `
domain: d
descriptors:
- {key: k, rate_limit: {window: 30s, requests_per_unit: 5, algorithm: fixed_window}}
- {key: l, rate_limit: {window: 250ms, requests_per_unit: 5, algorithm: fixed_window}}
`,
	steps: []step{
		{0, "d: k=a", "OK: OK  5/secondx30 left=4 reset=30"},
		{0, "d: l=a", "OK: OK  5/unknown left=4 reset=1"},
	},
}, {
	name: "of several limits the tightest speaks, and the one that denies",
	rules: `
domain: d
descriptors:
- key: k
  limits:
  - {name: burst, unit: second, requests_per_unit: 3, algorithm: fixed_window}
  - {name: day, unit: day, requests_per_unit: 4, algorithm: fixed_window}
`,
	steps: []step{
		{0, "d: k=a", "OK: OK burst 3/second left=2 reset=1"},
		{0, "d+2: k=a", "OK: OK burst 3/second left=0 reset=1"},
		{0, "d: k=a", "OVER: OVER burst 3/second left=0 reset=1"},
		{time.Second, "d: k=a", "OK: OK day 4/day left=0 reset=43169"},
		{time.Second, "d: k=a", "OVER: OVER day 4/day left=0 reset=43169"},
	},
}, {
	name: "every limit on the path counts, in one status",
	rules: `
domain: d
match: path
descriptors:
- key: tenant
  rate_limit: {name: tenant, unit: minute, requests_per_unit: 3, algorithm: fixed_window}
  descriptors:
  - {key: op, rate_limit: {name: op, unit: minute, requests_per_unit: 2, algorithm: fixed_window}}
`,
	steps: []step{
		{0, "d: tenant=a op=x", "OK: OK op 2/minute left=1 reset=30"},
		{0, "d: tenant=a op=y", "OK: OK tenant 3/minute left=1 reset=30"},
		{0, "d: tenant=a op=y", "OK: OK tenant 3/minute left=0 reset=30"},
		{0, "d: tenant=a op=z", "OVER: OVER tenant 3/minute left=0 reset=30"},
	},
}, {
	name: "a rule that always applies speaks for the first descriptor",
	rules: `
domain: d
descriptors:
- {always: true, name: all, rate_limit: {name: all, unit: minute, requests_per_unit: 2, algorithm: fixed_window}}
`,
	steps: []step{
		{0, "d: x=1 | y=2", "OK: OK all 2/minute left=1 reset=30 | OK"},
		{0, "d: z=3", "OK: OK all 2/minute left=0 reset=30"},
		{0, "d: z=3 | x=1", "OVER: OVER all 2/minute left=0 reset=30 | OK"},
	},
}, {
	name: "a bucket has its burst left and says its rate",
	rules: `
domain: d
descriptors:
- {key: k, rate_limit: {unit: second, requests_per_unit: 10, algorithm: token_bucket, burst: 20}}
`,
	steps: []step{
		{0, "d: k=a", "OK: OK  10/second left=19 reset=1"},
		{0, "d+19: k=a", "OK: OK  10/second left=0 reset=2"},
		{0, "d+10: k=a", "OVER: OVER  10/second left=0 reset=1"},
	},
}}
