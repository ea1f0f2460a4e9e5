package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/tlsfile"
	"github.com/headgate/headgate/internal/xdsrules"
)

// feedRules has the rules come from a control plane, if there is one.
func (p *process) feedRules(x *config.XDS) error {
	if x.XDSServer == "" {
		return nil
	}
	metadata, err := x.Pairs()
	if err != nil {
		return err
	}
	o := xdsrules.Options{
		Server: x.XDSServer, NodeID: x.XDSNode, Metadata: metadata, MaxMessage: x.XDSMaxMessage, Logger: p.logger,
		Put: p.health.rules.Put, Connected: p.metrics.XDSConnected, Answered: func(o xdsrules.Outcome) { p.metrics.XDSAnswered(string(o)) },
	}
	if x.XDSTLS {
		files, name := tlsfile.Files{Cert: x.XDSCert, Key: x.XDSKey, CA: x.XDSCA}, x.XDSName
		if name == "" {
			name = hostOf(x.XDSServer)
		}
		o.TLS = func() (*tls.Config, error) {
			source, err := tlsfile.Load(files)
			if err != nil {
				return nil, err
			}
			return source.Client(name), nil
		}
		if _, err := o.TLS(); err != nil { // at the start, and not first when somebody dials
			return err
		}
	}
	if o.Headers, err = p.xdsHeaders(x); err != nil {
		return err
	}
	p.metrics.WatchXDS()
	p.tasks = append(p.tasks, xdsrules.New(o).Run)
	return nil
}

// xdsHeaders returns what gives the headers that the control plane is sent; nil where there are
// none.
func (p *process) xdsHeaders(x *config.XDS) (func() (map[string]string, error), error) {
	headers := x.XDSHeaders.Pairs
	if file := x.XDSHeadersFile; file != "" {
		headers = func() (map[string]string, error) {
			text, err := credentials.ReadFile("file of headers", file)
			if err != nil {
				return nil, fmt.Errorf("--xds-headers-file: %w", err)
			}
			pairs, err := config.ParseXDSHeaders(text)
			if err != nil {
				return nil, fmt.Errorf("--xds-headers-file: %s: %w", file, err)
			}
			return pairs, nil
		}
	}
	pairs, err := headers() // at the start, and not first when somebody dials
	if err != nil || pairs == nil {
		return nil, err
	}
	if !x.XDSTLS {
		p.logger.Warn("the control plane is sent headers without TLS, which anybody on the way can read; hint: --xds-tls")
	}
	return headers, nil
}

// hostOf returns the host of a target of gRPC: host:port, or scheme:///host:port.
func hostOf(target string) string {
	host := target[strings.LastIndexByte(target, '/')+1:]
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}
