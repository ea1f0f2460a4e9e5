package accesslog

import "strings"

// ParseCombined reads a line of the common or the combined format, which nginx and Apache write:
//
//	ADDRESS - USER [TIME] "REQUEST" STATUS BYTES "REFERER" "USER AGENT" "X-FORWARDED-FOR"
//
// The last three may be missing, and anything may follow them. The error is ErrNoRequest where
// there was no request line.
func ParseCombined(line string, into *Line) error {
	into.reset()
	s := scan{line: line}
	var ok bool
	if into.Peer, ok = s.until(" "); !ok || into.Peer == "" {
		return s.broken("address")
	}
	if _, ok = s.until(" "); !ok { // who identd says that it is
		return s.broken("user")
	}
	if into.User, ok = s.until(" ["); !ok {
		return s.broken("time in brackets")
	}
	into.User = given(unescaped(into.User))
	at, ok := s.until("] ")
	if !ok {
		return s.broken("end of the time")
	}
	var err error
	if into.At, err = parseCLF(at); err != nil {
		return err
	}
	request, err := s.quoted()
	if err != nil {
		return err
	}
	if into.Status, ok = status(s.word()); !ok {
		return s.broken("status")
	}
	s.word() // bytes
	for _, field := range [...]*string{&into.Referer, &into.UserAgent, &into.ForwardedFor} {
		if !strings.HasPrefix(s.rest(), `"`) {
			break
		}
		if *field, err = s.quoted(); err != nil {
			return err
		}
		*field = given(*field)
	}
	return into.readRequest(request)
}

// readRequest reads a request line.
func (l *Line) readRequest(text string) error {
	method, target, ok := strings.Cut(text, " ")
	if !ok || !isMethod(method) {
		return ErrNoRequest
	}
	// A target has no space; where one was sent all the same, it is in the middle.
	if i := strings.LastIndex(target, " HTTP/"); i >= 0 {
		target = target[:i]
	}
	if target == "" {
		return ErrNoRequest
	}
	l.Method, l.Target = method, target
	return nil
}

// isMethod reports whether text may be the method of a request (RFC 9110, section 9.1), in capitals,
// as all that are registered.
func isMethod(text string) bool {
	if text == "" || len(text) > 32 {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
