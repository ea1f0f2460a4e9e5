package httplimit

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// skipList says which requests are not limited.
type skipList struct {
	paths    []string
	prefixes []string // end in a slash
	methods  []string
}

func newSkipList(paths, methods []string) skipList {
	s := skipList{methods: slices.Clone(methods)}
	for _, p := range paths {
		if strings.HasSuffix(p, "/") && p != "/" {
			s.prefixes = append(s.prefixes, p)
		} else {
			s.paths = append(s.paths, p)
		}
	}
	return s
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
