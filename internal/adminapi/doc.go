// Package adminapi is the HTTP API of operators for what tenants may use, and for what
// decides it: accounts with their tiers, overrides and top-ups, one by one, listed,
// imported and exported; what they have used; the tiers; documents and rows of rules;
// switches; and the log of changes. It also shows how the node is and what it decides,
// at once and as streams (Watch); for that it needs no database.
//
// Everything is denied that is not allowed by name: a request brings a token of the
// file of tokens, or a client certificate that the file names, with the scope that
// its route asks for. That is looked at before anything else, also before whether
// there is such a route.
//
// One table says what routes there are (table.go). Requests are served by it, and
// the OpenAPI document is made of it, so that the two cannot differ; openapi.json is
// that document. The schemas in it describe; what is accepted is decided in one
// place for the API and the command line, package quotas.
//
// No decision waits for this package, and it waits for no decision: it has a listener
// of its own, and a limiter of its own against those who ask too often. What is changed
// here is written to the database alone; each node, this one too, follows that.
package adminapi
