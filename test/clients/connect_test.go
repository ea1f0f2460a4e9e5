package clients

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
)

// connectGo is the client of connect-go, which speaks gRPC by net/http.
func connectGo(t *testing.T, addr string) func(call) outcome {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return func(c call) outcome {
		options := []connect.ClientOption{connect.WithGRPC(), connect.WithCodec(plain{})}
		if c.Gzip {
			options = append(options, connect.WithSendGzip())
		}
		client := connect.NewClient[[]byte, []byte](&http.Client{Transport: transport}, "http://"+addr+c.Method, options...)
		longest := patience
		if c.Timeout > 0 {
			longest = c.Timeout
		}
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		answer, err := exchange(ctx, client, c)
		if err != nil {
			failed := new(connect.Error)
			if e, ok := err.(*connect.Error); ok {
				failed = e
			}
			return outcome{Code: codes.Code(failed.Code()), Message: failed.Message()}
		}
		return outcome{Answer: *answer}
	}
}

func exchange(ctx context.Context, client *connect.Client[[]byte, []byte], c call) (*[]byte, error) {
	if c.Stream {
		stream := client.CallBidiStream(ctx)
		// io.EOF says that the server has answered already; Receive says what.
		if err := stream.Send(&c.Message); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if err := stream.CloseRequest(); err != nil {
			return nil, err
		}
		defer stream.CloseResponse()
		return stream.Receive()
	}
	request := connect.NewRequest(&c.Message)
	for name, value := range c.Metadata {
		request.Header().Set(name, value)
	}
	response, err := client.CallUnary(ctx, request)
	if err != nil {
		return nil, err
	}
	return response.Msg, nil
}

// plain is a codec of messages as they are.
type plain struct{}

func (plain) Name() string { return "proto" }

func (plain) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (plain) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
