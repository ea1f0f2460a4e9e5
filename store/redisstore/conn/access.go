package conn

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/internal/credentials"
)

var errTwoPasswords = errors.New("redis store: a password and a file of it; hint: one of them")

// load reads the files that o names for the first time, so that one which is missing is
// an error at start.
func (o *Options) load() error {
	if o.Sentinel != nil {
		s := *o.Sentinel // the caller's stays as it is
		if s.Password != "" && s.PasswordFile != "" {
			return errTwoPasswords
		}
		var err error
		if s.loaded, err = loadTLS(s.files); err != nil {
			return unusable(err)
		}
		o.Sentinel = &s
		if _, err := o.SentinelAt("").Fresh(); err != nil {
			return unusable(err)
		}
	}
	if o.Password != "" && o.PasswordFile != "" {
		return errTwoPasswords
	}
	var err error
	if o.loaded, err = loadTLS(o.files); err == nil {
		_, err = o.Fresh()
	}
	if err != nil {
		return unusable(err)
	}
	return nil
}

// loadTLS returns nil for no files.
func loadTLS(f credentials.Files) (*credentials.TLS, error) {
	if f.IsZero() {
		return nil, nil
	}
	return credentials.Load(f)
}

// unusable makes an error of start of one about a file.
func unusable(err error) error { return fmt.Errorf("redis store: %w", credentials.Hinted(err)) }

// Fresh returns o as a new connection to its server needs it: with the password and the
// certificates that its files hold now. Certificates that cannot be used now are those
// of before. Without such files it returns o itself.
func (o *Options) Fresh() (*Options, error) {
	if o.PasswordFile == "" && (o.loaded == nil || o.TLS == nil) {
		return o, nil
	}
	one := *o
	if o.PasswordFile != "" {
		var err error
		if one.Password, err = credentials.ReadPassword(o.PasswordFile); err != nil {
			return nil, err
		}
	}
	if o.loaded != nil && o.TLS != nil {
		one.TLS, one.stale = o.loaded.Config()
		one.TLS.ServerName = o.TLS.ServerName
	}
	return &one, nil
}

// SentinelAt returns the options for one of the sentinels: it is no place for counts, and
// has users and certificates of its own.
func (o *Options) SentinelAt(addr string) *Options {
	one, s := *o, o.Sentinel
	one.Sentinel, one.DB, one.Addr = nil, 0, addr
	one.Username, one.Password, one.PasswordFile = s.Username, s.Password, s.PasswordFile
	one.TLS, one.files, one.loaded = s.TLS, s.files, s.loaded
	return &one
}
