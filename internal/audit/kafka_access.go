package audit

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/headgate/headgate/internal/credentials"
)

// dialTimeout bounds one attempt to connect to a broker, that of TLS included.
const dialTimeout = 10 * time.Second

// readAccess reads who the brokers are asked as, and how.
func (c *kafkaConfig) readAccess(user *url.Userinfo, s *settings) {
	withTLS := "false"
	s.choice("tls", &withTLS, "true", "false")
	s.known = append(s.known, credentials.Names()...)
	p, err := credentials.Take(s.values, "")
	if err != nil {
		s.refuse("%w", err)
		return
	}
	c.readUser(user, p.PasswordFile, s)
	switch {
	case withTLS == "true":
		if c.secure, err = credentials.Load(p.TLS); err != nil {
			s.refuse("%w", credentials.Hinted(err))
		}
	case !p.TLS.IsZero():
		s.refuse("tls: the URL says how to speak it, and not to; hint: tls=true")
	}
}

func (c *kafkaConfig) readUser(user *url.Userinfo, file string, s *settings) {
	if user != nil {
		c.user = user.Username()
		c.password, _ = user.Password()
	}
	c.passwordFile = file
	switch {
	case c.password != "" && file != "":
		s.refuse("password_file: there is a password too; hint: one of them")
	case c.sasl != "" && (c.user == "" || c.password == "" && file == ""):
		s.refuse("sasl: no user, or no password; hint: kafka://user:password@host:9092/topic, or kafka://user@host:9092/topic?password_file=PATH")
	case c.sasl == "" && (user != nil || file != ""):
		s.refuse("sasl: how the user is to log in is not said; hint: sasl=scram-sha-256, scram-sha-512 or plain")
	case file != "":
		if _, err := credentials.ReadPassword(file); err != nil {
			s.refuse("%w", credentials.Hinted(err))
		}
	}
}

// mechanism returns how to log in, nil for not at all. It is asked for the password at
// each log-in.
func (c *kafkaConfig) mechanism() sasl.Mechanism {
	scrammed := func(context.Context) (scram.Auth, error) {
		password, err := c.passwordNow()
		return scram.Auth{User: c.user, Pass: password}, err
	}
	switch c.sasl {
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := c.passwordNow()
			return plain.Auth{User: c.user, Pass: password}, err
		})
	case "scram-sha-256":
		return scram.Sha256(scrammed)
	case "scram-sha-512":
		return scram.Sha512(scrammed)
	}
	return nil
}

func (c *kafkaConfig) passwordNow() (string, error) {
	if c.passwordFile == "" {
		return c.password, nil
	}
	return credentials.ReadPassword(c.passwordFile)
}

// dialTLS connects to a broker, by certificates as they are now.
func (c *kafkaConfig) dialTLS(ctx context.Context, network, broker string) (net.Conn, error) {
	config, stale := c.secure.Config()
	raw, err := c.dialPlain(ctx, network, broker)
	var conn *tls.Conn
	if err == nil {
		conn, err = shakeHands(ctx, raw, broker, config)
	}
	switch hint, known := credentials.Explain(err); {
	case err == nil:
		return conn, nil
	case stale != nil:
		return nil, fmt.Errorf("%w (what has changed since cannot be used: %w)", err, stale)
	case known:
		return nil, fmt.Errorf("%w; hint: %s", err, hint)
	}
	return nil, err
}

// dialPlain connects to a broker.
func (c *kafkaConfig) dialPlain(ctx context.Context, network, broker string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if c.via != nil {
		dial = c.via(dial)
	}
	return dial(ctx, network, broker)
}

// shakeHands puts TLS on a connection to a broker, which it closes where that fails.
func shakeHands(ctx context.Context, raw net.Conn, broker string, config *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(broker)
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}
