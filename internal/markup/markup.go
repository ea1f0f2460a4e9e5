// Package markup writes HTML and SVG with text in it that others have chosen.
//
// Templates of the standard library would do so too. But they look up methods by their names
// while they run, and a program in which that can happen keeps every exported method of every
// type that it has, called or not: a quarter of its size.
package markup

import (
	"fmt"
	"html"
	"strings"
)

// Page is what was written so far. The zero value is empty.
type Page struct{ b strings.Builder }

// Raw is markup, which is put in as it is. It must hold no text that others have chosen.
type Raw string

// Add appends markup. It is fmt.Sprintf, but for what is put in: all of it is escaped, for between
// tags and in quoted attributes, except numbers and Raw.
func (p *Page) Add(format string, args ...any) {
	safe := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case Raw:
			safe[i] = string(v)
		case int, int64, uint64, float64:
			safe[i] = v
		default:
			safe[i] = html.EscapeString(fmt.Sprint(v))
		}
	}
	fmt.Fprintf(&p.b, format, safe...)
}

// String returns the page.
func (p *Page) String() string { return p.b.String() }
