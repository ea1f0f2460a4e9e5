package identity

import (
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

// maxForwardedLength bounds one element of a Forwarded header: it may carry host
// and protocol beside the address.
const maxForwardedLength = 512

// cutHop cuts the last element off a comma separated list. It looks at no more
// than one byte beyond the longest element that can mean anything, so that a
// header costs the same however long it is; what is longer comes back as it is
// and is no address.
func cutHop(line string) (rest, element string, more bool) {
	tail := line[max(0, len(line)-maxHopLength-1):]
	if i := strings.LastIndexByte(tail, ','); i >= 0 {
		return line[:len(line)-len(tail)+i], tail[i+1:], true
	}
	return "", tail, false
}

// cutForwarded cuts the last element off a Forwarded header (RFC 7239). It reads
// from the right, as what stands there was written by the nearest proxy: a quote
// that a client leaves open further left cannot swallow it.
func cutForwarded(line string) (rest, element string, more bool) {
	low := max(0, len(line)-maxForwardedLength-1)
	quoted := false
	for i := len(line) - 1; i >= low; i-- {
		switch line[i] {
		case '"':
			quoted = !quoted || escaped(line[low:i])
		case ',':
			if !quoted {
				return line[:i], line[i+1:], true
			}
		}
	}
	return "", line[low:], false
}

// escaped reports whether an odd number of backslashes ends s.
func escaped(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// forwardedFor returns the value of the one "for" of an element, and false for an
// element that is malformed, or has none or several.
func forwardedFor(element string) (node string, ok bool) {
	if len(element) > maxForwardedLength {
		return "", false
	}
	for rest := strings.Trim(element, " \t"); ; {
		name, after, found := strings.Cut(rest, "=")
		if name = strings.Trim(name, " \t"); !found || !ascii.IsToken(name) {
			return "", false
		}
		var value string
		var last bool
		if value, rest, last, found = cutParameter(after); !found {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if ok {
				return "", false
			}
			node, ok = value, true
		}
		if last {
			return node, ok
		}
	}
}

// cutParameter cuts a value off "value" or "value;rest". A value may be quoted; a
// backslash in one is refused, as no address needs it.
func cutParameter(s string) (value, rest string, last, ok bool) {
	if len(s) > 0 && s[0] == '"' {
		end := strings.IndexByte(s[1:], '"')
		if end < 0 {
			return "", "", false, false
		}
		value, s = s[1:1+end], strings.TrimLeft(s[end+2:], " \t")
		if s == "" {
			return value, "", true, strings.IndexByte(value, '\\') < 0
		}
		return value, s[1:], false, s[0] == ';' && strings.IndexByte(value, '\\') < 0
	}
	value, rest, found := strings.Cut(s, ";")
	value = strings.Trim(value, " \t")
	return value, rest, !found, value != "" && strings.IndexByte(value, '"') < 0
}
