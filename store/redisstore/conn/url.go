package conn

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/store"
)

const (
	defaultPort         = "6379"
	defaultSentinelPort = "26379"
	// maxDB is the largest database number that ParseURL takes.
	maxDB = 1<<31 - 1
)

// ParseURL reads the address of a Redis:
//
//	redis://[user:password@]HOST[:PORT][/DB]
//	unix://[user:password@]/path[?db=DB]
//
// or of the sentinels that know it:
//
//	redis+sentinel://[user:password@]HOST[:PORT],...[/DB]?master=NAME
//	    [&sentinel_user=USER][&sentinel_password=PASSWORD][&sentinel_tls=true|false]
//
// or of some nodes of a cluster:
//
//	redis+cluster://[user:password@]HOST[:PORT],...
//
// With rediss in place of redis all of it is over TLS; sentinel_tls tells the
// sentinels apart.
//
// All take in their query
//
//	prefix=PREFIX              see Options.Prefix
//	password_file=PATH         see Options.PasswordFile
//	peeks=replicas             see Options.Replicas; also HOST[:PORT],... of one Redis
//	ca=FILE                    authorities to trust instead of the system's, in PEM
//	cert=FILE&key=FILE         the certificate of this client and its key, in PEM
//	server_name=NAME           the name that certificates must be for
//	min_tls=1.2|1.3            the least version of TLS; 1.2 by default
//
// of which all but the first three need TLS. Certificates are read again for a new
// connection when they have changed. The same with sentinel_ before the name
// is for the sentinels. What is not given for them is, over TLS, that of the servers,
// passwords apart.
//
// ":password@" alone is the default user. The port defaults to 6379, that of a
// sentinel to 26379, and the database to 0. User and password are
// percent-encoded where they hold "@", ":" or "/". No error contains a
// password.
func ParseURL(raw string) (Options, error) {
	raw, hosts := takeHosts(raw)
	u, err := url.Parse(raw)
	if err != nil {
		// The error of package url quotes its input, the password included.
		return Options{}, urlError("it is not a URL", "percent-encode special characters of the password: @ is %40, / is %2F, % is %25")
	}
	var o Options
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if u.Opaque != "" || u.Fragment != "" {
		return Options{}, urlError("it does not have the form of an address", "redis://HOST:PORT/DB; percent-encode # as %23 in the password")
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	if scheme == "rediss" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	switch {
	case u.Scheme == "unix":
		err = o.parseUnix(u)
	case scheme != "redis" && scheme != "rediss":
		err = errScheme
	case u.Scheme == scheme:
		err = o.parseTCP(u)
	case kind == "sentinel":
		err = o.parseSentinel(u, hosts)
	case kind == "cluster":
		err = o.parseCluster(u, hosts)
	default:
		err = errScheme
	}
	if err != nil {
		return Options{}, err
	}
	return o, nil
}

// takeHosts takes the list of hosts out of an address that may have several:
// package url knows one.
func takeHosts(raw string) (rest, hosts string) {
	scheme, after, ok := strings.Cut(raw, "://")
	if !ok || !strings.Contains(scheme, "+") {
		return raw, ""
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	begin := strings.LastIndexByte(after[:end], '@') + 1
	return scheme + "://" + after[:begin] + after[end:], after[begin:end]
}

var errScheme = urlError("its scheme is unknown", "redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")

func urlError(what, hint string) error {
	return fmt.Errorf("redis address: %s; hint: %s", what, hint)
}

func (o *Options) parseTCP(u *url.URL) error {
	if strings.Contains(u.Host, ",") {
		return urlError("it names several hosts", "redis+cluster:// takes nodes of a cluster, redis+sentinel:// sentinels")
	}
	addrs, err := splitHosts(u.Host, defaultPort, "redis://HOST:PORT/DB")
	if err != nil {
		return err
	}
	query, err := o.parseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	if err := nothingElse(query, "redis://HOST:PORT/DB; the database is its path"); err != nil {
		return err
	}
	o.Network, o.Addr = "tcp", addrs[0]
	if o.TLS != nil && o.TLS.ServerName == "" {
		o.TLS.ServerName = u.Hostname()
	}
	return o.parseDB(strings.TrimPrefix(u.Path, "/"))
}

func (o *Options) parseSentinel(u *url.URL, hosts string) error {
	const form = "redis+sentinel://HOST1:26379,HOST2:26379/DB?master=NAME"
	addrs, err := splitHosts(hosts, defaultSentinelPort, form)
	if err != nil {
		return err
	}
	query, err := o.parseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	s := &Sentinel{Addrs: addrs}
	for name, to := range map[string]*string{"master": &s.Master, "sentinel_user": &s.Username, "sentinel_password": &s.Password} {
		if *to, err = takeOnce(query, name); err != nil {
			return err
		}
	}
	if s.Master == "" {
		return urlError("it names no primary", form)
	}
	if err := s.parseAccess(o, query, form); err != nil {
		return err
	}
	if err := nothingElse(query, form+", sentinel_user, sentinel_password, sentinel_tls, and sentinel_ before the names of the others"); err != nil {
		return err
	}
	o.Network, o.Sentinel = "tcp", s
	return o.parseDB(strings.TrimPrefix(u.Path, "/"))
}

// parseAccess reads what the sentinels have of their own.
func (s *Sentinel) parseAccess(o *Options, query url.Values, form string) error {
	secure := o.TLS != nil
	switch value, err := takeOnce(query, "sentinel_tls"); {
	case err != nil:
		return err
	case value == "true" || value == "false":
		secure = value == "true"
	case value != "":
		return urlError("its sentinel_tls is neither true nor false", form+"&sentinel_tls=false")
	}
	p, err := credentials.Take(query, "sentinel_")
	if err != nil {
		return fmt.Errorf("redis address: %w", err)
	}
	if s.PasswordFile = p.PasswordFile; s.PasswordFile != "" && s.Password != "" {
		return urlError("it has sentinel_password and sentinel_password_file", "one of them")
	}
	if !secure {
		if !p.TLS.IsZero() {
			return urlError("it says how to speak TLS with sentinels, and that they speak none", "sentinel_tls=true")
		}
		return nil
	}
	s.files = inherit(p.TLS, o.files)
	s.TLS = configOf(s.files)
	return nil
}

// inherit fills in what own leaves out.
func inherit(own, from credentials.Files) credentials.Files {
	own.CA, own.ServerName = cmp.Or(own.CA, from.CA), cmp.Or(own.ServerName, from.ServerName)
	own.MinVersion = cmp.Or(own.MinVersion, from.MinVersion)
	if own.Cert == "" {
		own.Cert, own.Key = from.Cert, from.Key
	}
	return own
}

func (o *Options) parseCluster(u *url.URL, hosts string) error {
	const form = "redis+cluster://HOST1:6379,HOST2:6379"
	addrs, err := splitHosts(hosts, defaultPort, form)
	if err != nil {
		return err
	}
	if path := strings.TrimPrefix(u.Path, "/"); path != "" && path != "0" {
		return urlError("it names a database", "a cluster has only database 0: "+form)
	}
	query, err := o.parseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	if err := nothingElse(query, form); err != nil {
		return err
	}
	o.Network, o.Cluster = "tcp", addrs
	return nil
}

// parseQuery reads what all addresses take, and returns the rest.
func (o *Options) parseQuery(text string) (url.Values, error) {
	query, err := url.ParseQuery(text)
	if err != nil {
		return nil, urlError("its query is malformed", "?name=value&name=value; & is %26 in a value, % is %25")
	}
	if o.Prefix, err = takeOnce(query, "prefix"); err != nil {
		return nil, err
	}
	if err := store.CheckPrefix(o.Prefix); err != nil {
		return nil, fmt.Errorf("redis address: %w", err)
	}
	if err := o.parsePeeks(query); err != nil {
		return nil, err
	}
	p, err := credentials.Take(query, "")
	switch {
	case err != nil:
		return nil, fmt.Errorf("redis address: %w", err)
	case p.PasswordFile != "" && o.Password != "":
		return nil, urlError("it has a password and a password_file", "one of them")
	case o.TLS == nil && !p.TLS.IsZero():
		if _, others := query["sentinel_tls"]; !others {
			return nil, urlError("it says how to speak TLS, and not to speak it", "rediss:// in place of redis://, rediss+sentinel://, rediss+cluster://")
		}
		return nil, urlError("it says how to speak TLS with servers that speak none", "rediss+sentinel://, or sentinel_ before the name of what is for the sentinels")
	}
	o.PasswordFile, o.files = p.PasswordFile, p.TLS
	if o.TLS != nil {
		o.TLS = configOf(p.TLS)
	}
	return query, nil
}

// parsePeeks reads who answers peeks of operators.
func (o *Options) parsePeeks(query url.Values) error {
	const form = "peeks=replicas, peeks=primary, or for one Redis peeks=HOST:PORT,HOST:PORT"
	if _, given := query["peeks"]; !given {
		return nil
	}
	text, err := takeOnce(query, "peeks")
	switch {
	case err != nil:
		return err
	case text == "primary":
		return nil
	case text == "replicas":
		o.Replicas = new(Replicas)
		return nil
	case text == "replica" || text == "true" || text == "":
		return urlError("its peeks are neither of replicas nor of the primary", form)
	}
	addrs, err := splitHosts(text, defaultPort, form)
	if err != nil {
		return err
	}
	o.Replicas = &Replicas{Addrs: addrs}
	return nil
}

// configOf returns what is known of TLS before any file is read.
func configOf(f credentials.Files) *tls.Config {
	return &tls.Config{MinVersion: max(f.MinVersion, tls.VersionTLS12), ServerName: f.ServerName}
}

// takeOnce takes a value out of a query, "" where there is none.
func takeOnce(query url.Values, name string) (string, error) {
	list := query[name]
	delete(query, name)
	if len(list) == 0 {
		return "", nil
	}
	if len(list) > 1 {
		return "", urlError("it has "+name+" twice", "name it once")
	}
	return list[0], nil
}

// nothingElse refuses what is left of a query.
func nothingElse(query url.Values, form string) error {
	if len(query) == 0 {
		return nil
	}
	return urlError("its query has an unknown name", form+"; its query takes prefix, password_file, peeks, and with TLS ca, cert, key, server_name, min_tls")
}

// splitHosts reads HOST[:PORT],... into addresses; form is for the hint.
func splitHosts(list, port, form string) ([]string, error) {
	var addrs []string
	for text := range strings.SplitSeq(list, ",") {
		one := url.URL{Host: text}
		host, number := one.Hostname(), one.Port()
		if strings.ContainsAny(host, "[]@% ") || strings.Contains(host, ":") != strings.HasPrefix(text, "[") {
			return nil, urlError("it has a host that is no name or IP address", form)
		}
		if host == "" {
			return nil, urlError("it names no host", form)
		}
		number = cmp.Or(number, port)
		if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
			return nil, urlError("its port is not a number from 1 to 65535", form)
		}
		addrs = append(addrs, net.JoinHostPort(host, number))
	}
	if len(addrs) > MaxAddrs {
		return nil, urlError(fmt.Sprintf("it names %d hosts", len(addrs)), fmt.Sprintf("at most %d; the others are found", MaxAddrs))
	}
	return addrs, nil
}

func (o *Options) parseUnix(u *url.URL) error {
	if u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.Path == "/" {
		return urlError("it names no socket", "unix:///path/to/redis.sock, with three slashes")
	}
	query, err := o.parseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	db, err := takeOnce(query, "db")
	if err != nil {
		return err
	}
	if err := nothingElse(query, "unix:///path?db=N"); err != nil {
		return err
	}
	o.Network, o.Addr = "unix", u.Path
	return o.parseDB(db)
}

func (o *Options) parseDB(text string) error {
	if text == "" {
		return nil
	}
	db, err := strconv.ParseUint(text, 10, 64)
	if err != nil || db > maxDB {
		return urlError("its database is not a number", "redis://HOST:PORT/0, unix:///path?db=0")
	}
	o.DB = int(db)
	return nil
}
