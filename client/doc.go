// Package client is the caller's side of rate limits.
//
// A [Transport] is an http.RoundTripper for programs that call a limited API:
// it reads the header fields in which the server tells its limits, spreads its
// requests before a limit is reached, waits as Retry-After asks, and sends again
// what was refused, within a budget. The zero value works:
//
//	client := &http.Client{Transport: &client.Transport{}}
//
// A [Checker] asks a Headgate server over HTTP and has the one method of
// headgate.Limiter, so that deciding in this process and elsewhere are one line
// apart.
//
// [Read] and [RetryAfter] are the pure functions under the Transport, for those
// who wait in their own way.
//
// The package does not make a program obey a limit that its server does not tell,
// and it does not count on behalf of several processes: each one paces itself by
// what it is told. The fields are those of drafts
// (draft-ietf-httpapi-ratelimit-headers) and of custom; no conformance is
// claimed.
package client
