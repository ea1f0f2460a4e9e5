package rls

import (
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/h2"
)

// slow answers by gRPC what the own transport does not answer itself: every other method, and
// calls whose message is compressed, long or oddly framed. Who may not make a call is kept out
// before its message is read, as enter does it.
func (s *Server) slow(o *Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// gRPC takes the path as it was sent, neither decoded nor cut off at a query.
		r.URL.Path = r.RequestURI
		if from, _ := peer.FromContext(r.Context()); from != nil && from.Addr.Network() == "unix" {
			r.RemoteAddr = "" // whatever name the client has given to its end
		}
		if err := o.enterHTTP(r); err != nil {
			writeStatus(w, err)
			return
		}
		s.grpc.ServeHTTP(w, r)
	})
}

// enterHTTP is enter for a call that is a request of HTTP.
func (o *Options) enterHTTP(r *http.Request) error {
	own := o.Entrances[r.URL.Path]
	if own == nil && (r.URL.Path != fullMethod || o.Admit == nil) {
		return nil
	}
	md := make(metadata.MD, len(r.Header))
	for name, values := range r.Header {
		md[strings.ToLower(name)] = values
	}
	ctx := metadata.NewIncomingContext(r.Context(), md)
	if own != nil {
		return own(ctx)
	}
	if _, err := o.Admit(Caller{ctx: ctx}); err != nil {
		return KeptOut(err)
	}
	return nil
}

// writeStatus answers a call by nothing but the status of err.
func writeStatus(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", fmt.Sprint(int(s.Code())))
	h.Set("Grpc-Message", string(h2.AppendMessage(nil, s.Message())))
	w.WriteHeader(http.StatusOK)
}
