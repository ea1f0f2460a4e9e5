package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/hideurl"
	"github.com/headgate/headgate/internal/problems"
	"github.com/headgate/headgate/internal/yamlfile"
)

const (
	// maxTokenFile and maxCAFile bound the files of a token and of authorities.
	maxTokenFile, maxCAFile = 64 << 10, 1 << 20
	// maxAdminAnswer bounds what is read of an answer: ten thousand quotas.
	maxAdminAnswer = 16 << 20
)

// adminAddress says where the admin API is, and with which token it is asked.
type adminAddress struct {
	Admin          string `placeholder:"URL" help:"The address of the admin API: https://host:port, http://127.0.0.1:9090 or unix:///path."`
	AdminTokenFile string `placeholder:"FILE" help:"File whose first line is the token to ask with; 'headgate admin token' makes one."`
	AdminCA        string `name:"admin-ca" placeholder:"FILE" help:"Authorities in PEM that have signed the certificate of the admin API. Default: those of this machine."`
	// Via is the host:port that is asked for the host of Admin; "" is any that it stands for.
	Via string `kong:"-"`
}

// adminFlags are those of commands that ask it for accounts.
type adminFlags struct {
	adminAddress `embed:""`
	HashKey      string        `placeholder:"FILE" help:"The key that API keys are hashed by, to name one in full; the hash_key_file of the identity file. The key itself is then not sent."`
	Timeout      time.Duration `default:"15s" env:"-" help:"Longest wait for the answer."`
	JSON         bool          `name:"json" env:"-" help:"Print the answer as it came."`
}

// ask asks the admin API and returns its answer. body nil sends none.
func (f *adminFlags) ask(method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.Timeout)
	defer cancel()
	raw, err := f.tryAsk(ctx, method, path, body)
	return raw, unanswered(err)
}

func (f *adminAddress) tryAsk(ctx context.Context, method, path string, body any) ([]byte, error) {
	var text io.Reader
	header := http.Header{}
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(data)
		header.Set("Content-Type", "application/json")
	}
	raw, _, err := f.askText(ctx, method, path, header, text)
	return raw, err
}

// askText asks the admin API with a header and a body of its own.
func (f *adminAddress) askText(ctx context.Context, method, path string, header http.Header, body io.Reader) ([]byte, http.Header, error) {
	response, raw, err := f.fetch(ctx, method, path, header, body)
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, nil, adminProblem(response.StatusCode, raw)
	}
	return raw, response.Header, nil
}

// fetch asks the admin API and reads its answer, whatever it is.
func (f *adminAddress) fetch(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, []byte, error) {
	response, done, err := f.open(ctx, method, path, header, body)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAdminAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("ask the admin API: %w", hideurl.In(err))
	}
	return response, raw, nil
}

// open asks the admin API. done ends what is read of its answer.
func (f *adminAddress) open(ctx context.Context, method, path string, header http.Header, body io.Reader) (response *http.Response, done func(), err error) {
	token, err := f.token()
	if err != nil {
		return nil, nil, err
	}
	client, base, err := f.client()
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, base+adminapi.Prefix+path, body)
	if err != nil {
		return nil, nil, hideurl.In(err)
	}
	request.Header = header
	request.Header.Set("Authorization", "Bearer "+token)
	if response, err = client.Do(request); err != nil {
		client.CloseIdleConnections()
		return nil, nil, fmt.Errorf("ask the admin API: %w; hint: is it served at --admin?", hideurl.In(err))
	}
	return response, func() {
		response.Body.Close()
		client.CloseIdleConnections()
	}, nil
}

// token returns the first line of the file of the token.
func (f *adminAddress) token() (string, error) {
	if f.AdminTokenFile == "" {
		return "", errors.New("--admin-token-file: the admin API needs a token; hint: `headgate admin token NAME`, and HEADGATE_ADMIN_TOKEN_FILE in the environment")
	}
	text, err := yamlfile.Read(f.AdminTokenFile, maxTokenFile)
	if err != nil {
		return "", fmt.Errorf("--admin-token-file: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSpace(line)
	if line == "" || !ascii.IsVisible(line) {
		return "", fmt.Errorf("--admin-token-file: the first line of %s is no token; hint: that of `headgate admin token NAME`", f.AdminTokenFile)
	}
	return line, nil
}

// client returns a client for --admin that goes nowhere else, and the URL that paths
// follow.
func (f *adminAddress) client() (*http.Client, string, error) {
	if f.Admin == "" {
		return nil, "", errors.New("--admin: no admin API is named; hint: --admin https://host:port, or HEADGATE_ADMIN in the environment")
	}
	if socket, ok := strings.CutPrefix(f.Admin, "unix://"); ok {
		return &http.Client{Transport: &http.Transport{DialContext: dialTo("unix", socket)}, CheckRedirect: stay}, "http://headgate", nil
	}
	u, err := url.Parse(f.Admin)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, "", errors.New("--admin is not an address; hint: https://host:port, http://127.0.0.1:9090 or unix:///run/headgate-admin.sock")
	}
	if u.Scheme == "http" && !thisMachine(u.Hostname()) {
		return nil, "", errors.New("--admin: over http the token could be read on the way; hint: https, or a tunnel to this machine")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DialContext: dialTo("tcp", f.Via)}
	if f.AdminCA != "" {
		pem, err := yamlfile.Read(f.AdminCA, maxCAFile)
		if err != nil {
			return nil, "", fmt.Errorf("--admin-ca: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, "", fmt.Errorf("--admin-ca: no certificate in %s; hint: PEM", f.AdminCA)
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: stay}, strings.TrimSuffix(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}

// stay follows no redirect, which would take a token elsewhere.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// dialTo dials an address, whatever is asked for; "" what is asked for.
func dialTo(network, address string) func(context.Context, string, string) (net.Conn, error) {
	var d net.Dialer
	if address == "" {
		return d.DialContext
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, network, address) }
}

// thisMachine reports whether nobody but this machine sees what goes to host.
func thisMachine(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// adminProblem makes an answer that is none an error. What the API refuses is a no;
// what it cannot do, or read, is not.
func adminProblem(status int, raw []byte) error {
	code := exitNo
	if status/100 != 4 || slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, status) {
		code = exitUsage
	}
	var p struct {
		Type   string `json:"type"`
		Detail string `json:"detail"`
		Hint   string `json:"hint"`
		Errors []struct {
			Field   string `json:"field"`
			Message string `json:"message"`
			Hint    string `json:"hint"`
		} `json:"errors"`
	}
	if json.Unmarshal(raw, &p) != nil || p.Detail == "" || p.Type == problems.NoPath {
		return &codeError{exitUsage, fmt.Errorf("the admin API answers %d %s; hint: does --admin name it?", status, http.StatusText(status))}
	}
	if len(p.Errors) == 0 {
		return &codeError{code, errors.New(told(p.Detail, p.Hint))}
	}
	problems := make([]error, len(p.Errors))
	for i, e := range p.Errors {
		problems[i] = fmt.Errorf("%s: %s", oneLine(e.Field), told(e.Message, e.Hint))
	}
	return &codeError{code, errors.Join(problems...)}
}

// told is what a server says is wrong, and what to do, as one line: an end of a line in it
// would begin a message that passes for one of this command.
func told(detail, hint string) string {
	if hint != "" {
		detail += hintMark + hint
	}
	return oneLine(detail)
}
