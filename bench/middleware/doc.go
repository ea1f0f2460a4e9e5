// Package middleware measures what limiting adds to an HTTP request: package
// httplimit beside go-chi/httprate and ulule/limiter, in one run of
// go test -bench, and beside the handler without any.
//
// All count in memory by the address of the peer, drawn from a thousand, under
// limits so generous that requests pass, unless the name of a row says denied.
// There is no network: a request and a ResponseWriter are used again and again,
// as a server does with its own. What the systems tell their clients differs;
// the rows of Headgate are there with its defaults and with the fields that
// ulule/limiter sends.
package middleware
