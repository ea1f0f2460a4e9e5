package envoyenv

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
)

// login is a name and a password, either of which may be "".
type login struct{ name, password string }

// loginOf reads a password, or a name and a password with a colon between.
func loginOf(auth string) login {
	name, password, ok := strings.Cut(auth, ":")
	if !ok {
		return login{password: auth}
	}
	return login{name, password}
}

// or fills in what l leaves out.
func (l login) or(other login) login {
	return login{cmp.Or(l.name, other.name), cmp.Or(l.password, other.password)}
}

// userinfo is l as a part of a URL; nil is none.
func (l login) userinfo() *url.Userinfo {
	if l == (login{}) {
		return nil
	}
	return url.UserPassword(l.name, l.password)
}

// redisServers are those that a REDIS_URL names.
type redisServers struct {
	// hosts are their addresses, with commas between; a path where there is a socket.
	hosts string
	// login is that of the URLs, the zero value where none has one.
	login
	// database is its number; 0 where no URL names one.
	database uint32
	// tls is whether a URL asks for it. The library that is used there knows no such URL.
	tls bool
}

// redisServers reads a list of addresses that variable name has. Each is one that the
// other service dials as it is, or a URL as its library takes it. It is not ok where one
// was refused.
func (r *reader) redisServers(name string, addresses []string) (all redisServers, ok bool) {
	hosts := make([]string, len(addresses))
	for i, address := range addresses {
		one, problem, hint := redisServer(address)
		if problem == "" && one.login != (login{}) && all.login != (login{}) && one.login != all.login {
			problem, hint = "its URLs have different users or passwords", "the same in all of them, or "+strings.TrimSuffix(name, "URL")+"AUTH"
		}
		if problem != "" {
			r.refuse(name, problem, hint)
			return all, false
		}
		hosts[i], all.login = one.hosts, all.or(one.login)
		all.database, all.tls = max(all.database, one.database), all.tls || one.tls
	}
	all.hosts = strings.Join(hosts, ",")
	return all, true
}

// redisServer reads one address, or says what is wrong with it and what would be right. It
// does not quote the address, which may hold a password.
func redisServer(address string) (server redisServers, problem, hint string) {
	scheme, _, ok := strings.Cut(address, "://")
	if !ok {
		return redisServers{hosts: address}, "", ""
	}
	if scheme != "redis" && scheme != "rediss" {
		return server, "its URL is of no Redis", "host:6379 or redis://user:password@host:6379/0; HEADGATE_STORE takes the URLs of Headgate's own"
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return server, "it does not have the form of a URL", "redis://user:password@host:6379/0; percent-encode special characters of the password: @ is %40, / is %2F, # is %23, % is %25"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return server, "the query of its URL is malformed", "?db=0; & is %26 in a value, % is %25"
	}
	for parameter := range query {
		if parameter != "db" && parameter != "username" && parameter != "password" {
			return server, "its URL has a parameter that is not carried over", "db, username and password, or HEADGATE_STORE with what Headgate's own URLs take"
		}
	}
	server = redisServers{hosts: u.Host, tls: scheme == "rediss"}
	password, _ := u.User.Password()
	server.login = login{u.User.Username(), password}.or(login{query.Get("username"), query.Get("password")})
	// A path wins over a parameter there.
	if text := cmp.Or(strings.TrimPrefix(u.Path, "/"), query.Get("db")); text != "" {
		database, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return server, "the database of its URL is not a number", "redis://host:6379/0"
		}
		server.database = uint32(database)
	}
	return server, "", ""
}
