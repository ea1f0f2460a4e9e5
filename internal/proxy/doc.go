// Package proxy is a reverse proxy in front of one HTTP backend, for what limits
// requests to stand in: httputil.ReverseProxy with what an edge must do around
// it.
//
//	client -> Proxy (bounds, hop-by-hop) -> Options.Wrap (limits) -> forward -> backend
//
// A request is forwarded as it came, but for these: fields of one hop go, the
// fields that say where a request comes from (X-Forwarded-For and its kin,
// Forwarded) are kept from a peer that is trusted and written anew for any other,
// and an upgrade to another HTTP is not asked for, because nobody limits what is
// said in there. Bodies and answers stream both ways.
//
// What passes in an upgraded connection (a websocket) is not looked at, but for
// where frames end: so that Shutdown can say goodbye between two of them.
//
// It is no load balancer: there is one backend, no health check and no retry
// beyond that of net/http, which sends a request again when a connection that
// was kept open had been closed before anything was sent on it.
package proxy
