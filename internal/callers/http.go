package callers

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/refusals"
	"github.com/headgate/headgate/internal/tokenfile"
)

// TokenHeader is where a caller may show a token whose Authorization is somebody else's;
// it goes before that. Its name over gRPC is the same in lower case.
const TokenHeader = "X-Headgate-Token"

// TokenOf returns what a caller shows in the values of Authorization and of TokenHeader.
func TokenOf(authorization, own []string) (s Shown) {
	if len(own) > 0 {
		return Shown{Token: own[0], Malformed: len(own) > 1 || own[0] == "", Own: true}
	}
	token, err := tokenfile.Bearer(authorization)
	return Shown{Token: token, Malformed: err != nil}
}

// HTTP returns the door for who sent r, or a *Refused.
func (g *Gate[D]) HTTP(r *http.Request) (door D, err error) {
	s := Shown{}
	if g.Asks() {
		s = TokenOf(r.Header["Authorization"], r.Header[TokenHeader])
		s.Peer = inlet.PeerOf(r.Context())
	}
	if door, err = g.Enter(s); err != nil {
		return door, g.Refuse(err, refusals.AddressOf(r))
	}
	return door, nil
}

// Gateway is HTTP for a sub-request of a gateway: its Authorization is that of the gateway's
// client and shows nothing, so that a token counts in TokenHeader alone.
func (g *Gate[D]) Gateway(r *http.Request) (door D, err error) {
	s := Shown{}
	if g.Asks() {
		s = TokenOf(nil, r.Header[TokenHeader])
		s.Peer = inlet.PeerOf(r.Context())
	}
	if door, err = g.Enter(s); err == nil {
		return door, nil
	}
	if token, _ := tokenfile.Bearer(r.Header["Authorization"]); err == errNoToken && strings.HasPrefix(token, TokenPrefix) {
		err = errMisplaced
	}
	return door, g.Refuse(err, refusals.AddressOf(r))
}

// Refuse counts an error of Enter for the address that it is about, the zero one for a
// socket of this machine, and returns what that is to hear.
func (g *Gate[D]) Refuse(err error, from netip.Addr) error {
	refused := (*Refused)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	if refused == errUnknown && g.wrong.tooMany(from, g.options.Now()) {
		refused = errTooMany
	}
	g.options.Refusals.RefusedFrom(g.options.Door, refused.Reason, from, refused.Caller)
	return refused
}

// Answer sets what the header of an answer says to who was refused because of err, and
// returns the status: 403 for any other error.
func Answer(h http.Header, err error) (status int) {
	refused, ok := errors.AsType[*Refused](err)
	if !ok {
		return http.StatusForbidden
	}
	status, challenge := refused.status()
	h.Set("WWW-Authenticate", challenge)
	if refused.Ends() {
		h.Set("Connection", "close")
	}
	return status
}

// bodyPatience is how long the body of a request that is refused may take to come. It is
// on the way with the header as a rule; who still owes it then loses the connection.
const bodyPatience = 100 * time.Millisecond

// KeepOut is Answer for a request of which the body was not read. net/http reads it before
// it answers, so that the next request of the connection can be told apart from it: that
// takes no longer than bodyPatience.
func KeepOut(w http.ResponseWriter, err error) (status int) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience)) // a writer that cannot waits for none
	return Answer(w.Header(), err)
}

// status returns the status of HTTP for a refusal, and its WWW-Authenticate.
func (r *Refused) status() (status int, challenge string) {
	switch r.Reason {
	case refusals.NoToken:
		return http.StatusUnauthorized, `Bearer realm="headgate"`
	case refusals.WrongScope:
		return http.StatusForbidden, `Bearer realm="headgate", error="insufficient_scope"`
	}
	return http.StatusUnauthorized, `Bearer realm="headgate", error="invalid_token"`
}
