package adminapi

import "net/http"

var whoRoute = route{
	method: http.MethodGet, path: "me", scope: Read, local: true, serve: me, id: "getMe", summary: "Say who asks",
	answers: []reply{ok(meView{}, "Who the token is of, and what it is good for.")},
}

// meView is who asks.
type meView struct {
	Actor string `json:"actor"`
	Scope string `json:"scope"`
	// Names says that keys are named, and clients; else there are hashes.
	Names bool `json:"names"`
}

// me answers who asks.
func me(c *call) (*answer, error) {
	return jsonAnswer(http.StatusOK, meView{c.who.actor, c.who.scope.String(), c.who.names()})
}

// names reports whether its bearer may see whose a key is.
func (c *grant) names() bool { return c.scope >= Write }
