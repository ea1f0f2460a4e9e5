package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/credentials"
)

// tokenVariable is the environment variable of a token. There is no flag for it: whoever
// lists the processes of the machine reads those.
const tokenVariable = config.EnvPrefix + "_TOKEN"

// callerFlags are what a command shows to a server that it asks for decisions, and by what
// it knows the server.
type callerFlags struct {
	TokenFile  string `placeholder:"FILE" help:"File that holds the token to ask with, alone; 'headgate caller token' makes one. Default: what HEADGATE_TOKEN holds, else none."`
	ServerCA   string `name:"server-ca" placeholder:"FILE" help:"Authorities in PEM that have signed the certificate of the server. Default: those of this machine."`
	ClientCert string `placeholder:"FILE" help:"Certificate chain in PEM to show the server."`
	ClientKey  string `placeholder:"FILE" help:"Key of --client-cert in PEM."`
}

// show puts the token into a request, which goes to a socket of this machine or by its URL.
func (f *callerFlags) show(r *http.Request, socket bool) error {
	token := os.Getenv(tokenVariable)
	if f.TokenFile != "" {
		var err error
		if token, err = credentials.ReadPassword(f.TokenFile); err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
	}
	switch {
	case token == "":
		return nil
	case !ascii.IsVisible(token):
		return errors.New("--token-file, " + tokenVariable + ": that is no token; hint: the first line that `headgate caller token NAME` prints")
	case !socket && r.URL.Scheme == "http" && !thisMachine(r.URL.Hostname()):
		return errors.New("--addr: over http the token could be read on the way; hint: https, or a tunnel to this machine")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// transport returns what asks the server at u.
func (f *callerFlags) transport(u *url.URL) (*http.Transport, error) {
	files := credentials.Files{ServerName: u.Hostname()}
	files.CA, files.Cert, files.Key = f.ServerCA, f.ClientCert, f.ClientKey
	if u.Scheme != "https" {
		if f.ServerCA != "" || f.ClientCert != "" || f.ClientKey != "" {
			return nil, errors.New("--server-ca, --client-cert, --client-key: --addr is not served by TLS; hint: https://host:port")
		}
		return &http.Transport{}, nil
	}
	loaded, err := credentials.Load(files)
	if err != nil {
		return nil, fmt.Errorf("--server-ca, --client-cert, --client-key: %w", err)
	}
	config, err := loaded.Config()
	if err != nil {
		return nil, err
	}
	return &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, nil
}
