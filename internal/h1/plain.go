package h1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Bounds of a plain request. What is larger, net/http reads.
const (
	maxHead   = 8 << 10
	maxFields = 64
	maxBody   = 64 << 10
)

// found says what the beginning of the bytes of a connection is.
type found int

const (
	// part is the beginning of what may become the head of a plain request.
	part found = iota
	// whole is the head of a plain request.
	whole
	// other is anything else.
	other
	// late is HTTP/2 on a connection on which HTTP/1.1 was spoken, where net/http does not speak it.
	late
)

const (
	methodAndSlash = "POST /"
	protocol       = " HTTP/1.1"
	crlf           = "\r\n"
)

// head is a head that was read last. A client that asks again mostly says the same, so it is
// compared before it is read.
type head struct {
	text   string // up to the empty line, and with it
	length int    // of the body
	// request is as handlers get it, but for its body.
	request http.Request
}

// begins reports whether what waits begins with h.
func (h *head) begins(waiting []byte) bool {
	n := len(h.text)
	return n > 0 && len(waiting) >= n && string(waiting[:n]) == h.text
}

// find looks at the bytes that wait. What is whole is in c.head then.
func (c *conn) find() found {
	if c.little() {
		return part
	}
	c.skipBlanks()
	waiting := c.waiting()
	if c.asked && len(waiting) > 0 && waiting[0] == preface[0] {
		if is := findPreface(waiting); is != other {
			return is
		}
	}
	if !c.head.begins(waiting) {
		end, is := c.findHead(waiting)
		if is != whole {
			return is
		}
		if !c.readHead(string(waiting[:end])) {
			return other
		}
	}
	return whole
}

// maxBlanks is how many CR and LF after a request are skipped, because some clients send a line
// end behind a body (RFC 9112, section 2.2). It is what net/http skips.
const maxBlanks = 4

// little reports whether so little has come after a request that net/http would not look at it yet.
// Where no more comes, nothing was asked.
func (c *conn) little() bool { return c.blanks == maxBlanks && len(c.waiting()) < maxBlanks }

// skipBlanks skips them.
func (c *conn) skipBlanks() {
	for c.blanks > 0 && c.from < len(c.in) && (c.in[c.from] == '\r' || c.in[c.from] == '\n') {
		c.from++
		c.blanks--
	}
}

// preface is what HTTP/2 begins with (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// findPreface looks for it: other is that there is none.
func findPreface(waiting []byte) found {
	n := min(len(waiting), len(preface))
	switch {
	case string(waiting[:n]) != preface[:n]:
		return other
	case n < len(preface):
		return part
	}
	return late
}

// findHead returns where the head ends. Lines that are not ended by CR and LF are other, because
// net/http may take them for an end.
func (c *conn) findHead(waiting []byte) (end int, is found) {
	if n := min(len(waiting), len(methodAndSlash)); string(waiting[:n]) != methodAndSlash[:n] {
		return 0, other
	}
	for at := c.scanned; at < len(waiting); {
		n := bytes.IndexByte(waiting[at:], '\n')
		if n < 0 {
			break
		}
		line := at + n
		if line == 0 || waiting[line-1] != '\r' {
			return 0, other
		}
		if n == 1 {
			return line + 1, sized(line + 1)
		}
		at = line + 1
		c.scanned = at
	}
	if len(waiting) > maxHead {
		return 0, other
	}
	return 0, part
}

// sized is whole for a head that is not too long.
func sized(n int) found {
	if n > maxHead {
		return other
	}
	return whole
}

// readHead reads a whole head into c.head. It reports false, and has forgotten the one before,
// when it is not plain.
func (c *conn) readHead(text string) bool {
	h := &c.head
	h.text, h.length = "", -1
	line, fields, _ := strings.Cut(text, crlf)
	path, ok := strings.CutSuffix(line[len(methodAndSlash)-1:], protocol)
	if !ok || !plainPath(path) {
		return false
	}
	clear(c.fields)
	host, ok := c.readFields(fields)
	if !ok || host == "" || h.length < 0 || h.length > maxBody {
		return false
	}
	h.text = text
	h.request = *(&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, RequestURI: path,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.fields, Host: host, ContentLength: int64(h.length), RemoteAddr: c.remote,
	}).WithContext(c.ctx)
	return true
}

// readFields reads all fields into c.fields, and returns Host.
func (c *conn) readFields(fields string) (host string, ok bool) {
	n := strings.Count(fields, crlf) - 1 // without the empty line
	if n > maxFields {
		return "", false
	}
	values := make([]string, 0, n)
	for fields != crlf {
		var line string
		line, fields, _ = strings.Cut(fields, crlf)
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !plainValue(value) {
			return "", false
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		switch name {
		case "Host":
			if host != "" || !plainHost(value) {
				return "", false
			}
			host = value
			continue
		case "Content-Length":
			if c.head.length >= 0 || !c.readLength(value) {
				return "", false
			}
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return "", false
			}
		case "Transfer-Encoding", "Te", "Trailer", "Expect", "Upgrade", "Http2-Settings", "Pragma":
			return "", false // of the connection, or translated by net/http
		}
		if before := c.fields[name]; before != nil {
			c.fields[name] = append(before, value)
			continue
		}
		values = append(values, value)
		c.fields[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return host, true
}

// readLength reads the length of a body: digits, no more than maxBody can have.
func (c *conn) readLength(digits string) bool {
	if digits == "" || len(digits) > len("65536") {
		return false
	}
	n := 0
	for i := range len(digits) {
		d := digits[i]
		if d < '0' || d > '9' {
			return false
		}
		n = 10*n + int(d-'0')
	}
	c.head.length = n
	return true
}

// plainPath reports whether a path is what it says: nothing in it is a query, an escape or a
// step that would be resolved.
func plainPath(path string) bool {
	for i := range len(path) {
		b := path[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_':
		case b == '/' && (i == 0 || path[i-1] != '/'):
		default:
			return false
		}
	}
	return true
}

// plainHost reports whether a host is a name or an address, with or without a port.
func plainHost(host string) bool {
	for i := range len(host) {
		b := host[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case b == '-', b == '_', b == '.', b == ':', b == '[', b == ']':
		default:
			return false
		}
	}
	return host != ""
}

// plainValue reports whether the value of a field is printable ASCII.
func plainValue(value string) bool {
	for i := range len(value) {
		if b := value[i]; (b < ' ' || b > '~') && b != '\t' {
			return false
		}
	}
	return true
}
