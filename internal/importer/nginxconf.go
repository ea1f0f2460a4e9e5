package importer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/internal/yamlfile"
)

// directive is one directive of a configuration of nginx.
type directive struct {
	line  int
	words []string
	// block are the directives between braces, isBlock whether there are braces.
	block   []*directive
	isBlock bool
}

// name is the first word.
func (d *directive) name() string { return d.words[0] }

// text is the directive as it was written, but for its block.
func (d *directive) text() string { return strings.Join(d.words, " ") }

// maxNginxDepth bounds how deep blocks may be nested; nginx itself needs five or so.
const maxNginxDepth = 64

// nginxParser reads the syntax of nginx: words, quotes, semicolons, braces and comments.
type nginxParser struct {
	text string
	at   int
	line int
}

func parseNginx(data []byte) ([]*directive, error) {
	p := &nginxParser{text: string(data), line: 1}
	return p.block(0)
}

func (p *nginxParser) errorf(format string, args ...any) error {
	return &yamlfile.Error{Line: p.line, Err: fmt.Errorf(format, args...)}
}

// block reads directives up to the brace that closes them; at depth 0 to the end.
func (p *nginxParser) block(depth int) ([]*directive, error) {
	var list []*directive
	d := &directive{}
	for {
		word, mark, err := p.next()
		if err != nil {
			return nil, err
		}
		if mark == noMark {
			if len(d.words) == 0 {
				d.line = p.line
			}
			d.words = append(d.words, word)
			continue
		}
		if mark == '}' || mark == endOfText {
			switch {
			case len(d.words) > 0:
				return nil, p.errorf("'%s' has no ';' at its end", short(d.text()))
			case (mark == '}') != (depth > 0):
				return nil, p.errorf("a brace is missing, or is one too many")
			}
			return list, nil
		}
		if len(d.words) == 0 {
			return nil, p.errorf("'%c' stands where a directive is due", mark)
		}
		if mark == '{' {
			if depth == maxNginxDepth {
				return nil, p.errorf("blocks are nested deeper than %d", maxNginxDepth)
			}
			d.isBlock = true
			if d.block, err = p.block(depth + 1); err != nil {
				return nil, err
			}
		}
		list = append(list, d)
		d = &directive{}
	}
}

// Marks beside those that are written.
const (
	noMark    = rune(0)
	endOfText = rune(-1)
)

var errQuote = errors.New("a quote is not closed")

// next returns the next word, or the next mark: ';', '{', '}' or the end.
func (p *nginxParser) next() (word string, mark rune, err error) {
	p.skip()
	if p.at == len(p.text) {
		return "", endOfText, nil
	}
	switch c := p.text[p.at]; c {
	case ';', '{', '}':
		p.at++
		return "", rune(c), nil
	case '"', '\'':
		word, err = p.quoted(c)
		return word, noMark, err
	}
	start := p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '\\' && p.at+1 < len(p.text):
			p.at++
		case c == '$' && strings.HasPrefix(p.text[p.at:], "${"):
			p.at++ // the brace belongs to the name of a variable
		case strings.IndexByte(" \t\r\n;{", c) >= 0:
			return p.text[start:p.at], noMark, nil
		}
		p.at++
	}
	return p.text[start:p.at], noMark, nil
}

// skip goes on to the next word or mark.
func (p *nginxParser) skip() {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		case '#':
			end := strings.IndexByte(p.text[p.at:], '\n')
			if end < 0 {
				p.at = len(p.text)
				return
			}
			p.at += end
			continue
		default:
			return
		}
		p.at++
	}
}

// quoted reads a word in quotes.
func (p *nginxParser) quoted(quote byte) (string, error) {
	var b strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		switch c := p.text[i]; {
		case c == quote:
			p.line += strings.Count(p.text[p.at:i], "\n")
			p.at = i + 1
			return b.String(), nil
		case c == '\\' && i+1 < len(p.text) && (p.text[i+1] == quote || p.text[i+1] == '\\'):
			i++
			b.WriteByte(p.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", &yamlfile.Error{Line: p.line, Err: errQuote}
}
