package identity

import (
	"fmt"
	"path"
	"strings"
)

const (
	// MaxTemplates bounds the templates of one set.
	MaxTemplates = 4096
	// MaxSegments bounds the segments of a template and of a path that is
	// matched.
	MaxSegments = 32
	// MaxPath bounds the bytes of a template and of a path that is matched.
	MaxPath = 2048
	// Unmatched is the one value of all paths that fit no template, so that a
	// client cannot invent values. No template looks like it.
	Unmatched = "unmatched"
)

// Templates tells which of a fixed number of path templates a path fits. A
// template is a path whose segments are text, "{name}" for any one segment, or,
// at the end, "{name...}" for all that is left, which may be nothing:
//
//	/users/{id}/posts
//	/static/{file...}
//
// Where several fit, the most specific one is taken: from the left, text before
// {name} before {name...}. Two templates that differ in names only are refused.
//
// Paths are compared as net/url decodes them, letter by letter. A slash at the
// end, doubled slashes and dot segments do not count: "//users/./7/" fits
// "/users/{id}". The zero value fits nothing. Templates do not change and are
// safe for concurrent use.
type Templates struct {
	root node
}

// node is a place in the tree of segments.
type node struct {
	text map[string]*node
	any  *node
	// template ends here, rest takes this place and all after it; each is empty
	// where there is none.
	template, rest string
}

// NewTemplates builds a set of templates.
func NewTemplates(templates ...string) (*Templates, error) {
	var bad problems
	t := &Templates{}
	if len(templates) > MaxTemplates {
		bad.add("Templates", fmt.Sprintf("%d templates", len(templates)), fmt.Sprintf("at most %d", MaxTemplates))
		templates = nil
	}
	for i, template := range templates {
		if problem := t.add(template); problem != "" {
			bad.add(index("Templates", i), fmt.Sprintf("%.100q: %s", template, problem), `write a path such as "/users/{id}/posts" or "/static/{file...}"`)
		}
	}
	return t, bad.err()
}

func (t *Templates) add(template string) (problem string) {
	switch {
	case len(template) > MaxPath:
		return fmt.Sprintf("longer than %d bytes", MaxPath)
	case !strings.HasPrefix(template, "/"):
		return "does not start with a slash"
	case path.Clean(template) != strings.TrimRight(template, "/") && template != "/":
		return "has doubled slashes or dot segments"
	case strings.Count(template, "/") > MaxSegments:
		return fmt.Sprintf("more than %d segments", MaxSegments)
	}
	at := &t.root
	for rest := strings.Trim(template, "/"); rest != ""; {
		var segment string
		segment, rest, _ = strings.Cut(rest, "/")
		name, isName := strings.CutPrefix(segment, "{")
		if isName {
			if name, isName = strings.CutSuffix(name, "}"); !isName {
				return "has a brace without its counterpart"
			}
			name, isRest := strings.CutSuffix(name, "...")
			if name == "" || strings.ContainsAny(name, "{}.") {
				return "has a name that is empty or holds dots or braces"
			}
			if isRest && rest != "" {
				return "has segments behind {" + name + "...}"
			}
			if isRest {
				return claim(&at.rest, template)
			}
			if at.any == nil {
				at.any = &node{}
			}
			at = at.any
			continue
		}
		if strings.ContainsAny(segment, "{}") {
			return "has a brace inside a segment"
		}
		if at.text == nil {
			at.text = map[string]*node{}
		}
		if at.text[segment] == nil {
			at.text[segment] = &node{}
		}
		at = at.text[segment]
	}
	return claim(&at.template, template)
}

// claim puts a template in its place.
func claim(place *string, template string) (problem string) {
	if *place != "" {
		return "fits the same paths as " + *place
	}
	*place = template
	return ""
}

// Match returns the most specific template that the path fits, as it was
// written. It reports false, and Unmatched, when there is none. It does not
// allocate for a path that is clean.
func (t *Templates) Match(p string) (template string, ok bool) {
	if len(p) > MaxPath || p != "" && p[0] != '/' {
		return Unmatched, false
	}
	if p = strings.Trim(path.Clean(p), "/"); p == "." {
		p = ""
	}
	if strings.Count(p, "/") >= MaxSegments {
		return Unmatched, false
	}
	if template = t.root.match(p); template == "" {
		return Unmatched, false
	}
	return template, true
}

// match returns the best template below n for the segments left, or "". Each node
// is visited once at most, so the cost is bounded by the size of the tree.
func (n *node) match(left string) string {
	if left == "" {
		if n.template != "" {
			return n.template
		}
		return n.rest
	}
	segment, after, _ := strings.Cut(left, "/")
	if next := n.text[segment]; next != nil {
		if found := next.match(after); found != "" {
			return found
		}
	}
	if n.any != nil {
		if found := n.any.match(after); found != "" {
			return found
		}
	}
	return n.rest
}
