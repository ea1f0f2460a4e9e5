package overload

import (
	"fmt"
	"strings"
)

// MaxPaths bounds the path patterns of a Classifier: they are tried in order,
// for each request, at some nanoseconds each.
const MaxPaths = 256

// Asked is what a front knows of a request. Each field may be empty.
type Asked struct {
	// Method as in HTTP, in capitals.
	Method string
	// Path is the decoded path on which the front routes, or its template. One
	// with empty, "." or ".." segments matches no pattern, so that nobody gets
	// the priority of a route that is not served.
	Path string
	// Header is the value of the header that carries a priority.
	Header string
	// Trusted says that the header was set by one of ours and not by a client.
	Trusted bool
	// Rule is the word of the rule that matched.
	Rule string
}

// PathPriority gives the requests to a path a priority.
type PathPriority struct {
	// Method that is meant; "" means all.
	Method string
	// Pattern is a path such as /v1/orders/{id}, in which a segment in braces
	// stands for any one; with a slash at the end it means the path and all below.
	Pattern  string
	Priority Priority
}

// ClassifierOptions configures a Classifier. The zero value is the defaults.
type ClassifierOptions struct {
	// Paths are tried in order, the first that matches speaks; at most MaxPaths.
	Paths []PathPriority
	// Methods says what differs from the defaults: P2 for GET, HEAD and unknown
	// methods, P1 for POST, PUT, PATCH and DELETE, and for OPTIONS, because a
	// browser asks it before each of these. Methods are written in capitals.
	Methods map[string]Priority
}

// Classifier gives requests their priority. It is immutable and does not
// allocate. The zero value has the defaults.
type Classifier struct {
	paths   []compiledPath
	methods map[string]Priority
}

type compiledPath struct {
	method string
	// literal is what a path begins with that can match: it spares most
	// patterns the comparison by segment.
	literal string
	// segments in order; "" stands for any one.
	segments []string
	// below says that all paths below match too.
	below    bool
	priority Priority
}

// NewClassifier compiles o. It refuses more than MaxPaths patterns, and patterns and
// methods that no request can match.
func NewClassifier(o ClassifierOptions) (*Classifier, error) {
	if len(o.Paths) > MaxPaths {
		return nil, fmt.Errorf("overload: classifier: %d paths; at most %d are tried for each request", len(o.Paths), MaxPaths)
	}
	c := &Classifier{methods: make(map[string]Priority, len(o.Methods))}
	for _, p := range o.Paths {
		compiled, err := compilePath(p)
		if err != nil {
			return nil, err
		}
		c.paths = append(c.paths, compiled)
	}
	for method, p := range o.Methods {
		if err := checkMethod(method); err != nil {
			return nil, err
		}
		c.methods[method] = min(p, P3)
	}
	return c, nil
}

// checkMethod refuses a method that no request has: they are told apart by case.
func checkMethod(method string) error {
	if method == "" || strings.ToUpper(method) != method {
		return fmt.Errorf("overload: classifier: method %.80q; methods are written in capitals, such as GET", method)
	}
	return nil
}

func compilePath(p PathPriority) (compiledPath, error) {
	c := compiledPath{method: p.Method, priority: min(p.Priority, P3)}
	if !clean(p.Pattern) {
		return c, fmt.Errorf("overload: classifier: pattern %.80q can match no path; it begins with / and has no empty, . or .. segment", p.Pattern)
	}
	if err := checkMethod(p.Method); err != nil && p.Method != "" {
		return c, err
	}
	rest := p.Pattern[1:]
	if rest == "" || strings.HasSuffix(rest, "/") {
		c.below = true
		rest = strings.TrimSuffix(rest, "/")
	}
	c.literal, _, _ = strings.Cut("/"+rest, "{")
	if rest == "" {
		return c, nil
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") {
			segment = ""
		} else if strings.Contains(segment, "{") {
			return c, fmt.Errorf("overload: classifier: pattern %.80q has a brace within a segment; braces stand for a whole one", p.Pattern)
		}
		c.segments = append(c.segments, segment)
	}
	return c, nil
}

// Priority returns the priority of a. The rule's word speaks first, else the
// first path that matches, else the method. The header can always lower what
// came out, for whoever asks to be shed first may be; it raises it only where
// Trusted is set and no rule has spoken. A word that is no priority counts as
// none.
func (c *Classifier) Priority(a Asked) Priority {
	asked, hasHeader := lookupPriority(a.Header)
	if p, ok := lookupPriority(a.Rule); ok {
		if hasHeader {
			return max(p, asked)
		}
		return p
	}
	if hasHeader && a.Trusted {
		return asked
	}
	p := c.own(a.Method, a.Path)
	if hasHeader {
		return max(p, asked)
	}
	return p
}

// own is the priority of a request by its path or else by its method.
func (c *Classifier) own(method, path string) Priority {
	if len(c.paths) > 0 && clean(path) {
		for i := range c.paths {
			if c.paths[i].match(method, path) {
				return c.paths[i].priority
			}
		}
	}
	if p, ok := c.methods[method]; ok {
		return p
	}
	switch method {
	case "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return P1
	}
	return P2
}

// match reports whether a clean path is meant.
func (c *compiledPath) match(method, path string) bool {
	if c.method != "" && c.method != method || !strings.HasPrefix(path, c.literal) {
		return false
	}
	rest, more := path[1:], true
	for _, want := range c.segments {
		if !more {
			return false
		}
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" || want != "" && want != segment {
			return false
		}
	}
	return c.below || !more
}

// clean reports whether a path begins with a slash and has no empty, "." or ".."
// segment; the slash at its end may be there.
func clean(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	rest, more := path[1:], true
	for more {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "." || segment == ".." || segment == "" && more {
			return false
		}
	}
	return true
}
