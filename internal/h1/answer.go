package h1

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const contentType = "Content-Type"

// answer is the http.ResponseWriter of a connection.
type answer struct {
	header http.Header
	status int // 0 until it is written
	// fields are those of header as they were when the status was written, in bytes.
	fields []byte
	typed  bool // they have the type of the body
	last   bool // they say that the connection ends
	body   []byte
	names  []string // working memory of writeFields
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter. What is provisional is not sent.
func (a *answer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %d", status)) // as net/http does
	}
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
		a.writeFields()
	}
}

// writeFields notes what is in the header. What is known better is left out, and so is what
// would be no field.
func (a *answer) writeFields() {
	for name := range a.header {
		if name != "Content-Length" && name != "Date" && httpguts.ValidHeaderFieldName(name) {
			a.names = append(a.names, name)
		}
	}
	slices.Sort(a.names)
	for _, name := range a.names {
		if name == contentType && a.status == http.StatusNotModified {
			continue
		}
		for _, value := range a.header[name] {
			a.fields = appendField(a.fields, name, value)
		}
	}
	_, a.typed = a.header[contentType]
	a.typed = a.typed || a.header.Get("Content-Encoding") != "" // then it cannot be guessed
	end := a.header["Connection"]
	a.last = len(end) == 1 && end[0] == "close"
}

// end makes the connection end with the answer, and says so.
func (a *answer) end() {
	a.last = true
	a.sayLast()
}

// sayLast says that the connection ends with the answer.
func (a *answer) sayLast() { a.fields = appendField(a.fields, "Connection", "close") }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !bodied(a.status) {
		return 0, http.ErrBodyNotAllowed
	}
	a.body = append(a.body, p...)
	return len(p), nil
}

// bodied reports whether an answer of a status has a body (RFC 9110, section 6.4.1).
func bodied(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// reset makes a ready for the next request.
func (a *answer) reset() {
	clear(a.header)
	*a = answer{header: a.header, fields: kept(a.fields), body: kept(a.body), names: a.names[:0]}
}

// appendTo appends the answer as it is sent.
func (a *answer) appendTo(dst []byte, date string) []byte {
	dst = append(appendStatus(dst, a.status), a.fields...)
	dst = appendField(dst, "Date", date)
	if bodied(a.status) {
		dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(len(a.body)), 10)
		dst = append(dst, crlf...)
		if !a.typed && len(a.body) > 0 {
			dst = appendField(dst, contentType, http.DetectContentType(a.body))
		}
	}
	return append(append(dst, crlf...), a.body...)
}

func appendStatus(dst []byte, status int) []byte {
	if status == http.StatusOK {
		return append(dst, "HTTP/1.1 200 OK\r\n"...)
	}
	dst = strconv.AppendInt(append(dst, "HTTP/1.1 "...), int64(status), 10)
	dst = append(dst, ' ')
	if text := http.StatusText(status); text != "" {
		dst = append(dst, text...)
	} else {
		dst = strconv.AppendInt(append(dst, "status code "...), int64(status), 10)
	}
	return append(dst, crlf...)
}

// lines makes a value one line: what would begin another field is a space.
var lines = strings.NewReplacer("\r", " ", "\n", " ")

func appendField(dst []byte, name, value string) []byte {
	if strings.ContainsAny(value, crlf) {
		value = lines.Replace(value)
	}
	value = strings.Trim(value, " \t")
	dst = append(append(dst, name...), ": "...)
	return append(append(dst, value...), crlf...)
}

// dated is a time of day as it is told in Date.
type dated struct {
	second int64
	text   string
}

// at returns the text for now.
func (d *dated) at(now time.Time) string {
	if second := now.Unix(); second != d.second || d.text == "" {
		d.second, d.text = second, now.UTC().Format(http.TimeFormat)
	}
	return d.text
}
