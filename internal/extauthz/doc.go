// Package extauthz answers Envoy's external authorization over gRPC:
// envoy.service.auth.v3.Authorization/Check. It is an adapter: it takes the
// client's request from the attributes that Envoy tells of it, has package
// forwardauth decide it, and turns the reply into headers and an answer for the
// client. Envoy's vocabulary ends here.
//
// The address of the client is the source of the attributes, as Envoy has found it
// (use_remote_address, xff_num_trusted_hops), and stands as the peer of the request;
// X-Forwarded-For is looked at only if that address is itself one of a trusted
// proxy. The domain of the rules can be named by the entry "domain" of
// context_extensions.
//
// A request that cannot be decided for its own fault is denied with 400 or 401 and
// never an error, which Envoy could be told to let pass. Errors are for callers
// that are no peers and for those that ask about something else than HTTP.
package extauthz
