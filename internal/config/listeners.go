package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Listeners are the settings that hold for all listeners of callers, clients and operators.
type Listeners struct {
	// MaxConnections bounds the open connections of each listener; 0 is no bound. The
	// default value is 20000.
	MaxConnections int `group:"listen" default:"20000" placeholder:"N" help:"Connections that may be open at each listener; one beyond them is closed at once. 0 for no bound. Default ${default}."`
	// SocketMode is the mode of unix sockets; "" leaves it to the umask.
	SocketMode string `group:"listen" placeholder:"MODE" help:"Mode of unix sockets, such as 0660. Default: as the umask has it."`
}

const maxConnections = 1 << 24

// Mode returns SocketMode; ok is false where there is none.
func (l *Listeners) Mode() (mode os.FileMode, ok bool, err error) {
	if l.SocketMode == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(l.SocketMode, 8, 32)
	if err != nil || n > 0o777 {
		return 0, false, fmt.Errorf("--socket-mode: %.20q is no mode; hint: three octal digits, such as 0660", l.SocketMode)
	}
	return os.FileMode(n), true, nil
}

func (l *Listeners) validate() error {
	_, _, err := l.Mode()
	return errors.Join(err, within("max-connections", l.MaxConnections, 0, maxConnections))
}

// CallersTLS are the settings of TLS on the listeners of callers, gateways and customers:
// those of --http-addr, --grpc-addr, --auth-addr, --redis-addr and --usage-addr.
type CallersTLS struct {
	// TLSCert and TLSKey are files in PEM; both or neither.
	TLSCert string `group:"callers" placeholder:"FILE" help:"Certificate chain in PEM, to serve --http-addr, --grpc-addr, --auth-addr, --redis-addr and --usage-addr by TLS. Read again when it changes. Sockets of this machine are served without."`
	TLSKey  string `group:"callers" placeholder:"FILE" help:"Key of --tls-cert in PEM."`
	// TLSExcept are listeners without TLS, with commas between.
	TLSExcept string `group:"callers" placeholder:"LISTENER,..." help:"Listeners that are served without TLS all the same: http, grpc, auth, redis, usage. Default: none."`
	// ClientCA is a file in PEM; "" asks for no certificates.
	ClientCA string `group:"callers" placeholder:"FILE" help:"Authorities in PEM that certificates of callers must be of. Read again when it changes. Customers, at --usage-addr, are not asked for one."`
	// ClientCerts says whether callers may come without a certificate.
	ClientCerts string `group:"callers" enum:"required,optional" default:"required" help:"Whether callers must show a certificate where --client-ca is given (required), or may (optional), such as those with a token of --callers. Default ${default}."`
	// ClientNames are names of certificates, with commas between; "" is all that ClientCA
	// has signed.
	ClientNames string `group:"callers" placeholder:"NAME,..." help:"Names of which a certificate of callers must have one: dns:gateway.internal, dns:*.edge.internal, uri:spiffe://prod/ns/edge/sa/envoy, uri:spiffe://prod/ns/edge/*, cn:gateway. Default: all that --client-ca has signed."`
}

// tlsListeners are those of CallersTLS.
var tlsListeners = []string{"http", "grpc", "auth", "redis", "usage"}

// Secures reports whether the listener of that name is served by TLS at an address.
func (t *CallersTLS) Secures(listener, addr string) bool {
	network, _, err := ListenAddress(addr)
	return t.TLSCert != "" && err == nil && network == "tcp" && !slices.Contains(words(t.TLSExcept), listener)
}

func (t *CallersTLS) validate() error {
	problems := []error{
		alone("tls", t.TLSCert, t.TLSKey),
		refuse(t.ClientCA != "" && t.TLSCert == "", "--client-ca: certificates of callers need TLS; hint: --tls-cert and --tls-key"),
		refuse(t.ClientNames != "" && t.ClientCA == "", "--client-names: nobody is asked for a certificate; hint: --client-ca"),
		refuse(t.ClientCerts == "optional" && t.ClientCA == "", "--client-certs: nobody is asked for a certificate; hint: --client-ca"),
		refuse(t.TLSExcept != "" && t.TLSCert == "", "--tls-except: no listener is served by TLS; hint: --tls-cert and --tls-key, or leave it out"),
	}
	for _, name := range words(t.TLSExcept) {
		problems = append(problems, refuse(!slices.Contains(tlsListeners, name), "--tls-except: %.40q is none; hint: %s", name, strings.Join(tlsListeners, ", ")))
	}
	return errors.Join(problems...)
}
