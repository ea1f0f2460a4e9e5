// Package httpcheck answers rate limit checks over HTTP and JSON.
//
//	POST /v1/check    one check or a batch
//	POST /ratelimit/check
//	                  one key by a limit that the caller names, always 200
//	POST /v1/renew    a request is still in flight, and keeps its slots
//	POST /v1/release  it has ended, and frees them
//	POST /v1/reserve  charges an estimate
//	POST /v1/commit   settles it by what was used
//	POST /v1/cancel   settles it by nothing
//	     /json        Envoy's ShouldRateLimit in proto3 JSON
//	     /healthcheck 200 "OK", or 500 and why not
//
// # POST /v1/check
//
// A check has one of two forms. By the server's rules:
//
//	{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"42"}],"hits":1}]}
//
// (or, in place of entries, "descriptor":"user:42,endpoint:POST /orders", the text
// form of package descriptor), or by a limit that the caller names, which needs
// no rule:
//
//	{"key":"user:42","limit":100,"window_ms":60000,"hits":1,"algorithm":"gcra","burst":20}
//
// where hits, algorithm (sliding_window) and burst may be left out. The bucket
// is that of the key and the window: another limit or burst goes on with its
// counts, another window has its own, so one key can be held to 10 per second and
// 1000 per day.
//
// hits default to 1; 0 is a peek, which counts nothing; a negative
// number gives hits back. "op" beside them is "hit" (default), "charge" (charges that
// many whether they fit or not, for what has been used already), "refund" (gives
// back that many) or "reset" (forgets the bucket). "attributes" beside domain is
// an object of strings for rules that take their cost from the request:
// {"content_length":"512","header:x-cost":"3","claim:plan":"5"}.
//
// The answer has status 200, 429 when denied, or 503 when a rule that fails
// closed could not be decided (one that fails open is 429 where this node alone has let
// its whole limit pass), with the header fields of package httpanswer:
//
//	{"allowed":true,"limit":100,"remaining":73,"reset_ms":41200,"window_ends_ms":41200,"retry_after_s":0,"matched":true,"rule":"api.user","degraded":""}
//
// matched is false when no rule and no limit of the caller applied, as with a domain that
// is misspelt: then the request passes unchecked. limit is left out where nothing limits,
// remaining and reset_ms where nothing was counted, retry_after_s when the request can never pass. delay_ms is there
// when a limit that shapes wants the request held back. degraded says why the
// store did not decide. A denial also has the members of the body preset that
// Options.Answer chooses, so that a gateway can pass them on: error and message,
// or those of a problem, whose media type the answer then has.
//
// role is there when the limit that speaks is not a main one: "concurrency",
// "secondary", "sustained" or "ban". limit and remaining then count requests in
// flight, hits, milliseconds in flight or denials. soft lists the soft limits that an allowed
// request is above, at most 16:
//
//	"soft":[{"action":"degrade","rule":"api.user","percent":80,"limit":100,"remaining":12,"header":"X-Degraded","value":"1"}]
//
// where warn has nothing more, delay has delay_ms (which is in the decision's
// delay_ms too), and challenge has challenge.
//
// {"checks":[...]} takes many checks of either form and decides them in order
// and in one call. Its answer has always status 200: {"results":[...]}, one for
// each. Because there are no header fields that say it, each result also has the name
// and the window_s of its limit, where it has such, and the status of a denial without
// counts. A malformed check refuses the
// whole batch, and nothing is charged.
//
// # POST /ratelimit/check
//
// It takes the second form of a check, without op and hold, and answers a decision with
// status 200 whatever it is, also when the store did not answer:
//
//	{"allowed":false,"remaining":0,"reset_ms":41200,"window_ends_ms":11200,"retry_after_s":1,"matched":true,"degraded":""}
//
// The header fields are those of /v1/check but for Retry-After. Only what is wrong with the
// call itself has another status.
//
// # Ids
//
// A check of either form and of either path may have "id", up to 256 bytes. One that is
// repeated by its id, for the same domain or key and the same descriptors, gets the first
// answer and is charged nothing (see headgate.Limiter.CheckOnce). In a batch each check has
// its own. When hits, limits, operations or attributes differ from the first time the call
// is answered 409, and nothing of it is decided. A store of others that keeps no answers is
// 501.
//
// # Who sent the request
//
// A check of either form may have "client_ip" and "user_agent", those of the client that
// the caller asks for, and the call the header field traceparent (W3C Trace Context), of
// the trace that all of its checks are part of. Nothing is decided by them: they are for
// those who watch decisions. A client_ip that is no IP address is refused; a user_agent
// may be as long as the body, of which events keep the beginning; a traceparent that
// cannot be read is none.
//
// # Requests in flight
//
// A check of either form may have "hold": an id of up to 256 bytes, or true to have
// one drawn. By it the request takes a slot of each limit on concurrency, and says
// that its time in flight counts. The answer to a request that holds something has
//
//	"hold":{"id":"0a1b2c3d4e5f60","renew_within_ms":60000}
//
// also where a descriptor entry named it (concurrency.hold of a rule). Without a
// hold no slot is taken: such limits only say whether one is free. A denied request
// holds nothing.
//
// POST /v1/renew and /v1/release take the same body again, a check or a batch,
// with the hold that was answered. Renew before renew_within_ms is over, and
// release at the end; slots of whoever does neither are free after the timeout.
// "in_flight_ms", up to a day, is the time since the check or the last renewal, for
// limits on sustained concurrency: it is charged in any case. hits and
// attributes may stand there and say nothing. The answer is that of a check, always
// allowed; when it has no hold, nothing is held any more and there is nothing to
// renew. degraded says that the store could not: try again. That is safe: renewing
// or releasing twice is the same as once, except that in_flight_ms is charged each
// time, so leave it out of a retry. A batch may also mix all of this at /v1/check,
// by op "renew" and "release", where hits are the milliseconds.
//
// # Reservations
//
// POST /v1/reserve takes a check of the first form, of hits alone, and beside it "id"
// (up to 128 bytes; asking again with it, for the same, reserves nothing more) and
// "ttl_ms" (1,000 to 3,600,000, default 300,000). An allowed answer is that of a check
// with
//
//	"reservation":"AR0...","expires_at":"2026-11-20T12:05:00.000Z"
//
// POST /v1/commit takes {"reservation":"AR0...","hits":1234}, where hits may also be an
// array with a number for each descriptor, and "attributes" those that have become
// known; what is left out stays as estimated. POST /v1/cancel takes {"reservation":"AR0..."}. Both answer
//
//	{"settled":true,"outcome":"settled","rule":"api.user","limit":100,"remaining":73,"reset_ms":41200,"degraded":""}
//
// with outcome "settled_before" where a call before has settled it: then nothing is
// charged or given back. Where there was nothing to settle it is "unknown", with
// "settled":false. When the store does not answer they answer 503 with "settled":false; to
// try again is safe. A reservation whose time is over is 410.
//
// # Trust
//
// Whoever may ask can spend anybody's quota: this is an interface for gateways
// and services, not for their clients. Bind it accordingly. Requests that a
// browser sends from another site are refused. Limits that callers name, refunds and
// resets take a right (headgate.Rights): whoever may name a limit is not limited. Who
// comes in by a token or a certificate has its rights, see package callers.
//
// Whoever knows the id of a hold can release it, and nobody else: it is the
// capability, and asks for no more trust than a check. One that is drawn here has
// 53 random bits. Who names holds by ids that clients choose lets a client free
// the slots of another whose id it knows, and use one slot for many requests.
//
// Reservations are no secret and ask for no more trust than a check either: what one
// says that it has charged is given back only if the store remembers that it was made,
// and once. A commit may charge more than a limit has left, up to its max_debt.
package httpcheck
