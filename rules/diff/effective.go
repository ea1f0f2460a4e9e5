package diff

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
)

// longerRequests is what a domain's match says beside what single descriptors show.
var longerRequests = map[rules.MatchMode]string{rules.Leaf: "none", rules.Path: "all on the way"}

// effective returns, for a domain whose match changes, which limits count for a request
// that ends at a descriptor, where that changes with it. Both sides are read from the
// descriptors of both sets, so that a limit that changes too is shown as it was and is.
func effective(was, now *rules.Domain) []Change {
	if was.Match == now.Match {
		return nil
	}
	changes := []Change{{Changed, "domain " + now.Name, "limits of requests with further entries", longerRequests[was.Match], longerRequests[now.Match]}}
	before := make(map[string]string)
	for n := range was.Root.Below() {
		before[identityOf(n)] = counting(was, n)
	}
	for n := range now.Root.Below() {
		from, known := before[identityOf(n)]
		if to := counting(now, n); known && from != to && onWay(n) {
			changes = append(changes, Change{Changed, now.Name + "." + n.Path(), "limits that count", from, to})
		}
	}
	return changes
}

// onWay reports whether a rule stands above n, without which match says nothing about it.
func onWay(n *rules.Node) bool {
	return slices.ContainsFunc(n.Parent.Way(), func(above *rules.Node) bool { return above.Rule != nil })
}

// identityOf names a node by those on the way to it, in a way that keys with dots do not
// make ambiguous.
func identityOf(n *rules.Node) string {
	var parts []string
	for _, on := range n.Way() {
		parts = append(parts, on.Composite())
	}
	return strings.Join(parts, separator)
}

// counting returns the limits of a request that ends at n, the outermost first; "" for
// none.
func counting(d *rules.Domain, n *rules.Node) string {
	var texts []string
	for _, on := range n.Way() {
		if on.Rule == nil || d.Match == rules.Leaf && on != n {
			continue
		}
		text := limitsText(on.Rule)
		if on != n {
			text += " of " + d.Name + "." + on.Path()
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " and ")
}
