package importer

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// haLine is one line of a configuration of HAProxy.
type haLine struct {
	number int
	words  []string
}

func (l haLine) text() string { return strings.Join(l.words, " ") }

// haTable is a stick table: over how long it counts requests, 0 where it does not.
type haTable struct {
	line   int
	window time.Duration
}

// haTrack is a track-sc: what a counter counts on, and in which table.
type haTrack struct {
	way   []entry
	table string
	// passes are the rules before it that let requests pass it by.
	passes []haPass
}

// haACL is a named condition: its first line, of how many, and whether one asks for a counter.
type haACL struct {
	words  []string
	lines  int
	counts bool
}

// haReader reads one configuration of HAProxy, section by section.
type haReader struct {
	*reader
	tables map[string]haTable
	// section is the proxy that lines belong to, and kind what it is: frontend or the like.
	// tracks, acls and passes are its own.
	kind, section string
	tracks        map[string]haTrack
	acls          map[string]haACL
	passes        haPasses
	// defaults are the passes of the sections of this kind, by their names.
	defaults     map[string]haPasses
	lastDefaults string
	// fronts counts the proxies that take requests from clients.
	fronts int
}

// haSections are the words that begin a section.
var haSections = []string{"global", "defaults", "frontend", "backend", "listen", "peers", "resolvers", "userlist", "cache", "program", "mailers", "ring", "log-forward", "http-errors", "fcgi-app", "crt-store", "traces"}

func readHAProxy(r *reader) error {
	lines := haLines(r.data)
	h := &haReader{reader: r, tables: map[string]haTable{}}
	for _, l := range lines {
		if l.words[0] == "frontend" || l.words[0] == "listen" {
			h.fronts++
		}
	}
	h.walk(lines, h.table)
	h.walk(lines, h.line)
	return nil
}

// haLines splits a configuration into lines of words, without comments.
func haLines(data []byte) []haLine {
	var lines []haLine
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if words := haWords(string(text)); len(words) > 0 {
			lines = append(lines, haLine{number, words})
		}
	}
	return lines
}

// haWords splits a line at blanks, but for those in quotes or behind a backslash.
func haWords(text string) []string {
	var words []string
	var word strings.Builder
	inWord, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != '\'' && c == '\\' && i+1 < len(text):
			i++
			word.WriteByte(text[i])
			inWord = true
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == '#':
			i = len(text)
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// walk calls do for each line that is in a section.
func (h *haReader) walk(lines []haLine, do func(haLine)) {
	h.defaults, h.lastDefaults = map[string]haPasses{}, ""
	h.begin([]string{""})
	for _, l := range lines {
		if slices.Contains(haSections, l.words[0]) {
			h.begin(l.words)
			continue
		}
		do(l)
	}
}

// table reads a stick-table.
func (h *haReader) table(l haLine) {
	if l.words[0] != "stick-table" {
		return
	}
	if other, twice := h.tables[h.section]; twice {
		h.note(l.number, l.text(), "%q has a table on line %d already, and that one counts", short(h.section), other.line)
		return
	}
	t := haTable{line: l.number}
	for i, word := range l.words {
		if word != "store" || i+1 == len(l.words) {
			continue
		}
		for _, data := range strings.Split(l.words[i+1], ",") {
			name, window, _ := strings.Cut(strings.TrimSuffix(data, ")"), "(")
			if name != "http_req_rate" {
				continue
			}
			var ok bool
			if t.window, ok = haDuration(window); !ok {
				h.note(l.number, data, "it is no length of time up to a year")
			}
		}
	}
	h.tables[h.section] = t
}

// haDuration reads a time of HAProxy: a number and a unit, milliseconds without one.
func haDuration(text string) (time.Duration, bool) {
	digits := strings.TrimRight(text, "usmhd")
	n, ok := count(digits)
	unit, known := map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}[text[len(digits):]]
	if !ok || !known || n == 0 || n > int64(365*day/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// line reads a line that may track or deny.
func (h *haReader) line(l haLine) {
	words := l.words
	switch words[0] {
	case "acl":
		if len(words) > 2 {
			acl := h.acls[words[1]]
			if acl.lines++; acl.lines == 1 {
				acl.words = words[2:]
			}
			acl.counts = acl.counts || mentionsCounter(words[2:])
			h.acls[words[1]] = acl
		}
	case "http-request", "tcp-request":
		if len(words) > 1 && (words[1] == "connection" || words[1] == "content" || words[1] == "session") {
			words = words[1:]
		}
		if len(words) < 2 {
			return
		}
		switch list, action := words[0], words[1]; {
		case strings.HasPrefix(action, "track-sc"):
			h.track(l, list, strings.TrimPrefix(action, "track-sc"), words[2:])
		case action == "return" && !refuses(words[2:]) && h.counts(words[2:]):
			h.note(l.number, l.text(), "what it returns is no refusal")
		case slices.Contains([]string{"deny", "reject", "tarpit", "silent-drop"}, action), action == "return" && refuses(words[2:]):
			h.deny(l, list, words[2:])
		default:
			h.action(l, list, action, words[2:])
		}
	case "rate-limit":
		h.note(l.number, l.text(), "it limits sessions of the whole proxy, and not requests")
	case "filter":
		h.filter(l)
	case ".if", ".elif", ".else":
		h.note(l.number, l.text(), "what stands under it is read as if it were in force")
	case "maxconn", "fullconn":
		h.elsewhere(l.number, l.text(), "it bounds connections of a proxy, and stays there")
	default:
		if h.counts(words[1:]) {
			h.note(l.number, l.text(), "of what is done by a counter only denials are carried over")
		}
	}
}

// refuses reports whether the answer that a return makes is a refusal: its status is 200
// without a word.
func refuses(words []string) bool {
	at := slices.Index(words, "status")
	if at < 0 || at+1 == len(words) {
		return false
	}
	status, ok := count(words[at+1])
	return ok && status >= 400
}

// track reads what a counter counts on.
func (h *haReader) track(l haLine, list, counter string, words []string) {
	if len(words) == 0 {
		return
	}
	t := haTrack{table: h.section, passes: slices.Clone(h.passes[list])}
	key, ok := haEntry(words[0])
	if !ok {
		h.note(l.number, l.text(), "nothing that Headgate is told of a request is like %s", short(words[0]))
		return
	}
	if len(words) > 2 && words[1] == "table" {
		t.table, words = words[2], words[2:]
	}
	var where []entry
	if len(words) > 1 {
		if where, ok = h.condition(words[1:]); !ok {
			h.note(l.number, l.text(), "its condition is not read: it is more than one path or method")
			return
		}
	}
	if _, twice := h.tracks[counter]; twice {
		h.note(l.number, l.text(), "a counter that is tracked in two places is not carried over but for the first")
		return
	}
	t.way = append(where, key)
	h.tracks[counter] = t
}

var haFetch = regexp.MustCompile(`^(?:req\.)?(hdr|fhdr|cook|hdr_ip|url_param|urlp)\(([^,()]+)(?:,[^()]*)?\)$`)

// haEntry is the entry for a sample of a request.
func haEntry(sample string) (entry, bool) {
	if m := haFetch.FindStringSubmatch(sample); m != nil {
		if strings.EqualFold(m[2], "x-forwarded-for") {
			return each("remote_address"), true
		}
		return each(keyOf(m[2])), true
	}
	switch sample {
	case "src":
		return each("remote_address"), true
	case "method":
		return each("method"), true
	}
	return entry{}, false
}

// condition reads `if { path_beg /api }` and the like: the entries that a request must have.
func (h *haReader) condition(words []string) ([]entry, bool) {
	words, ok := h.unnamed(words)
	if !ok || len(words) != 2 {
		return nil, false
	}
	switch value := words[1]; words[0] {
	case "path_beg":
		return []entry{underPrefix("route", value)}, true
	case "path":
		return []entry{is("route", value)}, !strings.Contains(value, "*")
	case "method":
		return []entry{is("method", value)}, !strings.Contains(value, "*")
	}
	return nil, false
}

// unnamed returns the one expression of a condition, without braces, `if` and flags; an ACL
// is looked up.
func (h *haReader) unnamed(words []string) ([]string, bool) {
	if len(words) < 2 || words[0] != "if" {
		return nil, false
	}
	words = words[1:]
	if len(words) == 1 {
		acl := h.acls[words[0]]
		return haFlags(acl.words), acl.lines == 1
	}
	if words[0] != "{" || words[len(words)-1] != "}" || slices.Contains(words[1:len(words)-1], "{") {
		return nil, false
	}
	return haFlags(words[1 : len(words)-1]), true
}

// haFlags drops the flags that say how a value is compared where they change nothing.
func haFlags(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "-m" || w == "str" || w == "int" || w == "--" })
}

// haRate matches the samples of a counter: sc_http_req_rate(0), sc0_http_req_rate(table),
// src_http_req_rate(table).
var haRate = regexp.MustCompile(`^(?:sc_(\w+)\((\d+)(?:,([^()]+))?\)|sc(\d+)_(\w+?)(?:\(([^()]*)\))?|(src)_(\w+?)(?:\(([^()]*)\))?)$`)

// deny reads what is denied when a counter is above a number.
func (h *haReader) deny(l haLine, list string, words []string) {
	at := slices.Index(words, "if")
	if at < 0 {
		if slices.Contains(words, "unless") && h.counts(words) {
			h.note(l.number, l.text(), "a condition with unless is not carried over")
		}
		return
	}
	expression, ok := h.unnamed(words[at:])
	if !ok {
		if h.counts(words[at:]) {
			h.note(l.number, l.text(), "a condition of several parts is not carried over")
		}
		return
	}
	if len(expression) == 0 || !mentionsCounter(expression) {
		return
	}
	m := haRate.FindStringSubmatch(expression[0])
	if m == nil || len(expression) != 3 {
		h.note(l.number, l.text(), "the condition is not read")
		return
	}
	what, counter, table := m[1]+m[5]+m[8], m[2]+m[4], m[3]+m[6]+m[9]
	if what != "http_req_rate" {
		h.note(l.number, l.text(), "only http_req_rate counts requests in a time; %s is not carried over", what)
		return
	}
	h.limit(l, haTarget{list, counter, table, m[7] != ""}, expression[1], expression[2])
}

// counts reports whether a condition asks for a counter, itself or by an ACL.
func (h *haReader) counts(words []string) bool {
	for _, word := range words {
		if h.acls[strings.TrimPrefix(word, "!")].counts {
			return true
		}
	}
	return mentionsCounter(words)
}

// haCounter matches the samples of a stick table, and those of a whole proxy or server.
var haCounter = regexp.MustCompile(`^(?:sc\d*_|src_|(?:fe|be|srv)_\w*(?:conn|rate|sess|queue)|(?:avg_)?queue\(|connslots|dst_conn)|,(?:table_|in_table)`)

// mentionsCounter reports whether a word is a sample of a counter.
func mentionsCounter(words []string) bool {
	return slices.ContainsFunc(words, haCounter.MatchString)
}

// haTarget is what a condition asks for: a counter, or the address of the client. list is
// the list of rules that it stands in.
type haTarget struct {
	list, counter, table string
	source               bool
}

// limit adds the limit of a condition: `gt 20` denies the twenty-first request.
func (h *haReader) limit(l haLine, of haTarget, operator, number string) {
	quota, ok := count(number)
	if operator == "ge" {
		quota--
	}
	if !ok || quota < 0 || operator != "gt" && operator != "ge" || quota > math.MaxInt32 {
		h.note(l.number, l.text(), "the condition is not read: it is gt or ge and a number")
		return
	}
	track, ok := h.tracks[of.counter]
	if of.source {
		track, ok = haTrack{way: []entry{each("remote_address")}, table: h.section}, true
	}
	if !ok {
		h.note(l.number, l.text(), "nothing tracks the counter before")
		return
	}
	if of.table != "" {
		track.table = of.table
	}
	t, ok := h.tables[track.table]
	if !ok || t.window == 0 {
		h.note(l.number, l.text(), "the table '%s' with http_req_rate is not in this file", short(track.table))
		return
	}
	name := h.tree.name(h.section, "per", length(t.window))
	made := rule{limits: []oneLimit{oneLimit{name: name, requests: quota, algorithm: "sliding_window", countDenied: true}.per(t.window)}}
	if h.tree.overlaps(track.way) || !h.tree.limit(slices.Clone(track.way), made) {
		h.note(l.number, l.text(), "another line limits some of the same requests, and both count: write the second one yourself")
		return
	}
	if h.kind == "backend" || h.fronts > 1 {
		h.elsewhere(l.number, l.text(), "it is for requests of %s '%s' alone: have Headgate asked there alone", h.kind, short(h.section))
	}
	h.passed(track.passes)
	h.passed(h.passes[of.list])
}
