// Package stream asks a headgate for many decisions over one call of gRPC, for gateways that
// check very often.
//
// A [Client] has the one method of Envoy's rate limit service, and asks and answers in its types,
// so it stands where a client of that service stood:
//
//	conn, err := grpc.NewClient("headgate:8081", grpc.WithTransportCredentials(...))
//	...
//	limits := stream.New(conn, stream.Options{})
//	defer limits.Close()
//	answer, err := limits.ShouldRateLimit(ctx, request)
//
// Each check of a caller that waits is sent at once; those that come while a message is being
// sent go together with the next one. So nothing waits for others to come, and the busier a
// gateway is, the less a check costs.
//
// The messages are described in proto/headgate/v1/stream.proto, for clients in other languages.
package stream
