package extauthz_test

import (
	"testing"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzCheck holds that any message is answered or refused, and that only what
// describes a request is decided.
func FuzzCheck(f *testing.F) {
	whole, err := proto.Marshal(question())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, message []byte) {
		var q authpb.CheckRequest
		if proto.Unmarshal(message, &q) != nil {
			return
		}
		a := &authorizer{reply: allowed()}
		resp, err := service(a).Check(t.Context(), &q)
		if (err == nil) == (resp == nil) {
			t.Fatalf("%v and %v", resp, err)
		}
		if allowed := resp.GetOkResponse() != nil; allowed != (a.original != nil) {
			t.Errorf("allowed %v, decided %v", allowed, a.original)
		}
	})
}
