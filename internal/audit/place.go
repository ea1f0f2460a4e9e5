package audit

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parsePlace parses the URL of a sink. Its errors never quote it.
func parsePlace(raw, scheme string) (*url.URL, *settings, error) {
	hint := "; hint: write special characters of a password as %XX, '@' as %40, '/' as %2F, ':' as %3A"
	place, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, nil, errors.New("not a URL" + hint)
	case place.Scheme != scheme || place.Opaque != "":
		return nil, nil, fmt.Errorf("unknown kind of place; hint: the URL begins with %s://", scheme)
	case place.Fragment != "":
		return nil, nil, errors.New("a '#' in the URL; hint: write it as %23")
	}
	values, err := url.ParseQuery(place.RawQuery)
	if err != nil {
		return nil, nil, errors.New("what follows the '?' is not a query" + hint)
	}
	return place, &settings{values: values}, nil
}

// settings are those of the query of a URL. Each is read once; check then tells what was
// wrong with any of them.
type settings struct {
	values   url.Values
	known    []string
	problems []error
}

// read returns what is set for name; ok is false when nothing is.
func (s *settings) read(name string) (text string, ok bool) {
	s.known = append(s.known, name)
	list := s.values[name]
	if len(list) > 1 {
		s.refuse("%s: more than once", name)
	}
	if len(list) == 0 {
		return "", false
	}
	return list[0], true
}

func (s *settings) refuse(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf(format, args...))
}

// choice reads one of words into dst.
func (s *settings) choice(name string, dst *string, words ...string) {
	text, ok := s.read(name)
	if !ok {
		return
	}
	if !slices.Contains(words, text) {
		s.refuse("%s: %.32q is not known; hint: %s", name, text, strings.Join(words, ", "))
		return
	}
	*dst = text
}

// duration reads a duration from least to most into dst.
func (s *settings) duration(name string, dst *time.Duration, least, most time.Duration) {
	if text, ok := s.read(name); ok {
		s.parseDuration(name, text, dst, least, most)
	}
}

func (s *settings) parseDuration(name, text string, dst *time.Duration, least, most time.Duration) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		s.refuse("%s: %.32q is not a time from %v to %v; hint: 90s, 1h", name, text, least, most)
		return
	}
	*dst = d
}

// size reads a number of bytes, least or more, into dst.
func (s *settings) size(name string, dst *int64, least int64) {
	text, ok := s.read(name)
	if !ok {
		return
	}
	number, shift := text, 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n, ok := strings.CutSuffix(text, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64>>shift || n<<shift < least {
		s.refuse("%s: %.32q is not a size of at least %d bytes; hint: 64MiB, 10GiB", name, text, least)
		return
	}
	*dst = n << shift
}

// check returns what was wrong, settings that nobody read among it.
func (s *settings) check() error {
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range s.values {
			if !slices.Contains(s.known, name) && !yield(name) {
				return
			}
		}
	}) {
		s.refuse("%.32q is no setting; hint: %s", name, strings.Join(s.known, ", "))
	}
	return errors.Join(s.problems...)
}
