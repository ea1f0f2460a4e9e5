package memcachestore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/headgate/headgate/internal/credentials"
)

// load reads the files that o names for the first time, so that one which is missing is
// an error at start.
func (o *Options) load() error {
	if o.Password != "" && o.PasswordFile != "" {
		return errors.New("memcached store: a password and a file of it; hint: one of them")
	}
	_, err := o.password()
	if err == nil && !o.files.IsZero() {
		o.loaded, err = credentials.Load(o.files)
	}
	if err != nil {
		return fmt.Errorf("memcached store: %w", credentials.Hinted(err))
	}
	return nil
}

// password returns the one to present now.
func (o *Options) password() (string, error) {
	if o.PasswordFile == "" {
		return o.Password, nil
	}
	text, err := credentials.ReadPassword(o.PasswordFile)
	if err == nil && !isWord(text) {
		err = &credentials.FileError{What: "password file", Path: o.PasswordFile, Err: errors.New("it holds a space or a control character, which memcached cannot take")}
	}
	return text, err
}

// secure speaks TLS on raw, a new connection to server, if o wants it.
func (o *Options) secure(ctx context.Context, raw net.Conn, server string) (net.Conn, error) {
	if o.TLS == nil {
		return raw, nil
	}
	config, stale := o.TLS.Clone(), error(nil)
	if o.loaded != nil {
		config, stale = o.loaded.Config()
		config.ServerName = o.TLS.ServerName
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(server)
	}
	conn := tls.Client(raw, config)
	var plain tls.RecordHeaderError
	err := conn.HandshakeContext(ctx)
	switch {
	case err == nil:
		return conn, nil
	case errors.As(err, &plain) && string(plain.RecordHeader[:]) == "ERROR":
		// A server with no connection left says so before anybody speaks TLS.
		return nil, &clientError{tooMany}
	case stale != nil:
		return nil, fmt.Errorf("%w (what has changed since cannot be used: %w)", err, stale)
	}
	return nil, err
}
