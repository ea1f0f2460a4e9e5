// Package httpshed sheds the requests of a net/http server when there are too
// many: func(http.Handler) http.Handler over the shedders of package overload.
//
//	worker, err := overload.New(overload.Options{MaxCritical: 200}, time.Now())
//	...
//	shed, err := httpshed.New(httpshed.Options{Gate: overload.NewGate(nil, worker)})
//	...
//	http.ListenAndServe(addr, limits.Wrap(shed.Wrap(mux)))
//
// It stands behind the limits and right before the work. Behind them, because
// time in which a limit holds a request back is no time of the server, and
// because what a client may not ask at all should not push others out.
//
// # What clients are told
//
// 503 with Retry-After in whole seconds, Cache-Control: no-store and a small
// problem (RFC 9457) that says overload and nothing else; to HEAD no body. It is
// never 429: the client did nothing wrong.
//
// # How requests end
//
// What is behind is judged by how its answers end (see overload.Outcome):
//
//	served      the handler returned an answer
//	overloaded  503 and 504, and a deadline of the request that passed
//	ignored     429, 500, 502 and the like, which come at once; a client that has
//	            gone; a handler that panics
//
// An upgrade (101, or a connection that is hijacked) and an event stream leave
// the count when they begin: their length says nothing of the server, and a few
// hundred of them would fill a limit that is meant for work. Bound them by a
// concurrency limit.
//
// # What it does not do
//
// It does not see how long a connection waited to be accepted; see
// Options.Waited. A long download to a slow client counts as long work. Requests
// that wait for long on purpose (long polling) belong into a handler of their
// own, with a Gate of its own or none.
package httpshed
