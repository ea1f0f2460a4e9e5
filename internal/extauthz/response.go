package extauthz

import (
	"net/http"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcpb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/headgate/headgate/internal/forwardauth"
	"github.com/headgate/headgate/internal/httpanswer"
)

// responseTo says reply in Envoy's words.
func responseTo(reply forwardauth.Reply) *authpb.CheckResponse {
	if reply.Status == http.StatusOK {
		return &authpb.CheckResponse{
			Status: &rpcpb.Status{Code: int32(codes.OK)},
			HttpResponse: &authpb.CheckResponse_OkResponse{OkResponse: &authpb.OkHttpResponse{
				Headers:              options(reply.Upstream),
				HeadersToRemove:      reply.Removed,
				ResponseHeadersToAdd: options(reply.Fields),
			}},
		}
	}
	fields := append(reply.Fields, httpanswer.Field{Name: "Content-Type", Value: reply.Media})
	return &authpb.CheckResponse{
		Status: &rpcpb.Status{Code: int32(codeOf(reply.Status))},
		HttpResponse: &authpb.CheckResponse_DeniedResponse{DeniedResponse: &authpb.DeniedHttpResponse{
			Status:  &typepb.HttpStatus{Code: typepb.StatusCode(reply.Status)},
			Headers: options(fields),
			Body:    string(reply.Body),
		}},
	}
}

// codeOf is any code but OK to Envoy; to others it tells what was meant.
func codeOf(status int) codes.Code {
	switch status {
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	}
	return codes.InvalidArgument
}

// options returns fields that take the place of those that are there: what a client
// claims, and what a service behind counts for itself.
func options(fields []httpanswer.Field) []*corepb.HeaderValueOption {
	var list []*corepb.HeaderValueOption
	for i := range fields {
		list = append(list, &corepb.HeaderValueOption{
			Header:       &corepb.HeaderValue{Key: fields[i].Name, Value: fields[i].Value},
			AppendAction: corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return list
}
