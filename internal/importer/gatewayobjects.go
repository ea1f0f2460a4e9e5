package importer

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// gatewayReader reads one file of Envoy Gateway.
type gatewayReader struct {
	*reader
	// owners are the policies whose rules stand at the nodes of the tree.
	owners map[*node]*policy
}

func readEnvoyGateway(r *reader) error {
	documents, err := r.documents()
	if err != nil {
		return err
	}
	r.tree.consumption = "independent"
	g := &gatewayReader{reader: r, owners: map[*node]*policy{}}
	for _, d := range documents {
		g.object(d, "")
	}
	return nil
}

// object reads an object of Kubernetes, or those of a list: kind List of kubectl get, or that
// of an answer of the API, whose items need not say their kind.
func (g *gatewayReader) object(d *yaml.Node, otherwise string) {
	if d.Kind != yaml.MappingNode {
		g.note(d.Line, "items", "one that is no mapping is not read")
		return
	}
	kind, ok := g.text(d, "kind")
	if !ok {
		return
	}
	kind = cmp.Or(kind, otherwise)
	of, isList := strings.CutSuffix(kind, "List")
	switch {
	case kind == "BackendTrafficPolicy":
		readPolicy(g, d)
	case isList:
		list, _ := g.list(d, "items")
		for _, item := range list {
			g.object(item, of)
		}
	case kind == "EnvoyGateway":
		g.elsewhere(d.Line, "kind: "+kind, "it says how the gateway runs, and has no limits")
	case strings.EqualFold(kind, "BackendTrafficPolicy") || namesRateLimit(kind) || mentionsRateLimit(d):
		g.note(d.Line, strings.TrimSpace("kind: "+kind), "limits are read of the kind BackendTrafficPolicy alone")
	case isSet(field(d, "spec", "connection", "connectionLimit")):
		g.elsewhere(d.Line, "kind: "+kind, "it bounds connections to a listener, and stays there")
	default:
		g.elsewhere(d.Line, "kind: "+kind, "it has no limits")
	}
}

// namesRateLimit reports whether a word is about rate limits: rateLimit, rate_limits, and the
// filters of Envoy.
func namesRateLimit(word string) bool {
	return strings.Contains(strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(word)), "ratelimit")
}

// mentionsRateLimit reports whether an object has a key that is about rate limits, or names a
// filter of Envoy that limits. Names of other things say nothing.
func mentionsRateLimit(n *yaml.Node) bool {
	for key := range pairs(n) {
		if namesRateLimit(key.Value) && !strings.ContainsAny(key.Value, "./") {
			return true
		}
	}
	for _, child := range n.Content {
		if text := textOf(child); strings.HasPrefix(text, "envoy.filters.") || strings.HasPrefix(text, "type.googleapis.com/") {
			if namesRateLimit(text) {
				return true
			}
		}
		if mentionsRateLimit(child) {
			return true
		}
	}
	return false
}
