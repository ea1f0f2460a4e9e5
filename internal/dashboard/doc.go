// Package dashboard serves the web dashboard: files that are part of the binary, and the
// admin API under another path for who has logged in.
//
// Who logs in shows a token of the admin API once, or has an issuer of OpenID Connect vouch
// for him, whose ID token is one too. The token stays in the memory of this
// process; the browser gets the name of a session. The dashboard decides nothing by
// itself: every request of a session goes to the admin API with its token and from its
// address, so that scopes, rate limits and the log of changes are those of the API.
//
// It has no logger and keeps nothing: a restart ends all sessions.
package dashboard
