package accesslog

import "time"

// Line is what a line says of one request. What it does not say is "" or 0. The strings are parts
// of the line where it has no escapes.
type Line struct {
	// At is when it was, in UTC: nginx and Apache write the end of a request, in whole
	// seconds, Envoy its beginning, in milliseconds.
	At time.Time
	// Method and Target are of the request line.
	Method, Target string
	// Host is the authority that was asked.
	Host string
	// Peer is the address, or by some settings of Apache the name, of who was connected.
	Peer string
	// ForwardedFor is X-Forwarded-For.
	ForwardedFor             string
	UserAgent, Referer, User string
	// Fields are further header fields of the request.
	Fields []Field
	// Status is that of the answer.
	Status int
	// Limited says that Envoy's rate limit has denied the request.
	Limited bool
}

// Field is a header field of a request.
type Field struct{ Name, Value string }

// reset makes l empty, and keeps its memory.
func (l *Line) reset() { *l = Line{Fields: l.Fields[:0]} }

// given returns what a field says, where "-" stands for nothing.
func given(field string) string {
	if field == "-" {
		return ""
	}
	return field
}
