package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// trailed is a body whose trailers are cleaned when they have come, which is at its end,
// and before they are sent on.
type trailed struct {
	io.ReadCloser
	trailer http.Header
}

// Read implements io.Reader.
func (t trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil {
		dropFromTrailer(t.trailer)
	}
	return n, err
}

// notTrailing are fields that no trailer may have: those of one hop, those that say where
// a message ends and where it goes, and those that say who sent it. A backend that adds
// trailers to the header would believe the client.
var notTrailing = []string{
	"connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
	"content-length", "host", "authorization", "cookie", "forwarded", "via", "x-real-ip",
}

func dropFromTrailer(h http.Header) {
	for name := range h {
		read := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if strings.HasPrefix(read, "x-forwarded-") || slices.Contains(notTrailing, read) {
			delete(h, name)
		}
	}
}
