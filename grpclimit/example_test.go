package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/memstore"
)

// Limit each tenant by service, in a server.
func ExampleNewServer() {
	buckets, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := headgate.New(headgate.Options{Store: buckets})
	if err != nil {
		log.Fatal(err)
	}
	limits, err := grpclimit.NewServer(limiter, grpclimit.Options{
		Limits: []rules.NamedLimit{{Limit: limit.Must(limit.PerMinute(100)), Name: "per-tenant"}},
		Identify: func(ctx context.Context, c grpclimit.Call) ([][]descriptor.Entry, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			tenant := md.Get("x-tenant")
			if len(tenant) != 1 {
				return nil, grpclimit.ErrUnidentified
			}
			service := c.FullMethod[1:strings.LastIndexByte(c.FullMethod, '/')]
			return [][]descriptor.Entry{{{Key: "tenant", Value: tenant[0]}, {Key: "service", Value: service}}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary), grpc.StreamInterceptor(limits.Stream))
	defer server.Stop()
	fmt.Println(limits.Stats().Denied)
	// Output: 0
}
