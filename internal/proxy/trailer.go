package proxy

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// passTrailer has the trailers of in sent after the body of out. Without a body there are none, though
// HTTP/2 may announce some all the same. Their values come when the body has been read, into the
// map of the one.
func (p *Proxy) passTrailer(out, in *http.Request) {
	out.Trailer = nil
	if out.Body == nil || len(in.Trailer) == 0 {
		return
	}
	p.dropFromTrailer(in.Trailer)
	out.Trailer = in.Trailer
	out.Body = trailed{out.Body, in.Trailer, p}
}

// trailed is a body whose trailers are cleaned when they have come, which is at its end,
// and before they are sent on.
type trailed struct {
	io.ReadCloser
	trailer http.Header
	proxy   *Proxy
}

// Read implements io.Reader.
func (t trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil {
		t.proxy.dropFromTrailer(t.trailer)
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

// notTrailingWith returns notTrailing and names, as they are looked up.
func notTrailingWith(names []string) map[string]bool {
	all := make(map[string]bool)
	for _, name := range slices.Concat(notTrailing, names) {
		all[readName(name)] = true
	}
	return all
}

// readName is how many backends read the name of a field.
func readName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }

func (p *Proxy) dropFromTrailer(h http.Header) {
	for name := range h {
		if read := readName(name); strings.HasPrefix(read, "x-forwarded-") || p.notTrailing[read] {
			delete(h, name)
		}
	}
}
