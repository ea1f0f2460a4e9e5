// Package excerpt shows the place of an error in a line of a file: the line, or the part of it
// around the place if it is long, and a mark below the place.
//
// It shows whatever it is given. Whether the lines of a file may be shown, because no secret can
// stand in them, is for package yamlfile to say.
package excerpt

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// maxWidth is how many columns of a terminal a line may take, beside its number and what stands for
// the parts that are cut off.
const maxWidth = 100

// cut stands for what is left out of a long line.
const cut = "..."

// Excerpt is a line as a terminal can show it. The zero value shows nothing.
type Excerpt struct {
	// Number is that of the line, counted from 1.
	Number int
	// Text is the line. What a terminal might obey or not show is escaped, as in Go.
	Text string
	// Mark is how many columns of the terminal stand before the place.
	Mark int
}

// Of returns the excerpt of a line of a text for a column, both counted from 1 and the column
// in characters. A column behind the end of the line is that end. It is the zero value where
// there is no such line, and where nothing but white space stands in it.
func Of(text []byte, line, column int) Excerpt {
	found, ok := lineAt(text, line)
	if !ok || len(bytes.TrimSpace(found)) == 0 {
		return Excerpt{}
	}
	place := offset(found, column)
	head, tail := cellsBefore(found[:place]), cellsAfter(found[place:])
	for head.width+tail.width > maxWidth {
		if head.width > tail.width {
			head.drop()
		} else {
			tail.drop()
		}
	}
	slices.Reverse(head.list)
	e := Excerpt{Number: line, Text: join(head.list) + join(tail.list), Mark: head.width}
	if head.cut {
		e.Text, e.Mark = cut+e.Text, e.Mark+len(cut)
	}
	if tail.cut {
		e.Text += cut
	}
	return e
}

// String returns the line with its number, and the mark in a line below; "" for the zero value.
func (e Excerpt) String() string {
	if e.Number == 0 {
		return ""
	}
	return fmt.Sprintf("%7d | %s\n%7s | %s^\n", e.Number, e.Text, "", strings.Repeat(" ", e.Mark))
}

// offset returns where a column, which counts characters from 1, begins in a line: at its end, if
// that is before it.
func offset(line []byte, column int) (at int) {
	for n := 1; n < column && at < len(line); n++ {
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	return at
}

// cell is a character as it is shown, and how many columns of a terminal it takes.
type cell struct {
	text  string
	width int
}

// cells are characters beside the place, the nearest first.
type cells struct {
	list  []cell
	width int
	// cut says that there are more.
	cut bool
}

// add adds the next character; it reports whether there is room for another one. Characters that
// take no column count as one, so that there is a bound on them too.
func (c *cells) add(r rune, octets []byte) bool {
	if len(c.list) == maxWidth {
		c.cut = true
		return false
	}
	next := cellOf(r, octets)
	c.list = append(c.list, next)
	c.width += next.width
	return true
}

// drop leaves out the one that is farthest from the place.
func (c *cells) drop() {
	last := len(c.list) - 1
	c.width -= c.list[last].width
	c.list, c.cut = c.list[:last], true
}

// cellsBefore are the last characters of a text, the last one first.
func cellsBefore(text []byte) (c cells) {
	for len(text) > 0 {
		r, size := utf8.DecodeLastRune(text)
		rest := len(text) - size
		if !c.add(r, text[rest:]) {
			break
		}
		text = text[:rest]
	}
	return c
}

// cellsAfter are the first characters of a text.
func cellsAfter(text []byte) (c cells) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if !c.add(r, text[:size]) {
			break
		}
		text = text[size:]
	}
	return c
}

// cellOf returns how a character is shown that was read from these octets.
func cellOf(r rune, octets []byte) cell {
	switch {
	case r == utf8.RuneError && len(octets) == 1:
		return escaped(`\x%02x`, rune(octets[0]))
	case r == '\t':
		return cell{" ", 1}
	case unicode.In(r, unicode.Mn, unicode.Me):
		return cell{string(r), 0} // it stands upon the one before
	case unicode.IsPrint(r):
		return cell{string(r), columns(r)}
	case r < utf8.RuneSelf:
		return escaped(`\x%02x`, r)
	case r <= 0xffff:
		return escaped(`\u%04x`, r)
	}
	return escaped(`\U%08x`, r)
}

func escaped(format string, r rune) cell {
	text := fmt.Sprintf(format, r)
	return cell{text, len(text)}
}

// columns returns how many columns a character takes by UAX #11.
func columns(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func join(list []cell) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].text)
	}
	return b.String()
}

// ends are what lines of YAML end with. A carriage return takes a line feed after it with it.
const ends = "\r\n\u0085\u2028\u2029"

// lineAt returns a line of a text, counted from 1, without its end; false if there is none.
func lineAt(text []byte, number int) (line []byte, ok bool) {
	for n := 1; n <= number; n++ {
		end := bytes.IndexAny(text, ends)
		switch {
		case n == number && end >= 0:
			return text[:end], true
		case n == number:
			return text, true
		case end < 0:
			return nil, false
		}
		_, size := utf8.DecodeRune(text[end:])
		if bytes.HasPrefix(text[end:], []byte("\r\n")) {
			size = 2
		}
		text = text[end+size:]
	}
	return nil, false
}
