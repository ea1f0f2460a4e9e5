package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateEvery is how often a handshake looks whether the files of the
// certificate have changed.
const certificateEvery = 10 * time.Second

// certificate is a certificate in two files, read again when they change. One
// that cannot be read leaves the one before in use.
type certificate struct {
	cert, key string // paths
	logger    *slog.Logger

	mu struct {
		sync.Mutex
		pair    *tls.Certificate
		changed [2]int64 // of the files when pair was read
		looked  time.Time
	}
}

// certificate returns that of two files; "" are none.
func (p *process) certificate(cert, key string) *certificate {
	return &certificate{cert: cert, key: key, logger: p.logger}
}

// tlsConfig returns how clients are served by TLS, nil when they are not: c then has
// no files. The settings of the two begin with setting.
func (c *certificate) tlsConfig(setting string) (*tls.Config, error) {
	if c.cert == "" {
		return nil, nil
	}
	if err := c.readLocked(); err != nil {
		return nil, fmt.Errorf("--%[1]s-cert, --%[1]s-key: %[2]w; hint: PEM, the chain with the server's certificate first, and its key", setting, err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.at(time.Now()), nil },
	}, nil
}

// at returns the certificate in force at now.
func (c *certificate) at(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.mu.looked) < certificateEvery {
		return c.mu.pair
	}
	c.mu.looked = now
	if c.times() == c.mu.changed {
		return c.mu.pair
	}
	if err := c.readLocked(); err != nil {
		c.logger.Error("the certificate has changed and cannot be used; the one before stays", "error", err)
	} else {
		c.logger.Info("the certificate was read again")
	}
	return c.mu.pair
}

func (c *certificate) readLocked() error {
	changed := c.times() // before, so that no change is missed
	c.mu.changed = changed
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	c.mu.pair = &pair
	return nil
}

// times returns when the files were changed, in nanoseconds; 0 for one that is not
// there.
func (c *certificate) times() (changed [2]int64) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			changed[i] = info.ModTime().UnixNano()
		}
	}
	return changed
}
