package accesslog

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
)

// maxColumns bounds the columns of a CSV file.
const maxColumns = 256

// Row is what a row of CSV says: of a request as other formats do, or what it is limited on.
type Row struct {
	Line
	Domain string
	// Hits are what it costs, 1 unless a column says otherwise.
	Hits int64
	// Allowed is the answer, where the file has a column for it: see CSV.Tells.
	Allowed bool
	// Rule is the one that decided.
	Rule string
	// Descriptors are what the request is limited on. Their memory is used again for the next
	// row.
	Descriptors [][]descriptor.Entry

	entries []descriptor.Entry // of the columns entry:KEY
	cells   []string
}

// column reads a cell into a row.
type column func(r *Row, cell string) error

// CSV reads rows under one header. Make one with NewCSV. It is not safe for concurrent use.
type CSV struct {
	columns []column // nil for those that are not known
	unknown []string
	has     map[string]bool
	entries bool
}

var errTimeISO = errors.New("malformed time; hint: 2026-11-22T12:00:00.5Z, or seconds since 1970")

// known are the columns that have one name.
var known = map[string]column{
	"time":            func(r *Row, c string) (err error) { r.At, err = parseTime(c); return err },
	"domain":          func(r *Row, c string) error { r.Domain = c; return nil },
	"hits":            func(r *Row, c string) error { return r.readHits(c) },
	"allowed":         func(r *Row, c string) error { return r.readAllowed(c) },
	"status":          func(r *Row, c string) error { return r.readStatus(c) },
	"rule":            func(r *Row, c string) error { r.Rule = c; return nil },
	"descriptor":      func(r *Row, c string) error { return r.readDescriptor(c) },
	"method":          func(r *Row, c string) error { r.Method = c; return nil },
	"path":            func(r *Row, c string) error { r.Target = c; return nil },
	"host":            func(r *Row, c string) error { r.Host = c; return nil },
	"remote_address":  func(r *Row, c string) error { r.Peer = c; return nil },
	"x_forwarded_for": func(r *Row, c string) error { r.ForwardedFor = c; return nil },
	"user_agent":      func(r *Row, c string) error { r.UserAgent = c; return nil },
	"referer":         func(r *Row, c string) error { r.Referer = c; return nil },
	"user":            func(r *Row, c string) error { r.User = c; return nil },
}

// NewCSV reads a header: names of columns, of which these are known, in any order:
//
//	time                  RFC 3339, as 2026-11-22 12:00:00 (UTC), or seconds (also with a
//	                      fraction), milliseconds or microseconds since 1970; required
//	descriptor            user:42,op:read; there may be several such columns
//	entry:KEY             values of entries that make one descriptor, in the order of columns
//	domain, hits, rule
//	allowed or status     true or false; a status of HTTP
//	method, path, host, remote_address, x_forwarded_for, user_agent, referer, user, header:NAME
//
// A cell that is empty says nothing.
func NewCSV(header string) (*CSV, error) {
	names, err := splitCSV(nil, strings.TrimPrefix(header, "\ufeff"))
	if err != nil {
		return nil, fmt.Errorf("header of CSV: %w", err)
	}
	if len(names) > maxColumns {
		return nil, fmt.Errorf("header of CSV: %d columns; hint: at most %d", len(names), maxColumns)
	}
	c := &CSV{has: make(map[string]bool)}
	for _, name := range names {
		name = strings.TrimSpace(name)
		read := known[strings.ToLower(name)]
		if key, ok := strings.CutPrefix(name, "entry:"); ok && key != "" {
			read, c.entries = entryColumn(key), true
		} else if field, ok := strings.CutPrefix(name, "header:"); ok && field != "" {
			read = func(r *Row, cell string) error { r.Fields = append(r.Fields, Field{field, cell}); return nil }
		}
		if read == nil {
			c.unknown = append(c.unknown, name)
		} else if name = strings.ToLower(name); c.has[name] && name != "descriptor" {
			return nil, fmt.Errorf("header of CSV: column %.40q is there twice", name)
		}
		c.has[name] = true
		c.columns = append(c.columns, read)
	}
	switch {
	case !c.has["time"]:
		return nil, errors.New("header of CSV: no column time; hint: the first line names the columns: time,descriptor,allowed")
	case c.has["allowed"] && c.has["status"]:
		return nil, errors.New("header of CSV: allowed and status say the same; hint: one of them")
	}
	return c, nil
}

// Describes reports whether rows say themselves what requests are limited on. Else they say what
// was sent.
func (c *CSV) Describes() bool { return c.entries || c.has["descriptor"] }

// Tells reports whether rows say what was answered.
func (c *CSV) Tells() bool { return c.has["allowed"] || c.has["status"] }

// Unknown returns the columns that are not read.
func (c *CSV) Unknown() []string { return c.unknown }

// Parse reads a row, which is one line: no cell holds the end of one.
func (c *CSV) Parse(line string, into *Row) error {
	fields, descriptors, entries := into.Fields[:0], into.Descriptors[:0], into.entries[:0]
	*into = Row{Line: Line{Fields: fields}, Descriptors: descriptors, entries: entries, cells: into.cells, Hits: 1, Allowed: true}
	var err error
	if into.cells, err = splitCSV(into.cells[:0], line); err != nil {
		return err
	}
	if len(into.cells) != len(c.columns) {
		return fmt.Errorf("%d cells, but the header has %d", len(into.cells), len(c.columns))
	}
	for i, cell := range into.cells {
		if c.columns[i] == nil || cell == "" {
			continue
		}
		if err := c.columns[i](into, cell); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	if into.At.IsZero() {
		return errTimeISO
	}
	if len(into.entries) > 0 {
		into.Descriptors = append(into.Descriptors, into.entries)
	}
	return nil
}

func entryColumn(key string) column {
	return func(r *Row, cell string) error {
		r.entries = append(r.entries, descriptor.Entry{Key: key, Value: cell})
		return nil
	}
}

func (r *Row) readDescriptor(cell string) error {
	entries, err := descriptor.Parse(cell)
	if err == nil {
		r.Descriptors = append(r.Descriptors, entries)
	}
	return err
}

func (r *Row) readHits(cell string) (err error) {
	if r.Hits, err = strconv.ParseInt(cell, 10, 64); err != nil || r.Hits < 0 || r.Hits > limit.MaxQuota {
		return fmt.Errorf("hits: %.40q; hint: a number from 0 on", cell)
	}
	return nil
}

func (r *Row) readAllowed(cell string) (err error) {
	if r.Allowed, err = strconv.ParseBool(cell); err != nil {
		return fmt.Errorf("allowed: %.40q; hint: true or false", cell)
	}
	return nil
}

func (r *Row) readStatus(cell string) error {
	var ok bool
	if r.Status, ok = status(cell); !ok {
		return fmt.Errorf("status: %.40q; hint: 200", cell)
	}
	return nil
}

// Numbers of seconds, milliseconds and microseconds since 1970 are told apart by their size: a
// time before the year 2286 has fewer than 10^10 seconds, and one after April 1970 more than that
// in milliseconds.
const (
	maxSeconds = 1e10
	maxMillis  = 1e13
	maxMicros  = 1e16
)

// parseTime reads a time of CSV.
func parseTime(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.UTC(), nil
	}
	if at, err := time.Parse("2006-01-02 15:04:05", text); err == nil { // it takes a fraction too
		return at, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || !(n >= 0) || n >= maxMicros:
		return time.Time{}, errTimeISO
	case n < maxSeconds:
		return time.UnixMicro(int64(math.Round(n * 1e6))).UTC(), nil
	case n < maxMillis:
		return time.UnixMicro(int64(math.Round(n * 1e3))).UTC(), nil
	}
	return time.UnixMicro(int64(n)).UTC(), nil
}

// splitCSV appends the cells of a line as RFC 4180 has them.
func splitCSV(cells []string, line string) ([]string, error) {
	line = strings.TrimSuffix(line, "\r")
	for {
		cell, rest, more, err := firstCell(line)
		if err != nil {
			return cells, err
		}
		if cells = append(cells, cell); !more {
			return cells, nil
		}
		line = rest
	}
}

// firstCell returns the first cell of a line, and what is behind it, if there is more.
func firstCell(line string) (cell, rest string, more bool, err error) {
	if !strings.HasPrefix(line, `"`) {
		cell, rest, more = strings.Cut(line, ",")
		return cell, rest, more, nil
	}
	for from := 1; ; {
		i := strings.IndexByte(line[from:], '"')
		if i < 0 {
			return "", "", false, errors.New("no closing quote; hint: a row is one line")
		}
		end := from + i
		if strings.HasPrefix(line[end+1:], `"`) {
			from = end + 2
			continue
		}
		if cell, rest = strings.ReplaceAll(line[1:end], `""`, `"`), line[end+1:]; rest == "" {
			return cell, "", false, nil
		}
		if rest[0] != ',' {
			return "", "", false, errors.New("text behind a closing quote; hint: a comma")
		}
		return cell, rest[1:], true, nil
	}
}
