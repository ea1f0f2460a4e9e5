package replay

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/accesslog"
	"github.com/headgate/headgate/limit"
)

// Formats of access logs.
const (
	Combined = "combined"
	Envoy    = "envoy"
	CSV      = "csv"
)

// remoteUser is the header field in which identity files find the user of an access log.
const remoteUser = "Remote-User"

// Access says how requests of an access log are read.
type Access struct {
	// Domain is that of requests, where a row of CSV does not name it.
	Domain string
	// Extractor makes descriptors of them, as behind gateways.
	Extractor *identity.Extractor
	// Denied are the statuses of requests that a limit has denied.
	Denied []int
	// NeedsAnswers refuses CSV that does not say what was answered.
	NeedsAnswers bool
	// OnUnread, when not nil, is told of the columns of CSV that are not read, for each file.
	OnUnread func(columns []string)
}

// Decoder returns a Decoder of a format, for one file.
func (a *Access) Decoder(format string) (Decoder, error) {
	d := &accessDecoder{Access: a, header: make(http.Header), row: accesslog.Row{Hits: 1}}
	switch format {
	case Combined:
		return d.lines(accesslog.ParseCombined), nil
	case Envoy:
		return d.lines(accesslog.ParseEnvoy), nil
	case CSV:
		return d.rows(), nil
	}
	return nil, fmt.Errorf("unknown format %.40q; hint: combined, envoy or csv", format)
}

// accessDecoder has the memory of one line.
type accessDecoder struct {
	*Access
	header   http.Header
	identity identity.Identity
	row      accesslog.Row
	csv      *accesslog.CSV // nil before the header
}

func (d *accessDecoder) lines(parse func(string, *accesslog.Line) error) Decoder {
	return func(line []byte, into *Record) error {
		l := &d.row.Line
		switch err := parse(string(line), l); {
		case errors.Is(err, accesslog.ErrNoRequest):
			return ErrSkip
		case err != nil:
			return err
		}
		into.Domain, into.Allowed = d.Domain, !l.Limited && !slices.Contains(d.Denied, l.Status)
		return d.identify(l, into)
	}
}

func (d *accessDecoder) rows() Decoder {
	return func(line []byte, into *Record) (err error) {
		if d.csv == nil {
			if d.csv, err = accesslog.NewCSV(string(line)); err != nil {
				return &FormatError{err}
			}
			if d.NeedsAnswers && !d.csv.Tells() {
				return &FormatError{errors.New("header of CSV: no column allowed or status, and no rules of today; hint: --current")}
			}
			if d.OnUnread != nil && len(d.csv.Unknown()) > 0 {
				d.OnUnread(d.csv.Unknown())
			}
			return errHeader
		}
		r := &d.row
		if err := d.csv.Parse(string(line), r); err != nil {
			return err
		}
		if into.Domain = r.Domain; into.Domain == "" {
			into.Domain = d.Domain
		}
		into.Allowed, into.Rule = r.Allowed && !slices.Contains(d.Denied, r.Status), r.Rule
		if !d.csv.Describes() {
			return d.identify(&r.Line, into)
		}
		into.At = limit.MicrosOf(r.At)
		for _, entries := range r.Descriptors {
			d.keep(into, entries, r.Hits)
		}
		return d.whole(into)
	}
}

// FormatError says that a source as a whole cannot be read.
type FormatError struct{ Err error }

// Error implements error.
func (e *FormatError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// identify makes descriptors of a request, by who sent it.
func (d *accessDecoder) identify(l *accesslog.Line, into *Record) error {
	into.At = limit.MicrosOf(l.At)
	r := d.request(l)
	if r == nil {
		return ErrSkip
	}
	var refused *identity.RefusedError
	switch err := d.Extractor.Extract(r, l.At, &d.identity); {
	case errors.As(err, &refused):
		return errRefused
	case err != nil:
		return errNobody
	}
	for _, entries := range d.identity.Descriptors {
		d.keep(into, entries, d.row.Hits)
	}
	return d.whole(into)
}

// keep copies entries into the memory of a record.
func (d *accessDecoder) keep(into *Record, entries []descriptor.Entry, hits int64) {
	from := len(into.entries)
	into.entries = append(into.entries, entries...)
	into.add(into.entries[from:len(into.entries):len(into.entries)], hits)
}

// whole reports what keeps a record from being asked about.
func (d *accessDecoder) whole(into *Record) error {
	switch {
	case len(into.Descriptors) == 0:
		return errNobody
	case into.Domain == "":
		return errors.New("no domain; hint: --domain")
	}
	return nil
}

// request makes a request of what a line says; nil where that is none.
func (d *accessDecoder) request(l *accesslog.Line) *http.Request {
	u, err := url.ParseRequestURI(l.Target)
	if err != nil {
		if path, _, _ := strings.Cut(l.Target, "?"); strings.HasPrefix(path, "/") {
			u = &url.URL{Path: path} // what no server of Go would take
		} else if l.Target != "" {
			return nil
		} else {
			u = &url.URL{Path: "/"}
		}
	}
	clear(d.header)
	d.set("User-Agent", l.UserAgent)
	d.set("Referer", l.Referer)
	d.set(remoteUser, l.User)
	for _, f := range l.Fields {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		d.header[name] = append(d.header[name], f.Value)
	}
	peer, forwarded := l.Peer, l.ForwardedFor
	if peer == "" {
		// Who was connected is not in the log: it is the last one that was noted.
		if i := strings.LastIndexByte(forwarded, ','); i >= 0 {
			forwarded, peer = forwarded[:i], strings.TrimSpace(forwarded[i+1:])
		} else {
			forwarded, peer = "", strings.TrimSpace(forwarded)
		}
	}
	d.set("X-Forwarded-For", forwarded)
	return &http.Request{Method: l.Method, URL: u, Host: l.Host, Header: d.header, RemoteAddr: addressOf(peer), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

func (d *accessDecoder) set(name, value string) {
	if value != "" {
		d.header[name] = []string{value}
	}
}

// addressOf returns the address of a peer as requests have it, with a port; "" where text is none.
func addressOf(text string) string {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(a, 1).String()
	}
	if a, err := netip.ParseAddrPort(text); err == nil {
		return a.String()
	}
	return ""
}
