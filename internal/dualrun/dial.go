package dualrun

import (
	"cmp"
	"errors"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	files "github.com/headgate/headgate/internal/credentials"
)

// errURL is a URL that names no rate limit service.
var errURL = errors.New("not the URL of a rate limit service; hint: grpc://host:8081, or grpcs://host:8081?ca=/path")

// Dial returns a connection to the service that a URL names: grpc://host:port in plain text,
// grpcs://host:port by TLS, with the parameters ca, cert, key, server_name and min_tls. It
// connects when somebody asks. name is what to call the service.
func Dial(text string) (conn *grpc.ClientConn, name string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Port() == "" || u.Path != "" && u.Path != "/" {
		return nil, "", errURL
	}
	values := u.Query()
	params, err := files.Take(values, "")
	switch {
	case err != nil:
		return nil, "", err
	case params.PasswordFile != "" || len(values) > 0:
		return nil, "", errors.New("its parameters are not known; hint: ca, cert, key, server_name, min_tls")
	}
	over := insecure.NewCredentials()
	switch u.Scheme {
	case "grpc":
		if params != (files.Params{}) {
			return nil, "", errors.New("it is plain text and has parameters of TLS; hint: grpcs://")
		}
	case "grpcs":
		params.TLS.ServerName = cmp.Or(params.TLS.ServerName, u.Hostname())
		loaded, err := files.Load(params.TLS)
		if err != nil {
			return nil, "", err
		}
		config, err := loaded.Config()
		if err != nil {
			return nil, "", err
		}
		over = credentials.NewTLS(config)
	default:
		return nil, "", errURL
	}
	// Callers of the old service itself connect as soon as it is back, so it is not left alone for
	// longer the longer it was away.
	again := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: 5 * time.Second}
	conn, err = grpc.NewClient("dns:///"+u.Host, grpc.WithTransportCredentials(over), grpc.WithConnectParams(again))
	return conn, u.Scheme + "://" + u.Host, err
}
