package answercost

import (
	"mime"
	"net/http"
	"strings"
)

// Meter reads one answer. It is for one goroutine.
type Meter struct {
	shape  *Shape
	asked  Asked
	feed   func([]byte)
	scan   scanner
	events events
	mark   int    // how many of the first bytes are as those of a mark
	marked bool   // whether there is one is known
	zip    *unzip // nil: not compressed

	told      []bool  // by count: a number was found
	counts    []int64 // those numbers
	textBytes []int64 // of text that came after them
	// document is the same of the document that is read.
	documentTold []bool
	documentText []int64
}

// Used is what an answer has used.
type Used struct {
	// Counts are in the order of the Shape's: as the answer told them, or guessed.
	Counts []int64
	// Told says that the answer told at least one of them, and Guessed that some number
	// in Counts has been guessed.
	Told, Guessed bool
}

// Readable reports whether a Meter can read an answer with this header: JSON, newline-delimited
// JSON or server-sent events, as it is or compressed by gzip.
func Readable(h http.Header) bool {
	encoding := h.Get("Content-Encoding")
	if encoding != "" && !strings.EqualFold(encoding, "identity") && !isGzip(encoding) {
		return false
	}
	kind := mediaType(h)
	return kind == eventStream || kind == "application/json" || strings.HasSuffix(kind, "+json") ||
		kind == "application/x-ndjson" || kind == "application/jsonl"
}

const eventStream = "text/event-stream"

func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

func isGzip(encoding string) bool {
	return strings.EqualFold(encoding, "gzip") || strings.EqualFold(encoding, "x-gzip")
}

// Meter returns what reads the answer to what was asked, whose header is Readable. It has to
// be closed.
func (s *Shape) Meter(a Asked, h http.Header) *Meter {
	n := len(s.counts)
	m := &Meter{
		shape: s, asked: a,
		told: make([]bool, n), counts: make([]int64, n), textBytes: make([]int64, n),
		documentTold: make([]bool, n), documentText: make([]int64, n),
	}
	m.scan = scanner{paths: &s.answer, tell: answering{m}}
	m.scan.start()
	m.feed = m.scan.feed
	if mediaType(h) == eventStream {
		m.events.scanner = &m.scan
		m.feed = m.events.feed
	}
	if isGzip(h.Get("Content-Encoding")) {
		m.zip = newUnzip(m.plain)
	}
	return m
}

// Write reads the next part of the body. It never fails: an answer passes whatever it is.
func (m *Meter) Write(p []byte) (int, error) {
	if m.zip != nil {
		m.zip.write(p)
	} else {
		m.plain(p)
	}
	return len(p), nil
}

// byteOrderMark may stand before a text, and does not belong to it.
const byteOrderMark = "\xef\xbb\xbf"

// plain reads what is not compressed, or not any more.
func (m *Meter) plain(p []byte) {
	for !m.marked && len(p) > 0 {
		if p[0] != byteOrderMark[m.mark] {
			m.endMark()
			break
		}
		m.mark++
		m.marked = m.mark == len(byteOrderMark)
		p = p[1:]
	}
	m.feed(p)
}

// endMark reads what looked like a mark and was none.
func (m *Meter) endMark() {
	if !m.marked {
		m.marked = true
		m.feed([]byte(byteOrderMark[:m.mark]))
	}
}

// Close ends the reading, wherever the answer ended, and returns what was used.
func (m *Meter) Close() Used {
	if m.zip != nil {
		m.zip.close()
	}
	m.endMark()
	m.scan.endDocument()
	used := Used{Counts: m.counts}
	for i := range m.counts {
		if m.told[i] {
			used.Told = true
		} else if m.shape.counts[i].OfRequest {
			m.counts[i] = tokens(m.asked.Bytes)
			used.Guessed = true
		}
		if m.textBytes[i] > 0 {
			m.counts[i] = min(m.counts[i]+tokens(m.textBytes[i]), maxNumber)
			used.Guessed = true
		}
	}
	return used
}

// answering tells a Meter what is found.
type answering struct{ *Meter }

func (m answering) number(at uint64, n int64) {
	for i, set := range m.shape.numbers {
		if at&set == 0 {
			continue
		}
		switch fold := m.shape.counts[i].Fold; {
		case fold == Sum:
			m.counts[i] = min(m.counts[i]+n, maxNumber)
		case fold == Last || !m.told[i] || n > m.counts[i]:
			m.counts[i] = n
		}
		m.told[i], m.documentTold[i] = true, true
	}
}

func (m answering) text(at uint64, length int64, _ []byte, _ bool) {
	for i, set := range m.shape.texts {
		if at&set != 0 {
			m.documentText[i] += length
		}
	}
}

// documentEnds counts the texts of a document, unless it tells what they are.
func (m answering) documentEnds() {
	for i := range m.textBytes {
		if m.documentTold[i] {
			m.textBytes[i] = 0
		} else {
			m.textBytes[i] += m.documentText[i]
		}
		m.documentTold[i], m.documentText[i] = false, 0
	}
}
