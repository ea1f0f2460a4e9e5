package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// ownCertificates looks at what this client shows to servers and to sentinels.
func (d *doctor) ownCertificates() {
	d.ownCertificate("own cert", d.options)
	if d.options.Sentinel != nil {
		d.ownCertificate("own cert for sentinels", d.options.SentinelAt(""))
	}
}

// ownCertificate looks at what this client shows; servers that want none do not look.
func (d *doctor) ownCertificate(name string, o *conn.Options) {
	fresh, err := o.Fresh()
	if err != nil {
		return // each visit says so
	}
	own := credentials.Own(fresh.TLS)
	if own == nil {
		return
	}
	c := judgeCertificate(name, own, time.Now())
	c.Found = own.Subject.String() + ", " + c.Found
	d.say(c)
}

// judgeCertificate says how long a certificate is good.
func judgeCertificate(name string, cert *x509.Certificate, now time.Time) store.Check {
	until, renew := credentials.Ends(cert, now)
	c := store.Check{Name: name, Status: store.CheckOK, Found: until}
	switch {
	case now.After(cert.NotAfter):
		c.Status, c.Hint = store.CheckProblem, "it has expired: renew it"
	case now.Before(cert.NotBefore):
		c.Status, c.Hint = store.CheckProblem, "it is not valid yet: set the clock of this machine"
	case renew:
		c.Status, c.Hint = store.CheckWarning, "renew the certificate"
	}
	return c
}

// handshake speaks TLS on link.
func (d *doctor) handshake(ctx context.Context, v visit, link net.Conn) net.Conn {
	cfg := v.as.TLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(v.addr)
	}
	secure := tls.Client(link, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		hint, known := credentials.Explain(err)
		if !known {
			hint = "check that the port speaks TLS, and whether its maxclients are reached: then Redis hangs up without a word"
			if d.speaksPlain(v) {
				hint = "the server does not speak TLS there: use redis://, or its TLS port"
			}
		}
		d.say(store.Check{Name: "tls", Server: v.addr, Status: store.CheckProblem, Found: plainError(err), Hint: hint})
		return nil
	}
	state := secure.ConnectionState()
	c := store.Check{Name: "tls", Status: store.CheckOK}
	if len(state.PeerCertificates) > 0 {
		c = judgeCertificate("tls", state.PeerCertificates[0], time.Now())
		c.Found = tls.VersionName(state.Version) + ", certificate for " + cfg.ServerName + " " + c.Found
	} else {
		c.Found = tls.VersionName(state.Version)
	}
	c.Server = v.addr
	d.say(c)
	return secure
}
