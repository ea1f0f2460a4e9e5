package callers

import (
	"cmp"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/refusals"
)

// Options configures a Gate to doors of type D. The zero value of each field but Open is usable.
type Options[D any] struct {
	// File lists who has a credential; nil lets everybody in with the rights of
	// Anonymous, whatever he shows.
	File *File
	// Listener is the one that callers reach.
	Listener Listener
	// Anonymous is what those may do who show no credential, where the file does not say.
	Anonymous headgate.Rights
	// Closed are rights that nobody has here, whatever the file says.
	Closed headgate.Rights
	// Needs are those of which a caller has to have one, because all that is served here
	// takes one of them; the zero value is all rights. Without one of them the file lets
	// nobody in, so that what they send need not be read.
	Needs headgate.Rights
	// Open makes a door for callers with these rights; required. caller is the name of the
	// credential (Caller.Name), "" for those who show none. It is called once for each set
	// of rights without a name, and for each credential of the file when it is first shown,
	// sometimes more than once; it must be safe for concurrent use.
	Open func(caller string, r headgate.Rights) D
	// Refusals counts whom the gate keeps out, as refused at Door; nil counts nothing.
	Refusals *refusals.Log
	Door     refusals.Door
	// Now is the clock by which credentials expire; nil means the wall clock.
	Now func() time.Time
}

// Gate is where callers come in at one listener: it finds the door for each. It is safe
// for concurrent use. Make one with New.
type Gate[D any] struct {
	options   Options[D]
	anonymous rights
	allowed   rights // those that are not closed
	needs     rights
	elsewhere *Refused        // who is good for something else
	doors     [combinations]D // of those who show nothing
	wrong     wrongTokens
}

// New returns a Gate.
func New[D any](o Options[D]) *Gate[D] {
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Gate[D]{options: o, anonymous: setOf(o.Anonymous), allowed: ^setOf(o.Closed), needs: setOf(o.Needs), wrong: newWrongTokens()}
	g.needs = cmp.Or(g.needs, combinations-1)
	g.elsewhere = &Refused{Reason: refusals.WrongScope, What: "the credential has not the right that this takes (" + g.needs.String() + ") at the listener " + o.Listener.String() + "; hint: rights and listeners in the file of --callers"}
	for s := range g.doors {
		g.doors[s] = o.Open("", rights(s).rights())
	}
	return g
}

// Shown is what a caller shows. The zero value is nothing.
type Shown struct {
	// Token is "" for none.
	Token string
	// Malformed says that there is something in its place that is none, and Own that it
	// came by TokenHeader.
	Malformed, Own bool
	// Peer is who is at the other end of the connection; nil without TLS.
	Peer *inlet.Peer
}

// Refused is why somebody does not come in. It is one of the values below, or one of them
// with a name.
type Refused struct {
	// Reason is for the counts.
	Reason refusals.Reason
	// What is for the caller; it says nothing of the credentials that there are.
	What string
	// Caller is the name of the credential, where it is one of the file; "" otherwise. It is
	// for the log and not for the caller.
	Caller string
}

// of returns r for the caller c.
func (r *Refused) of(c *Caller) *Refused {
	named := *r
	named.Caller = c.Name
	return &named
}

// Error implements error.
func (r *Refused) Error() string { return r.What }

// ShowsNothing reports whether nothing was shown where it would count.
func (r *Refused) ShowsNothing() bool { return r.Reason == refusals.NoToken || r == errMisplaced }

// Ends reports whether the connection is to end with this answer.
func (r *Refused) Ends() bool { return r == errTooMany }

// Why somebody does not come in.
var (
	errNoToken      = &Refused{Reason: refusals.NoToken, What: "no token and no certificate that is known here; hint: Authorization: Bearer TOKEN"}
	errUnlisted     = &Refused{Reason: refusals.NoToken, What: "the certificate is good, but nobody is known here by one of its names, and there is no token; hint: certificates in the file of --callers lists such names"}
	errMalformed    = &Refused{Reason: refusals.Malformed, What: "the header Authorization is not one bearer token; hint: Authorization: Bearer TOKEN"}
	errMalformedOwn = &Refused{Reason: refusals.Malformed, What: "the header " + TokenHeader + " is not one token; hint: " + TokenHeader + ": TOKEN, once"}
	// errMisplaced is for who shows a token of callers as that of a gateway's client.
	errMisplaced = &Refused{Reason: refusals.Malformed, What: "a token of callers stands in Authorization, which is the client's here; hint: " + TokenHeader + ": TOKEN"}
	errUnknown   = &Refused{Reason: refusals.UnknownToken, What: "the token is not known"}
	errExpired   = &Refused{Reason: refusals.Expired, What: "the credential has expired"}
	// errTooMany ends the connection, so that an address which has shown many wrong tokens
	// pays for a connection with each further one. The answer is the same otherwise,
	// because 429 is for what limits say.
	errTooMany = &Refused{Reason: refusals.UnknownToken, What: "too many wrong tokens from this address; hint: ask with a right one"}
)

// Asks reports whether anything depends on what callers show.
func (g *Gate[D]) Asks() bool { return g.options.File != nil }

// Enter returns the door for who shows s, or a *Refused. Who shows a credential may do
// what it is good for, and what those may who show none.
func (g *Gate[D]) Enter(s Shown) (door D, err error) {
	if g.options.File == nil {
		return g.doors[g.anonymous&g.allowed], nil
	}
	k := g.options.File.file.Get()
	anonymous := g.anonymous
	if k.said[g.options.Listener] {
		anonymous = k.anonymous[g.options.Listener]
	}
	c, err := k.caller(s)
	switch {
	case err != nil:
		return door, err
	case c == nil && anonymous&g.allowed&g.needs == 0:
		return door, unknown(s)
	case c == nil:
		return g.doors[anonymous&g.allowed], nil
	case c.expired(g.options.Now):
		return door, errExpired.of(c)
	}
	set := (c.rights[g.options.Listener] | anonymous) & g.allowed
	if set&g.needs == 0 {
		return door, g.elsewhere.of(c)
	}
	return g.doorOf(c, set), nil
}

// opened is the door of one caller at one gate.
type opened struct {
	gate any // *Gate
	door any // the D of the gate
	next *opened
}

// doorOf returns the door of c, who has the rights set here for as long as the file says the
// same of him: another version of it has other Callers.
func (g *Gate[D]) doorOf(c *Caller, set rights) D {
	first := c.doors.Load()
	for o := first; o != nil; o = o.next {
		if o.gate == any(g) {
			return o.door.(D)
		}
	}
	door := g.options.Open(c.Name, set.rights())
	c.doors.CompareAndSwap(first, &opened{g, door, first}) // who comes too late has it opened once more
	return door
}

// unknown says why nobody comes in who shows s.
func unknown(s Shown) *Refused {
	if s.Peer.Certificate() != nil {
		return errUnlisted
	}
	return errNoToken
}

// caller returns who shows s, nil for nobody.
func (k *keyring) caller(s Shown) (*Caller, error) {
	switch {
	case s.Malformed && s.Own:
		return nil, errMalformedOwn
	case s.Malformed:
		return nil, errMalformed
	case s.Token == "":
		return k.ofPeer(s.Peer), nil
	}
	if c := k.token(s.Token); c != nil {
		return c, nil
	}
	return nil, errUnknown
}

// note is what was found for a peer by one keyring.
type note struct {
	keyring *keyring
	caller  *Caller // nil: nobody
}

// ofPeer returns who has the certificate of a peer; nil for nobody.
func (k *keyring) ofPeer(p *inlet.Peer) *Caller {
	shown := p.Certificate()
	if shown == nil || len(k.certificates) == 0 {
		return nil
	}
	if n, ok := p.Note.Load().(*note); ok && n.keyring == k {
		return n.caller
	}
	n := &note{keyring: k}
	for i := range k.certificates {
		if k.certificates[i].name.Match(shown) {
			n.caller = k.certificates[i].caller
			break
		}
	}
	p.Note.Store(n)
	return n.caller
}
