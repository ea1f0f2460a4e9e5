package rls

import (
	"context"
	"runtime"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/h2"
)

// registrar registers services with gRPC, and their unary methods with the own transport too, if
// there is one: gRPC answers them there when they are compressed, long or oddly framed.
type registrar struct {
	*grpc.Server
	own     *h2.Server // nil for none
	options *Options
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(service *grpc.ServiceDesc, by any) {
	r.Server.RegisterService(service, by)
	if r.own == nil {
		return
	}
	for i := range service.Methods {
		name := "/" + service.ServiceName + "/" + service.Methods[i].MethodName
		r.own.Fast[name] = &unary{&service.Methods[i], by, r.options.Entrances[name], r.options.OnPanic}
	}
}

// unary answers the calls of a method that gRPC knows. They are read and written together, and
// handled side by side: a handler knows of one call, and may wait for whatever it likes.
type unary struct {
	method  *grpc.MethodDesc
	by      any
	enter   func(context.Context) error // nil lets everybody in
	onPanic func(cause any, stack []byte)
}

var _ h2.Gate = (*unary)(nil)

// Enter implements h2.Gate.
func (u *unary) Enter(ctx context.Context, header h2.Header) (code uint32, text string) {
	if u.enter == nil {
		return 0, ""
	}
	return codeOf(u.enter(withFields(ctx, header)))
}

// Serve implements h2.Unary. No answer waits for that of another call, but those that are there
// are sent together.
func (u *unary) Serve(b *h2.Batch) {
	b.Blocking()
	if len(b.Calls) == 1 {
		u.answer(b.Context, &b.Calls[0])
		return
	}
	answered := make(chan *h2.Call, len(b.Calls))
	for i := range b.Calls {
		go func() {
			u.answer(b.Context, &b.Calls[i])
			answered <- &b.Calls[i]
		}()
	}
	for rest := len(b.Calls); rest > 0; rest-- {
		(<-answered).Done = true
		if len(answered) > 0 || rest == 1 {
			continue // which are sent with this one
		}
		if runtime.Gosched(); len(answered) == 0 {
			b.Flush()
		}
	}
}

func (u *unary) answer(ctx context.Context, c *h2.Call) {
	defer func() {
		if cause := recover(); cause != nil {
			u.onPanic(cause, debug.Stack())
			c.Code, c.Status = uint32(codes.Internal), "the server panicked"
		}
	}()
	ctx = withFields(ctx, c.Header)
	if !c.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.Deadline)
		defer cancel()
	}
	decode := func(to any) error {
		if err := proto.Unmarshal(c.Message, to.(proto.Message)); err != nil {
			return status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err) // as gRPC says it
		}
		return nil
	}
	reply, err := u.method.Handler(u.by, ctx, decode, nil)
	if err == nil {
		c.Reply, err = proto.MarshalOptions{}.MarshalAppend(c.Reply[:0], reply.(proto.Message))
	}
	c.Code, c.Status = codeOf(err)
}

// withFields returns ctx with the fields of a call, as gRPC gives them to handlers.
func withFields(ctx context.Context, header h2.Header) context.Context {
	fields := metadata.MD{}
	for name, value := range header.All() {
		fields[name] = append(fields[name], value)
	}
	return metadata.NewIncomingContext(ctx, fields)
}

// codeOf is the status code and message by which a call that ends with err is answered, as gRPC
// answers it: errors of contexts have codes of their own.
func codeOf(err error) (code uint32, text string) {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return uint32(s.Code()), s.Message()
}
