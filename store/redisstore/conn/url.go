package conn

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
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
	if u.RawQuery != "" {
		return urlError("it has a query", "options are not given in the address; the database is its path: redis://HOST:PORT/DB")
	}
	o.Network, o.Addr = "tcp", addrs[0]
	if o.TLS != nil {
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
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return urlError("its query is malformed", form)
	}
	s := &Sentinel{Addrs: addrs, TLS: o.TLS.Clone()}
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "master":
			s.Master = value
		case "sentinel_user":
			s.Username = value
		case "sentinel_password":
			s.Password = value
		case "sentinel_tls":
			if value != "true" && value != "false" {
				return urlError("its sentinel_tls is neither true nor false", form+"&sentinel_tls=false")
			}
			s.TLS = nil
			if value == "true" {
				s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			}
		default:
			return urlError("its query has an unknown name", form+", and sentinel_user, sentinel_password, sentinel_tls")
		}
	}
	if s.Master == "" {
		return urlError("it names no primary", form)
	}
	o.Network, o.Sentinel = "tcp", s
	return o.parseDB(strings.TrimPrefix(u.Path, "/"))
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
	if u.RawQuery != "" {
		return urlError("it has a query", "options are not given in the address: "+form)
	}
	o.Network, o.Cluster = "tcp", addrs
	return nil
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
		if number == "" {
			number = port
		}
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
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return urlError("its query is malformed", "unix:///path?db=N")
	}
	for name := range query {
		if name != "db" {
			return urlError("its query has an unknown name", "unix:///path?db=N")
		}
	}
	o.Network, o.Addr = "unix", u.Path
	return o.parseDB(query.Get("db"))
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
