package answercost

// events reads server-sent events (the HTML Standard, section 9.2.6) that come in parts: the
// data of each event is a document of its own.
type events struct {
	scanner *scanner
	line    lineState
	name    int  // how much of "data" has been read
	afterCR bool // the last line ended with CR, to which an LF belongs
}

type lineState uint8

const (
	lineBegins  lineState = iota
	lineName              // in the name of a field that may be data
	lineColon             // after the colon: one space does not belong to the data
	lineData              // in data
	lineIgnored           // in another field, or a comment
)

// dataField is the name of the field that is read.
const dataField = "data"

// feed reads the next part.
func (e *events) feed(p []byte) {
	for len(p) > 0 {
		c := p[0]
		if e.afterCR {
			if e.afterCR = false; c == '\n' {
				p = p[1:]
				continue
			}
		}
		switch {
		case c == '\n' || c == '\r':
			e.endLine()
			e.afterCR = c == '\r'
		case e.line == lineData, e.line == lineColon && c != ' ':
			n := lineLength(p)
			e.scanner.feed(p[:n])
			e.line, p = lineData, p[n:]
			continue
		default:
			e.begin(c)
		}
		p = p[1:]
	}
}

// lineLength returns how much of p belongs to its first line.
func lineLength(p []byte) int {
	for i, c := range p {
		if c == '\n' || c == '\r' {
			return i
		}
	}
	return len(p)
}

// begin reads a byte of a line before its data.
func (e *events) begin(c byte) {
	switch {
	case e.line == lineIgnored:
	case e.line == lineColon:
		e.line = lineData
	case e.name < len(dataField) && c == dataField[e.name]:
		e.line = lineName
		e.name++
	case e.name == len(dataField) && c == ':':
		e.line = lineColon
	default:
		e.line = lineIgnored
	}
}

func (e *events) endLine() {
	switch e.line {
	case lineBegins: // an empty line ends the event
		e.scanner.endDocument()
	case lineData, lineColon:
		e.scanner.feed(newline)
	}
	e.line, e.name = lineBegins, 0
}

var newline = []byte{'\n'}
