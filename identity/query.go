package identity

import (
	"net/http"
	"net/url"
	"strings"
)

const (
	// MaxQuery bounds the bytes of a query in which a parameter is looked for. A
	// longer one is taken to hold none.
	MaxQuery = 16 << 10
	// MaxCookies bounds the bytes of all Cookie headers in which a cookie is
	// looked for. Browsers keep to 4 KiB for one cookie.
	MaxCookies = 16 << 10
	// MaxLines bounds the lines of a header that holds a credential or a value. A
	// header with more of them is in conflict, whatever they say.
	MaxLines = 16
)

// StripQuery returns a raw query (without its "?") without the parameters of
// these names, however they are escaped, for logs and for what is forwarded. The
// rest stays as it was.
func StripQuery(raw string, names ...string) string {
	if raw == "" || len(names) == 0 {
		return raw
	}
	kept, changed := make([]string, 0, 8), false
	for part := range strings.SplitSeq(raw, "&") {
		if stripped(part, names) {
			changed = true
			continue
		}
		kept = append(kept, part)
	}
	if !changed {
		return raw
	}
	return strings.Join(kept, "&")
}

// stripped reports whether a part of a query may hold one of the parameters. Some
// servers cut at semicolons too: a part that has the name behind one goes whole.
func stripped(part string, names []string) bool {
	for piece := range strings.SplitSeq(part, ";") {
		name, _, _ := strings.Cut(piece, "=")
		if unescaped, err := url.QueryUnescape(name); err == nil {
			name = unescaped
		}
		for _, n := range names {
			if strings.EqualFold(name, n) {
				return true
			}
		}
	}
	return false
}

// found is a credential that may stand in several places.
type found struct {
	value string
	// reason says what is wrong with it; 0 is nothing.
	reason Reason
}

// add takes one more value; one that differs from the first makes a conflict.
// Empty values are none.
func (f *found) add(value string) {
	switch {
	case value == "" || value == f.value:
	case f.value == "":
		f.value = value
	default:
		f.reason = Conflicting
	}
}

// lines returns the lines of a header, unless there are too many.
func (f *found) lines(h http.Header, name string) []string {
	lines := h[name]
	if len(lines) > MaxLines {
		f.reason = Conflicting
		return nil
	}
	return lines
}

// header adds the values of a header whose name is canonical.
func (f *found) header(h http.Header, name string) {
	for _, value := range f.lines(h, name) {
		f.add(strings.Trim(value, " \t"))
	}
}

// query adds the values of a query parameter.
func (f *found) query(raw, name string) {
	if len(raw) > MaxQuery {
		return
	}
	for raw != "" {
		var part string
		part, raw, _ = strings.Cut(raw, "&")
		key, value, _ := strings.Cut(part, "=")
		if key != name {
			if strings.IndexByte(key, '%') < 0 && strings.IndexByte(key, '+') < 0 {
				continue
			}
			if unescaped, err := url.QueryUnescape(key); err != nil || unescaped != name {
				continue
			}
		}
		if unescaped, err := url.QueryUnescape(value); err == nil {
			f.add(unescaped)
		}
	}
}

// cookie adds the values of a cookie.
func (f *found) cookie(h http.Header, name string) {
	left := MaxCookies
	for _, line := range h["Cookie"] {
		if left -= len(line); left < 0 {
			return
		}
		for line != "" {
			var part string
			part, line, _ = strings.Cut(line, ";")
			key, value, _ := strings.Cut(part, "=")
			if strings.Trim(key, " \t") != name {
				continue
			}
			value = strings.Trim(value, " \t")
			if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
				value = value[1 : n-1]
			}
			f.add(value)
		}
	}
}

// bearer adds the credentials of the Authorization header, if their scheme is
// Bearer. An Authorization of another scheme is nobody's business here.
func (f *found) bearer(h http.Header, want func(credentials string) bool) {
	for _, line := range f.lines(h, "Authorization") {
		scheme, credentials, ok := strings.Cut(strings.Trim(line, " \t"), " ")
		if credentials = strings.TrimLeft(credentials, " "); ok && strings.EqualFold(scheme, "Bearer") && want(credentials) {
			f.add(credentials)
		}
	}
}

// looksLikeToken tells a token from an API key where both come as bearer
// credentials: its first part is the base64 of a JSON object.
func looksLikeToken(credentials string) bool {
	return strings.HasPrefix(credentials, "eyJ") && strings.IndexByte(credentials, '.') > 0
}

func notToken(credentials string) bool { return !looksLikeToken(credentials) }

func anyBearer(string) bool { return true }
