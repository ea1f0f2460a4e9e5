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
// Each file has the routes of one subject beside what answers them, and net/http's
// ServeMux finds the route of a request (routes.go). The OpenAPI document is made of the
// same routes, and its schemas of the types that are read and answered (schema.go) with
// what is to be said of them in words (components.go), so that none of this can differ;
// openapi.json is that document. It describes; what is accepted is decided in one place
// for the API and the command line, package quotas.
//
// No decision waits for this package, and it waits for no decision: it has a listener
// of its own, and a limiter of its own against those who ask too often. What is changed
// here is written to the database alone; each node, this one too, follows that.
package adminapi
