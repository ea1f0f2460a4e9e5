// Package costlimit limits what answers cost, such as tokens of a language model: an
// estimate is reserved before the handler runs, and what the answer used is committed when it has
// passed, however it ends. It stands inside of package httplimit, which limits requests:
//
//	requests, err := httplimit.New(limiter, httplimit.Options{Domain: "llm", Identify: who})
//	tokens, err := costlimit.New(limiter, costlimit.Options{
//		Limits: httplimit.Options{Domain: "llm", Identify: who},
//		Shape:  shape, // answercost.New
//	})
//	http.ListenAndServe(addr, requests.Wrap(tokens.Wrap(proxy)))
//
// Costs are counted on descriptors of their own, so that a limit on requests is charged no
// tokens: what Identify adds stands after an entry that names the budget, and before the
// model that the request asks for.
//
//	tokens:total,api_key:K,model:M
//
// With `match: path` a limit at each of these levels counts. Requests and answers pass as
// they are, but for Accept-Encoding, and neither is kept, logged or shown.
package costlimit
