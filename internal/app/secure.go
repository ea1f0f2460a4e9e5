package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/inlet"
	"github.com/headgate/headgate/internal/linelimit"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/tlsfile"
)

// alpn are the protocols of a listener of HTTP, alpnGRPC those of one of gRPC.
var (
	alpn     = []string{"h2", "http/1.1"}
	alpnGRPC = []string{"h2"}
)

// inlets are the listeners of a process, what stands before their servers, and the
// certificates that they are served with.
type inlets struct {
	logger       *slog.Logger
	full, failed linelimit.Limiter
	floods       floods

	mu           sync.Mutex
	listeners    []namedInlet
	certificates []namedCertificate
	balanced     balanced
}

type namedInlet struct {
	name string
	*inlet.Listener
}

type namedCertificate struct {
	name string
	*tlsfile.Source
}

func newInlets(logger *slog.Logger) *inlets {
	return &inlets{logger: logger, floods: floods{logger: logger}}
}

// inlet returns l with what stands before the server of that name: bounds, TLS where
// settings are given, and the guard against floods.
func (p *process) inlet(name string, l net.Listener, settings *tls.Config) net.Listener {
	return p.inletWith(name, l, inlet.Options{TLS: settings})
}

// inletWith is inlet with options, of which it fills in what is the same for all.
func (p *process) inletWith(name string, l net.Listener, o inlet.Options) net.Listener {
	in := p.inlets
	o.MaxConnections, o.OnFlood = p.settings.MaxConnections, in.floods.told(name)
	o.OnFull = func(remote net.Addr) {
		if untold, ok := in.full.MayTell(oneLine, time.Now()); ok {
			in.logger.Warn("a connection was closed because too many are open; hint: --max-connections", "listener", name, "remote", remote.String(), "others_since", untold)
		}
	}
	o.OnFailure = func(remote net.Addr, err error) {
		if untold, ok := in.failed.MayTell(oneLine, time.Now()); ok {
			in.logger.Warn("a handshake of TLS failed", "listener", name, "remote", remote.String(), "error", err, "others_since", untold)
		}
	}
	listener := inlet.Listen(l, o)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.listeners = append(in.listeners, namedInlet{name, listener})
	return listener
}

// certificates returns the source of a listener's certificates, which is kept as its files
// are; settings is what its settings begin with.
func (p *process) certificates(name, setting string, files tlsfile.Files) (*tlsfile.Source, error) {
	source, err := tlsfile.Load(files)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", setting, err)
	}
	if end := source.State().NotAfter; !end.IsZero() && time.Now().After(end) {
		p.logger.Error("the certificate of a listener has expired, so that who verifies it will not connect", "listener", name, "expired", end)
	}
	p.inlets.mu.Lock()
	defer p.inlets.mu.Unlock()
	p.inlets.certificates = append(p.inlets.certificates, namedCertificate{name, source})
	p.tasks = append(p.tasks, func(ctx context.Context) {
		p.reread(ctx, "the certificate of "+name, "the one before stays in force", func() (bool, error) { return source.Reload(time.Now()) })
	})
	return source, nil
}

// tlsOf returns how the clients of a listener are served by TLS; nil without a
// certificate.
func (p *process) tlsOf(name, setting string, files tlsfile.Files, o tlsfile.Server) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil
	}
	source, err := p.certificates(name, setting, files)
	if err != nil {
		return nil, err
	}
	return source.Server(o), nil
}

// opsTLS returns how the listener of that name is served, of those that show how the
// process is.
func (p *process) opsTLS(name string) (*tls.Config, error) {
	return p.tlsOf(name, "ops-tls-cert, --ops-tls-key, --ops-client-ca",
		tlsfile.Files{Cert: p.settings.OpsTLSCert, Key: p.settings.OpsTLSKey, CA: p.settings.OpsClientCA}, tlsfile.Server{Protocols: alpn})
}

// callersTLS returns how callers are served at the listener of that name; nil for plain
// text.
func (p *process) callersTLS(s *config.CallersTLS, name, addr string) (*tls.Config, error) {
	if !s.Secures(name, addr) {
		return nil, nil
	}
	names, err := clientNames(s.ClientNames)
	if err != nil {
		return nil, err
	}
	files := tlsfile.Files{Cert: s.TLSCert, Key: s.TLSKey, CA: s.ClientCA}
	o := tlsfile.Server{Protocols: alpn, Optional: s.ClientCerts == "optional", Names: names}
	switch name {
	case "grpc":
		o.Protocols = alpnGRPC
	case "redis":
		o.Protocols = nil // clients of Redis name none
	case "usage":
		files.CA = "" // customers have tokens
	}
	return p.tlsOf(name, "tls-cert, --tls-key, --client-ca", files, o)
}

func clientNames(list string) (names []tlsfile.Name, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		n, err := tlsfile.ParseName(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--client-names: %w", err)
		}
		names = append(names, n)
	}
	return names, nil
}

// bind binds the address of a setting; a socket of this machine gets the mode that is set.
func (p *process) bind(ctx context.Context, setting, addr string) (net.Listener, error) {
	l, err := listen(ctx, setting, addr)
	if err != nil {
		return nil, err
	}
	mode, ok, err := p.settings.Mode()
	if ok && err == nil && l.Addr().Network() == "unix" {
		err = os.Chmod(l.Addr().String(), mode)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("--%s: --socket-mode: %w", setting, err)
	}
	return l, nil
}

// counts returns what the metrics show of the listeners.
func (in *inlets) counts() []telemetry.Listener {
	in.mu.Lock()
	defer in.mu.Unlock()
	var all []telemetry.Listener
	for _, l := range in.listeners {
		s := l.Stats()
		all = append(all, telemetry.Listener{Name: l.name, Open: s.Open, Full: s.Full, Failed: s.Failed})
	}
	return all
}

// expiries returns what the metrics show of the certificates.
func (in *inlets) expiries() []telemetry.Certificate {
	in.mu.Lock()
	defer in.mu.Unlock()
	var all []telemetry.Certificate
	for _, c := range in.certificates {
		s := c.State()
		all = append(all, telemetry.Certificate{Listener: c.name, NotAfter: s.NotAfter, Refused: s.Failures, Stale: s.Refused != nil})
	}
	return all
}

// openFronts names the ports of callers that more than this machine can reach and that ask for
// nothing.
func openFronts(s *config.Serve, fronts []front) (open []string) {
	for _, f := range fronts {
		switch f.name {
		case "http", "grpc", "auth", "redis":
		default:
			continue
		}
		if (!config.Loopback(f.addr) || s.Behind(f.name)) && s.Callers.Callers == "" && !s.Secures(f.name, f.addr) {
			open = append(open, f.name+"="+f.addr)
		}
	}
	return open
}

// tellOpen warns of open ports of callers, and of that of operators if more than this machine
// can reach it and it asks for nothing.
func (p *process) tellOpen(open []string) {
	var hints []string
	if len(open) > 0 {
		hints = append(hints, "--callers, --tls-cert and --client-ca")
	}
	if s := p.settings; s.OpsAddr != "" && !config.Loopback(s.OpsAddr) && s.OpsClientCA == "" {
		open, hints = append(open, "ops="+s.OpsAddr), append(hints, "--ops-tls-cert and --ops-client-ca")
	}
	if len(open) > 0 {
		p.logger.Warn("more than this machine may reach ports that ask for neither TLS nor a token; hint: "+strings.Join(hints, ", ")+", or an address of 127.0.0.1; see docs/security.md", "ports", strings.Join(open, " "))
	}
}
