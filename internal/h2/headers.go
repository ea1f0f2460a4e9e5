package h2

import (
	"iter"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// Header is the fields of a call. It is only there until the call is answered, which is when
// Unary.Serve returns or Batch.Flush has sent it; the texts in it may be kept.
type Header struct{ block *block }

// Value returns the first value of a field; ok is false when there is none. The name is in
// lower case.
func (h Header) Value(name string) (value string, ok bool) {
	if h.block != nil {
		for i := range h.block.fields {
			if f := &h.block.fields[i]; f.Name == name {
				return f.Value, true
			}
		}
	}
	return "", false
}

// Values returns all values of a field in the order in which they came, nil for none.
func (h Header) Values(name string) (values []string) {
	if h.block == nil {
		return nil
	}
	for i := range h.block.fields {
		if f := &h.block.fields[i]; f.Name == name {
			values = append(values, f.Value)
		}
	}
	return values
}

// All returns the names, which are in lower case, and values of all fields in the order in which they came.
func (h Header) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		if h.block == nil {
			return
		}
		for i := range h.block.fields {
			if f := &h.block.fields[i]; !yield(f.Name, f.Value) {
				return
			}
		}
	}
}

// block is one decoded block of header fields.
type block struct {
	method, scheme, authority, path string
	// fields are those that are no pseudo-fields.
	fields []hpack.HeaderField
	// pseudo says which pseudo-fields came.
	pseudo pseudoFields
	// bad is what is wrong with the block, "" for nothing.
	bad string
	// size and count are what was decoded, and long says that it was too much.
	size, count int
	long        bool
	// unary is who answers a call with this header, nil for a slow stream; timeout is its
	// grpc-timeout, 0 for none.
	unary   Unary
	timeout time.Duration
	// kept says that the memo has it: it is not used again for another.
	kept bool
}

type pseudoFields uint8

const (
	hasMethod pseudoFields = 1 << iota
	hasScheme
	hasAuthority
	hasPath
)

func (b *block) reset() {
	clear(b.fields)
	*b = block{fields: b.fields[:0]}
}

// emit takes over one decoded field. All is counted before anything is merged or dropped.
func (b *block) emit(f hpack.HeaderField) {
	b.count++
	b.size += len(f.Name) + len(f.Value) + fieldOverhead
	if b.count > maxFields || b.size > maxHeaderList {
		b.long = true
		return
	}
	switch {
	case b.bad != "":
	case !httpguts.ValidHeaderFieldValue(f.Value):
		b.bad = "a value with control characters"
	case strings.HasPrefix(f.Name, ":"):
		b.setPseudo(f)
	case !validName(f.Name):
		b.bad = "a name with other than lower-case letters, digits and marks"
	case isConnectionField(f):
		b.bad = "a field of the connection"
	default:
		b.fields = append(b.fields, f)
	}
}

func (b *block) setPseudo(f hpack.HeaderField) {
	var which pseudoFields
	var to *string
	switch f.Name {
	case ":method":
		which, to = hasMethod, &b.method
	case ":scheme":
		which, to = hasScheme, &b.scheme
	case ":authority":
		which, to = hasAuthority, &b.authority
	case ":path":
		which, to = hasPath, &b.path
	default:
		b.bad = "an unknown pseudo-field"
		return
	}
	if b.pseudo&which != 0 || len(b.fields) > 0 {
		b.bad = "a pseudo-field twice, or after others"
		return
	}
	b.pseudo |= which
	*to = f.Value
}

func validName(name string) bool {
	if !httpguts.ValidHeaderFieldName(name) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return true
}

// isConnectionField reports fields that mean something to one connection of HTTP/1.1 alone
// (RFC 9113, section 8.2.2).
func isConnectionField(f hpack.HeaderField) bool {
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return true
	case "te":
		return f.Value != "trailers"
	}
	return false
}

// checkRequest says what is wrong with the header of a request, "" for nothing.
func (b *block) checkRequest() string {
	const whole = hasMethod | hasScheme | hasPath
	switch {
	case b.bad != "":
		return b.bad
	case b.method == "CONNECT":
		return "CONNECT"
	case b.pseudo&whole != whole:
		return "a pseudo-field is missing"
	case !strings.HasPrefix(b.path, "/") && !(b.path == "*" && b.method == "OPTIONS"):
		return "a path that does not begin with /"
	}
	return b.checkHost()
}

// checkHost says what is wrong with the host: more than one, or one beside another
// :authority.
func (b *block) checkHost() string {
	hosts := Header{b}.Values("host")
	switch {
	case len(hosts) > 1:
		return "two hosts"
	case len(hosts) == 1 && b.pseudo&hasAuthority != 0 && !strings.EqualFold(hosts[0], b.authority):
		return "a host beside another :authority"
	}
	return ""
}

// host is who was asked.
func (b *block) host() string {
	if b.authority != "" {
		return b.authority
	}
	host, _ := Header{b}.Value("host")
	return host
}

// checkTrailer says what is wrong with the trailer of a request, "" for nothing.
func (b *block) checkTrailer() string {
	if b.bad == "" && b.pseudo != 0 {
		return "a pseudo-field in a trailer"
	}
	return b.bad
}

// route finds who answers a request with this header, and until when that is wanted.
func (b *block) route(fast map[string]Unary) {
	text, timed := Header{b}.Value("grpc-timeout")
	timeout, ok := parseTimeout(text)
	if ok {
		b.timeout = timeout
	}
	unary := fast[b.path]
	if unary == nil || b.method != "POST" {
		return
	}
	h := Header{b}
	contentType, _ := h.Value("content-type")
	if contentType != "application/grpc" && contentType != "application/grpc+proto" {
		return
	}
	if encoding, ok := h.Value("grpc-encoding"); ok && encoding != "identity" {
		return
	}
	if timed && !ok {
		return // the slow path knows what to say
	}
	b.unary = unary
}
