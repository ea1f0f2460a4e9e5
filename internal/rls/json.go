package rls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/httpanswer"
)

// NewJSONHandler returns a handler that answers like envoyproxy/ratelimit's
// /json: any method, a RateLimitRequest in proto3 JSON in, a RateLimitResponse
// out, with 200 or, when over a limit, 429. A malformed request is 400, one that
// its caller has no right to is 403. Where
// that service answers 400 as well for a store that is away, this one follows
// the failure mode and answers 503 if that is an error. It panics without a
// Checker.
//
// It is the same service as over gRPC, for tools and people; it is not built for
// speed. admit returns what decides for who sent a request, in place of o.Checker, or a
// *callers.Refused, which is 401 or 403; nil means that o.Checker decides for all.
func NewJSONHandler(o Options, admit func(*http.Request) (Checker, error)) http.Handler {
	o.Admit = nil // of calls over gRPC
	return &jsonHandler{service: newService(o), admit: admit, codec: newCodec()}
}

type jsonHandler struct {
	service *service
	admit   func(*http.Request) (Checker, error)
	codec   codec
}

// serviceFor returns the service for who sent r.
func (h *jsonHandler) serviceFor(r *http.Request) (*service, error) {
	if h.admit == nil {
		return h.service, nil
	}
	checker, err := h.admit(r)
	if err != nil {
		return nil, err
	}
	s := *h.service
	s.options.Checker = checker
	return &s, nil
}

// ServeHTTP implements http.Handler.
func (h *jsonHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	service, err := h.serviceFor(r)
	if err != nil {
		http.Error(w, err.Error(), callers.KeepOut(w, err))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		code := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "read the request: "+err.Error(), code)
		return
	}
	headers := metadata.MD{}
	for _, name := range [...]string{traceparent, checkIDHeader} {
		if values := r.Header.Values(name); len(values) > 0 {
			headers[name] = values
		}
	}
	resp, err := h.answer(metadata.NewIncomingContext(r.Context(), headers), service, body)
	if err == nil && r.Context().Err() != nil {
		err = status.Error(codes.InvalidArgument, httpanswer.ErrGone.Error()) // the answer does not say who decided
	}
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpStatus(err))
		return
	}
	encoded, err := encodeJSON(resp)
	if err != nil {
		http.Error(w, "encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if resp.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(encoded) // a caller that went away needs no answer
}

// answer takes body through the service by way of its protobuf form.
func (h *jsonHandler) answer(ctx context.Context, s *service, body []byte) (*rlsv3.RateLimitResponse, error) {
	var req rlsv3.RateLimitRequest
	if err := protojson.Unmarshal(body, &req); err != nil {
		return nil, malformed(err)
	}
	return s.answer(ctx, &req, h.codec)
}

func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.AlreadyExists:
		return http.StatusConflict
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// encodeJSON is protojson without the spaces that it strews at random.
func encodeJSON(m proto.Message) ([]byte, error) {
	loose, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, loose); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
