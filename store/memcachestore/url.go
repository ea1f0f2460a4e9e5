package memcachestore

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/store"
)

// ParseURL reads the addresses of one or several servers:
//
//	memcached://[user:password@]HOST[:PORT][,HOST[:PORT]...]
//	memcached://[user:password@]/path/to/socket
//
// with, in the query,
//
//	prefix=PREFIX              see Options.Prefix
//	password_file=PATH         see Options.PasswordFile
//	tls=true                   speak TLS
//	ca=FILE                    authorities to trust instead of the system's, in PEM
//	cert=FILE&key=FILE         the certificate of this client and its key, in PEM
//	server_name=NAME           the name that certificates must be for
//	min_tls=1.2|1.3            the least version of TLS; 1.2 by default
//
// Certificates are read again for a new connection when they have changed.
//
// The port defaults to 11211. User and password are percent-encoded where they
// hold "@", ":", "/", "?" or "%". No error contains the password.
func ParseURL(raw string) (Options, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !strings.EqualFold(scheme, "memcached") {
		return Options{}, urlError("its scheme is unknown", "memcached://HOST:PORT")
	}
	rest, query, _ := strings.Cut(rest, "?")
	var o Options
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := o.parseUser(rest[:at]); err != nil {
			return Options{}, err
		}
		rest = rest[at+1:]
	}
	if err := o.parseQuery(query); err != nil {
		return Options{}, err
	}
	if strings.HasPrefix(rest, "/") && rest != "/" {
		if o.TLS != nil {
			return Options{}, urlError("it wants TLS on a unix socket", "memcached speaks TLS on TCP only: memcached://HOST:PORT?tls=true")
		}
		o.Servers = []string{rest}
		return o, nil
	}
	for server := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		if server == "" || strings.ContainsAny(server, "/#") {
			return Options{}, urlError("it names no host", "memcached://HOST:PORT or memcached://HOST1:PORT,HOST2:PORT")
		}
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(strings.Trim(server, "[]"), defaultPort)
		}
		o.Servers = append(o.Servers, server)
	}
	if err := checkServers(o.Servers); err != nil {
		return Options{}, err
	}
	return o, nil
}

func urlError(what, hint string) error {
	return fmt.Errorf("memcached address: %s; hint: %s", what, hint)
}

func (o *Options) parseUser(text string) error {
	name, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	o.Username, err1 = url.PathUnescape(name)
	o.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		// The errors of package url quote their input.
		return urlError("its user or password is not percent-encoded", "@ is %40, / is %2F, % is %25")
	}
	return nil
}

// queryForm is for hints.
const queryForm = "memcached://HOST:PORT?prefix=hg:&password_file=PATH&tls=true, and with that ca, cert, key, server_name, min_tls"

func (o *Options) parseQuery(text string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return urlError("its query is malformed", queryForm)
	}
	p, err := credentials.Take(query, "")
	if err != nil {
		return fmt.Errorf("memcached address: %w", err)
	}
	secure := "false"
	for name, values := range query {
		to := map[string]*string{"prefix": &o.Prefix, "tls": &secure}[name]
		if to == nil || len(values) != 1 {
			return urlError("its query has an unknown or repeated name", queryForm)
		}
		*to = values[0]
	}
	switch {
	case store.CheckPrefix(o.Prefix) != nil:
		return fmt.Errorf("memcached address: %w", store.CheckPrefix(o.Prefix))
	case p.PasswordFile != "" && o.Password != "":
		return urlError("it has a password and a password_file", "one of them")
	case p.PasswordFile != "" && o.Username == "":
		return urlError("it has a password_file and no user", "memcached://user@HOST:PORT?password_file=PATH")
	case secure != "true" && secure != "false":
		return urlError("its tls is neither true nor false", queryForm)
	case secure == "false" && !p.TLS.IsZero():
		return urlError("it says how to speak TLS, and not to speak it", "tls=true")
	}
	o.PasswordFile, o.files = p.PasswordFile, p.TLS
	if secure == "true" {
		o.TLS = &tls.Config{MinVersion: max(p.TLS.MinVersion, tls.VersionTLS12), ServerName: p.TLS.ServerName}
	}
	return nil
}
