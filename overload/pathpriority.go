package overload

import (
	"fmt"
	"strings"
)

// ParsePathPriority reads what settings and command lines say: a path pattern,
// an equals sign and a priority, with a method and a space before it where only
// that is meant.
//
//	POST /v1/charges=p0
//	/v1/reports/=p3
//
// What a pattern and a priority may be stands at PathPriority and ParsePriority;
// that a path can match the pattern is checked by NewClassifier. The pattern may
// hold an equals sign, because the last one counts.
func ParsePathPriority(text string) (PathPriority, error) {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return PathPriority{}, fmt.Errorf("overload: %.80q has no priority; hint: POST /v1/charges=p0", text)
	}
	priority, err := ParsePriority(text[at+1:])
	if err != nil {
		return PathPriority{}, err
	}
	p := PathPriority{Pattern: strings.TrimSpace(text[:at]), Priority: priority}
	if !strings.HasPrefix(p.Pattern, "/") {
		method, pattern, _ := strings.Cut(p.Pattern, " ")
		p.Method, p.Pattern = method, strings.TrimSpace(pattern)
	}
	if !strings.HasPrefix(p.Pattern, "/") || strings.ToUpper(p.Method) != p.Method {
		return PathPriority{}, fmt.Errorf("overload: %.80q is no method in capitals, path and priority; hint: POST /v1/charges=p0, or /v1/reports/=p3 for all methods", text)
	}
	return p, nil
}
