package httplimit

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

// skipList says which requests are not limited.
type skipList struct {
	paths    []string
	prefixes []string // end in a slash
	methods  []string
}

// newSkipList refuses what no request can match, which would be limited unawares.
func newSkipList(paths, methods []string) (skipList, error) {
	s := skipList{methods: slices.Clone(methods)}
	for _, method := range methods {
		if !ascii.IsToken(method) || strings.ToUpper(method) != method {
			return skipList{}, fmt.Errorf("SkipMethods: %q; hint: methods are written in capitals, such as GET", method)
		}
	}
	for _, p := range paths {
		if !strings.HasPrefix(p, "/") && p != "*" {
			return skipList{}, fmt.Errorf("SkipPaths: %q; hint: a path begins with a slash, such as /healthz", p)
		}
		if strings.HasSuffix(p, "/") && p != "/" {
			if !isBelow(p, p) {
				return skipList{}, fmt.Errorf("SkipPaths: %q; hint: nothing is below a path with an empty, . or .. segment", p)
			}
			s.prefixes = append(s.prefixes, p)
		} else {
			s.paths = append(s.paths, p)
		}
	}
	return s, nil
}

func (s *skipList) has(r *http.Request) bool {
	if len(s.methods)+len(s.paths)+len(s.prefixes) == 0 {
		return false
	}
	return slices.Contains(s.methods, r.Method) || slices.Contains(s.paths, r.URL.Path) ||
		slices.ContainsFunc(s.prefixes, func(prefix string) bool { return isBelow(r.URL.Path, prefix) })
}

// isBelow reports whether p is prefix or below it. "/static/../admin" is below
// nothing: a handler that cleans paths would serve /admin unlimited.
func isBelow(p, prefix string) bool {
	return strings.HasPrefix(p, prefix) && path.Clean(p) == strings.TrimSuffix(p, "/")
}

func (m *Middleware) skips(r *http.Request) bool {
	o := &m.options
	return r.Method == http.MethodOptions && !o.CountPreflight && isPreflight(r) ||
		m.skip.has(r) ||
		o.Skip != nil && o.Skip(r)
}

// isPreflight reports whether a browser asks by r, an OPTIONS request, what it
// may send.
func isPreflight(r *http.Request) bool {
	return len(r.Header["Origin"]) > 0 && len(r.Header["Access-Control-Request-Method"]) > 0
}
