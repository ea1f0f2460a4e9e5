package rulefile

import (
	"github.com/headgate/headgate/rules"
)

// ownKey is a key that envoyproxy/ratelimit does not know, and where it stands.
type ownKey struct {
	name, file string
	at         position
}

// setMatch takes over what f says about how its domain is matched.
func (d *domain) setMatch(r *reader, f *fileSpec) {
	if f.match == "" {
		return
	}
	mode, ok := map[string]rules.MatchMode{"leaf": rules.Leaf, "path": rules.Path}[f.match]
	switch {
	case !ok:
		r.errorf(f.matchAt, "write leaf (the last entry's limit counts) or path (every limit on the way counts)", "match '%s' is unknown", f.match)
	case d.matchFrom != "" && d.Match != mode:
		r.errorf(f.matchAt, "files of one domain agree on match", "match is '%s', but '%v' in %s", f.match, d.Match, d.matchFrom)
	default:
		d.Match, d.matchFrom = mode, f.name
	}
}

// inferMatch sets the match of a domain whose files have keys of Headgate and do not say
// it: path. Where a limit stands below another one, that changes what is limited by adding
// a key that is not about it, such as failure_mode, to a file of envoyproxy/ratelimit,
// which is matched by leaf. So the file is told to say what it means.
func (d *domain) inferMatch(r *reporter) {
	d.Match = rules.Path
	outer, inner := nestedRules(&d.Root, nil)
	if outer == nil {
		return
	}
	r.file = d.own.file
	r.warnf(d.own.at, "write match: path at the top of the file to keep it so, or match: leaf so that only the limit of the last entry counts",
		"with the key '%s' of Headgate, and without 'match', the limits of line %d and of line %d both count for one request; without such keys only the second would",
		d.own.name, outer.Line, inner.Line)
}

// nestedRules returns the first two nodes below n with rules of which one lies below the
// other; nil if there are none. above is the nearest node above n with a rule.
func nestedRules(n, above *rules.Node) (outer, inner *rules.Node) {
	for _, child := range n.Children {
		nearest := above
		if child.Rule != nil {
			if above != nil {
				return above, child
			}
			nearest = child
		}
		if outer, inner = nestedRules(child, nearest); outer != nil {
			return outer, inner
		}
	}
	return nil, nil
}
