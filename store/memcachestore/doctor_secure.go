package memcachestore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/store"
)

// secured looks at the certificates of both sides of a connection by TLS.
func (d *doctor) secured(ctx context.Context) {
	if d.options.TLS == nil {
		return
	}
	_ = d.step(ctx, func(c *conn) error {
		if link, ok := c.Conn.(*tls.Conn); ok {
			state := link.ConnectionState()
			d.certificate("tls", tls.VersionName(state.Version)+", the server's certificate is ", state.PeerCertificates[0])
		}
		return nil
	})
	if d.options.loaded == nil {
		return
	}
	if config, _ := d.options.loaded.Config(); credentials.Own(config) != nil {
		own := credentials.Own(config)
		d.certificate("own cert", own.Subject.String()+", ", own)
	}
}

// certificate says how long one is good.
func (d *doctor) certificate(name, found string, cert *x509.Certificate) {
	status, hint := store.CheckOK, ""
	until, renew := credentials.Ends(cert, time.Now())
	if renew {
		status, hint = store.CheckWarning, "renew the certificate"
	}
	d.say(name, status, found+until, hint)
}
