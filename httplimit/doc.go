// Package httplimit limits the requests of a net/http server:
// func(http.Handler) http.Handler over anything that decides as a
// headgate.Limiter does.
//
//	limiter, err := headgate.New(headgate.Options{Store: buckets, Rules: set})
//	...
//	limits, err := httplimit.New(limiter, httplimit.Options{
//		Domain:   "api",
//		Identify: httplimit.RemoteAddress,
//	})
//	...
//	http.ListenAndServe(addr, limits.Wrap(mux))
//
// A remote checker in place of limiter is the only change that a fleet with one
// decision service needs. Guard is a preset without rules: the last guard inside
// a backend.
//
// # What clients are told
//
// The fields that Answer chooses, on allowed answers and on denied ones. A
// denial is 429, or 503 when the store failed and the failure mode denies: these are
// never mixed up. Both say Cache-Control: no-store and, unless the
// request can never pass, Retry-After. HEAD is limited as GET and denied without
// a body.
//
// Fields are set before the handler runs and under the canonical names of
// net/http, so a handler that sets one of its own replaces ours, and one that
// deletes it sends none; see Options.Override for the other way. Without it
// and Options.Refund nothing stands between the handler and its ResponseWriter:
// hijacking, flushing, full-duplex and the fast path of io.Copy are those of the
// server.
//
// # Slots and soft limits
//
// A request that takes a slot of a limit on concurrency holds it until its handler
// returns, panics included; the slot is renewed meanwhile. What soft limits ask of
// whatever serves the request (degrade, challenge) stands in the header of the
// request; fields of these names that a client sends are removed first.
//
// # What it does not do
//
// It trusts no header by itself. RemoteAddress is the peer of the connection,
// which behind a proxy is the proxy: say who asks by Identity, or an Identify of
// your own, there. A CORS preflight is not limited unless Options.CountPreflight asks for
// it, because browsers send it without credentials and cannot read its denial; put
// the CORS middleware outside of this one, so that denials carry its fields.
package httplimit
