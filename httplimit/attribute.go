package httplimit

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

const (
	contentLength = "content_length"
	headerPrefix  = "header:"
)

// attribute is one of Options.Attributes.
type attribute struct {
	key    string // as rules name it
	header string // canonical; empty: the content length
}

func newAttributes(keys []string) ([]attribute, error) {
	var list []attribute
	for _, key := range keys {
		name, isHeader := strings.CutPrefix(key, headerPrefix)
		switch {
		case key == contentLength:
			list = append(list, attribute{key: key})
		case isHeader && ascii.IsToken(name):
			list = append(list, attribute{headerPrefix + strings.ToLower(name), http.CanonicalHeaderKey(name)})
		default:
			return nil, fmt.Errorf("attribute %q; hint: content_length or header:NAME, others by Subject.AddAttribute", key)
		}
	}
	return list, nil
}

// addAttributes adds what the request has of Options.Attributes.
func (m *Middleware) addAttributes(c *call, r *http.Request) error {
	for _, a := range m.attributes {
		if a.header == "" {
			if r.ContentLength >= 0 {
				c.subject.AddAttribute(a.key, strconv.FormatInt(r.ContentLength, 10))
			}
			continue
		}
		values := r.Header[a.header]
		if len(values) > 1 {
			return fmt.Errorf("%w: %d headers %s", ErrAmbiguous, len(values), a.header)
		}
		if len(values) == 1 {
			c.subject.AddAttribute(a.key, values[0])
		}
	}
	return nil
}
