package hostile

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/eventually"
)

// TestTakenBack: connections that a caller has opened with a token are good for nothing once the
// token is taken out of the file, without being closed.
//
//promise:front-door
func TestTakenBack(t *testing.T) {
	f := newFleet(t)
	ways := map[string]func(t *testing.T, token string) (ask func() (bool, error)){
		"HTTP/1.1": func(t *testing.T, token string) func() (bool, error) { return f.overHTTP(t, f.nodes[0], token) },
		"HTTP/2":   func(t *testing.T, token string) func() (bool, error) { return f.overHTTP(t, f.nodes[2], token) },
		"gRPC":     f.overGRPC,
		"Redis":    f.overRedis,
	}
	asks := map[string]func() (bool, error){}
	for name, open := range ways {
		asks[name] = open(t, f.tokens["check"])
		if in, err := asks[name](); !in || err != nil {
			t.Fatalf("%s: %t, %v", name, in, err)
		}
	}
	_, other, err := callers.NewToken("other", []string{"check"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	f.write("callers.yaml", "tokens:\n"+other)
	for name, ask := range asks {
		eventually.True(t, name+" is refused on the connection that is open", func() bool {
			in, err := ask()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return !in
		})
	}
}

// overHTTP asks a node over one connection.
func (f *fleet) overHTTP(t *testing.T, n *node, token string) func() (bool, error) {
	dials := 0
	transport := &http.Transport{MaxConnsPerHost: 1, ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	if own, ok := n.client.Transport.(*http.Transport); ok {
		transport.TLSClientConfig = own.TLSClientConfig.Clone()
	}
	client := &http.Client{Transport: transport, Timeout: eventually.Patience}
	t.Cleanup(client.CloseIdleConnections)
	return func() (bool, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.at["http"]+"/v1/check", strings.NewReader(`{"domain":"d","descriptors":[{"descriptor":"user:u"}]}`))
		if err != nil {
			return false, err
		}
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
		resp, err := client.Do(r)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return false, err
		}
		if over := resp.ProtoMajor; (over == 2) != (n.scheme == "https://") || dials != 1 && resp.StatusCode == http.StatusOK {
			return false, fmt.Errorf("by HTTP/%d and %d connections: %s", over, dials, resp.Status)
		}
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
			return false, fmt.Errorf("%s", resp.Status)
		}
		return resp.StatusCode == http.StatusOK, nil
	}
}

// overGRPC asks the first node.
func (f *fleet) overGRPC(t *testing.T, token string) func() (bool, error) {
	conn, err := grpc.NewClient(f.nodes[0].at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := rlsv3.NewRateLimitServiceClient(conn)
	return func() (bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
		defer cancel()
		_, err := client.ShouldRateLimit(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), &rlsv3.RateLimitRequest{
			Domain: "d", Descriptors: []*ratelimitv3.RateLimitDescriptor{{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: "u"}}}},
		}, grpc.WaitForReady(true))
		if status.Code(err) == codes.Unauthenticated {
			return false, nil
		}
		return err == nil, err
	}
}

// overRedis asks the third node, by TLS.
func (f *fleet) overRedis(t *testing.T, token string) func() (bool, error) {
	settings := f.certs.ClientWith(t, f.certs.CertFile, f.certs.KeyFile)
	settings.ServerName = "127.0.0.1"
	conn, err := tls.Dial("tcp", f.nodes[2].at["redis"], settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	in := bufio.NewReader(conn)
	ask := func(text string) (string, error) {
		if err := conn.SetDeadline(time.Now().Add(eventually.Patience)); err != nil {
			return "", err
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return "", err
		}
		line, err := in.ReadString('\n')
		if err == nil && line == "*5\r\n" {
			for range 5 {
				if _, err = in.ReadString('\n'); err != nil {
					break
				}
			}
		}
		return line, err
	}
	if answer, err := ask(command("AUTH", token)); err != nil || answer != "+OK\r\n" {
		t.Fatalf("AUTH: %q, %v", answer, err)
	}
	return func() (bool, error) {
		answer, err := ask(command("HEADGATE.CHECK", "d", "user=u"))
		return answer == "*5\r\n", err
	}
}
