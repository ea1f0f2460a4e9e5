package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

// maxXDSHeaders bounds the headers that a control plane is sent.
const maxXDSHeaders = 64

// XDSHeaders are headers that a control plane is sent, name:value with commas between. Values are
// secrets, so that every way to print them prints none; only Pairs does not. The zero value has
// none.
type XDSHeaders struct{ covered[headerText] }

type headerText struct{}

func (headerText) shown(string) string { return hidden }

// Pairs returns the headers by their names, in lower case. Its errors hold no value.
func (h XDSHeaders) Pairs() (map[string]string, error) {
	if h.raw == "" {
		return nil, nil
	}
	pairs, err := headerPairs(strings.Split(h.raw, ","))
	if err != nil {
		return nil, fmt.Errorf("--xds-headers: %w", err)
	}
	return pairs, nil
}

// ParseXDSHeaders reads the file of headers: name: value, one to a line. Blank lines and those
// that begin with # are left out. Errors hold no value.
func ParseXDSHeaders(text []byte) (map[string]string, error) {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		return nil, errors.New("no header in it; hint: authorization: Bearer TOKEN, one header to a line")
	}
	return headerPairs(lines)
}

// headerName matches the names that gRPC sends and does not use itself.
var headerName = regexp.MustCompile(`^[a-z0-9_.-]{1,256}$`)

func headerPairs(parts []string) (map[string]string, error) {
	if len(parts) > maxXDSHeaders {
		return nil, fmt.Errorf("more than %d headers", maxXDSHeaders)
	}
	pairs := map[string]string{}
	for i, part := range parts {
		name, value, ok := strings.Cut(part, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok, !headerName.MatchString(name), value == "":
			return nil, fmt.Errorf("header %d is no name with a value; hint: name:value", i+1)
		case strings.HasPrefix(name, "grpc-"), strings.HasSuffix(name, "-bin"), name == "host", name == "te", name == "content-type", name == "user-agent":
			return nil, fmt.Errorf("header %d, %s, is one that gRPC sends itself, or that is not text; hint: leave it out", i+1, name)
		case !ascii.IsPrintable(value):
			return nil, fmt.Errorf("header %d, %s, has characters that no header has", i+1, name)
		}
		if _, twice := pairs[name]; twice {
			return nil, fmt.Errorf("header %d, %s, is there twice", i+1, name)
		}
		pairs[name] = value
	}
	return pairs, nil
}
