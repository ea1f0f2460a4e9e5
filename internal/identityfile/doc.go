// Package identityfile reads the file that says who asks and for what: YAML, made
// into an identity.Extractor. The file is part of what an operator writes, beside
// the rules that limit on the entries which it names.
//
//	client_ip: {source: x_forwarded_for, trusted: [10.0.0.0/8]}
//	hash_key_file: /etc/headgate/hash.key
//	api_key: {headers: [X-API-Key]}
//	routes: ["/v1/orders/{id}"]
//	descriptors:
//	  - entries: [{first: [api_key, remote_address]}, endpoint]
//	  - entries: [remote_address]
//	    when_unverified: true
//
// Everything in it is known before it is used: an unknown key, a repeated one and a
// source that lacks what it needs are errors with the file and the line. Secrets
// stand in files of their own and in no error.
package identityfile
