package app

import (
	"crypto/tls"
	"net"
	"strings"

	"github.com/headgate/headgate/internal/config"
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
	p.metrics.WatchXDS()
	p.tasks = append(p.tasks, xdsrules.New(o).Run)
	return nil
}

// hostOf returns the host of a target of gRPC: host:port, or scheme:///host:port.
func hostOf(target string) string {
	host := target[strings.LastIndexByte(target, '/')+1:]
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}
