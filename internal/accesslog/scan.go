package accesslog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// scan is what is left of a line.
type scan struct {
	line string
	at   int
}

// broken says what was expected where.
func (s *scan) broken(want string) error {
	return fmt.Errorf("byte %d: no %s; hint: --format, if the log has another one", s.at, want)
}

func (s *scan) rest() string { return s.line[s.at:] }

// skip goes behind text, and reports whether it was there.
func (s *scan) skip(text string) bool {
	if !strings.HasPrefix(s.rest(), text) {
		return false
	}
	s.at += len(text)
	return true
}

// until returns what stands before the next end, and goes behind that; ok is false where there is
// none.
func (s *scan) until(end string) (text string, ok bool) {
	text, _, ok = strings.Cut(s.rest(), end)
	if ok {
		s.at += len(text) + len(end)
	}
	return text, ok
}

// word returns what stands before the next space, or the end.
func (s *scan) word() string {
	text, ok := s.until(" ")
	if !ok {
		s.at = len(s.line)
	}
	return text
}

// quoted returns what stands between quotes. A quote behind a backslash is part of it, and what nginx
// and Apache escape is put back.
func (s *scan) quoted() (string, error) {
	if !s.skip(`"`) {
		return "", s.broken("quote")
	}
	from, escaped := s.at, false
	for i := from; i < len(s.line); i++ {
		switch s.line[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			s.at = i + 1
			s.skip(" ")
			if escaped {
				return unescaped(s.line[from:i]), nil
			}
			return s.line[from:i], nil
		}
	}
	return "", s.broken("closing quote")
}

// letters are what Apache writes for control characters.
var letters = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'b': '\b', 'f': '\f'}

// unescaped undoes \xHH of both, and \" \\ \n and the like of Apache. What is no escape stays.
func unescaped(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '\\' || i+1 == len(text) {
			b.WriteByte(c)
			continue
		}
		next := text[i+1]
		if next == 'x' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		switch letter, ok := letters[next]; {
		case next == '"' || next == '\\':
			b.WriteByte(next)
			i++
		case ok:
			b.WriteByte(letter)
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// number returns the digits of text as a number, which is not ok when there are others, none, or
// more than nine.
func number(text string) (n int, ok bool) {
	digits, err := strconv.ParseUint(text, 10, 32)
	return int(digits), err == nil && len(text) <= 9
}

// status returns what a status of HTTP says, which has three digits.
func status(text string) (n int, ok bool) {
	n, ok = number(text)
	return n, ok && len(text) == 3
}

const clfTime = "02/Jan/2006:15:04:05 -0700"

var months = map[string]time.Month{
	"Jan": 1, "Feb": 2, "Mar": 3, "Apr": 4, "May": 5, "Jun": 6, "Jul": 7, "Aug": 8, "Sep": 9, "Oct": 10, "Nov": 11, "Dec": 12,
}

var errTime = errors.New("malformed time; hint: 10/Oct/2026:13:55:36 +0200")

// parseCLF reads a time as clfTime has it. It is time.Parse without what that allocates for zones.
func parseCLF(text string) (time.Time, error) {
	if len(text) != len(clfTime) || text[2] != '/' || text[6] != '/' || text[11] != ':' || text[14] != ':' || text[17] != ':' || text[20] != ' ' {
		return time.Time{}, errTime
	}
	month := months[text[3:6]]
	var parts [7]int
	for i, part := range [...]string{text[:2], text[7:11], text[12:14], text[15:17], text[18:20], text[22:24], text[24:26]} {
		var ok bool
		if parts[i], ok = number(part); !ok {
			return time.Time{}, errTime
		}
	}
	day, year, hour, minute, second, zoneHours, zoneMinutes := parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6]
	at := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	if month == 0 || at.Day() != day || hour > 23 || minute > 59 || second > 60 || zoneHours > 23 || zoneMinutes > 59 {
		return time.Time{}, errTime
	}
	zone := time.Duration(zoneHours)*time.Hour + time.Duration(zoneMinutes)*time.Minute
	switch text[21] {
	case '+':
		return at.Add(-zone), nil
	case '-':
		return at.Add(zone), nil
	}
	return time.Time{}, errTime
}
