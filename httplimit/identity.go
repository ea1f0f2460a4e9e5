package httplimit

import (
	"net/http"
	"sync"

	"github.com/headgate/headgate/identity"
)

// Identity is the Identify by an Extractor: the client's address behind proxies, API
// keys, verified tokens, path templates, and what is made of them. It adds the
// descriptors that the Extractor makes, none where it makes none.
//
// A credential that the Extractor refuses (identity.RefusedError) is answered with
// 401 where Options.Challenge gives the WWW-Authenticate and with 400 elsewhere, as
// ErrUnidentified is; several that contradict each other with 400, and a good one
// that cannot be verified for want of keys with 503. A request without an address
// where one is needed (identity.ErrNoAddress) is a fault of the configuration: 500.
func Identity(e *identity.Extractor) Identify {
	refuseNil("Identity", "extractor", e == nil)
	var identities sync.Pool // of *identity.Identity
	return func(r *http.Request, s *Subject) error {
		who, _ := identities.Get().(*identity.Identity)
		if who == nil {
			who = new(identity.Identity)
		}
		err := e.Extract(r, s.now(), who)
		if err == nil {
			for _, entries := range who.Descriptors {
				s.Add(entries...)
			}
			s.pass.Request().Origin.ClientIP = e.Client(r, who)
		}
		who.Token = nil // it is the client's, and may be long
		identities.Put(who)
		return err
	}
}
