// Package identity turns an HTTP request into the entries that it is limited on:
// who asks (API key, verified token, header, cookie, client address) and for
// what (method, path template, endpoint).
//
// An Extractor is configured with plain structs and used by every way in that
// speaks HTTP. Three questions have types of their own, for those who need only
// one of them:
//
//	ClientIP      which address asks, behind proxies that are named
//	TokenVerifier whether a JSON Web Token is genuine, and what it claims
//	Templates     which of a bounded number of path templates a path fits
//
// Beside them ProxyListener reads the PROXY protocol, Hasher makes secrets into
// names that give nothing away, and StripQuery keeps them out of logs.
//
// Everything a client sends is taken to be hostile: each part is bounded, what
// is ambiguous is not believed, and no text of a client's stands in an error.
// Nothing here waits while a request is looked at: the keys that tokens are
// signed with are fetched in the background (KeySet.Run), and a token whose key
// is not known yet is a bad token.
//
// The package promises who asked as far as headers and signatures tell. It does
// not authenticate: a token that is anonymous here must still be refused by the
// service that it is meant for.
package identity
