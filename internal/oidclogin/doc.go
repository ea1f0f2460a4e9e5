// Package oidclogin lets people log in by an issuer of OpenID Connect: the code flow of
// OAuth 2.0 (RFC 6749, section 4.1) with PKCE by S256 (RFC 7636), state and nonce.
//
// A Client sends a browser to the issuer, exchanges the code that it comes back with for an
// ID token, and has that token renewed where the issuer gives a refresh token. It knows
// nothing of browsers, cookies or sessions, and keeps nothing of a login: what belongs to one
// is in an Attempt and in Tokens, which the caller keeps. Who may do what by an ID token is
// said by who takes it.
//
// The issuer is asked when somebody logs in, and not before.
package oidclogin
