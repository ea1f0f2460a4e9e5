package envoyenv

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// variableOf returns a variable of the table.
func variableOf(name string) *variable {
	i := slices.IndexFunc(variables, func(v variable) bool { return v.name == name })
	return &variables[i]
}

func (r *reader) mapStores() {
	if r.choose("BACKEND_TYPE", "redis", "memcache") == "memcache" {
		r.set("store", r.memcached(), r.given("MEMCACHE_", "CACHE_KEY_PREFIX", "BACKEND_TYPE")...)
		return
	}
	r.set("store", r.redis("REDIS_"), slices.DeleteFunc(r.given("REDIS_", "CACHE_KEY_PREFIX"), func(name string) bool {
		return strings.HasPrefix(name, "REDIS_PERSECOND")
	})...)
	if r.is("REDIS_PERSECOND") {
		r.set("store-per-second", r.redis("REDIS_PERSECOND_"), r.given("REDIS_PERSECOND_", "REDIS_TLS_", "CACHE_KEY_PREFIX")...)
	}
}

// given returns the variables that were given whose names begin with one of the prefixes.
func (r *reader) given(prefixes ...string) (names []string) {
	for i := range variables {
		name := variables[i].name
		if r.values[name] != "" && slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			names = append(names, name)
		}
	}
	return names
}

// redis returns the URL of the Redis that variables with a prefix describe.
func (r *reader) redis(prefix string) string {
	u, query := url.URL{Scheme: "redis"}, url.Values{}
	if r.is(prefix + "TLS") {
		u.Scheme = "rediss"
		r.tls("REDIS_TLS_", query)
	}
	where, login := r.get(prefix+"URL"), userOf(r.get(prefix+"AUTH"))
	// The form of the library that is used there: a URL of one server. (redis:6379 is a host.)
	if parsed, err := url.Parse(where); err == nil && parsed.Host != "" && strings.HasPrefix(parsed.Scheme, "redis") {
		if where = parsed.Host; login == nil {
			login = parsed.User
		}
		if parsed.Scheme == "rediss" {
			u.Scheme = "rediss"
		}
	}
	switch r.choose(prefix+"TYPE", "SINGLE", "SENTINEL", "CLUSTER") {
	case "SENTINEL":
		master, sentinels, ok := strings.Cut(where, ",")
		if !ok || strings.Contains(master, ":") {
			r.refuse(prefix+"URL", "it does not name a primary and sentinels", "master,host:26379,host:26379")
		}
		u.Scheme, u.Host, u.Path = u.Scheme+"+sentinel", sentinels, "/0"
		query.Set("master", master)
		if sentinel := userOf(r.get(prefix + "SENTINEL_AUTH")); sentinel != nil {
			password, _ := sentinel.Password()
			query.Set("sentinel_password", password)
			if name := sentinel.Username(); name != "" {
				query.Set("sentinel_user", name)
			}
		}
	case "CLUSTER":
		u.Scheme, u.Host = u.Scheme+"+cluster", where
	default:
		r.single(prefix, where, &u)
	}
	u.User = login
	r.prefix(query)
	u.RawQuery = query.Encode()
	return u.String()
}

// single completes the URL of one server.
func (r *reader) single(prefix, where string, u *url.URL) {
	if r.choose(prefix+"SOCKET_TYPE", "unix", "tcp", "tcp4", "tcp6") != "unix" {
		if !strings.Contains(where, ":") {
			r.refuse(prefix+"URL", "it is not set, or no host and port", "host:6379")
		}
		u.Host, u.Path = where, "/0"
		return
	}
	if u.Scheme == "rediss" {
		r.refuse(prefix+"TLS", "there is no TLS on a socket of this machine", prefix+"SOCKET_TYPE=tcp, or leave it out")
	}
	if !path.IsAbs(where) {
		r.refuse(prefix+"URL", "the path of a socket is absolute", "an absolute path, or "+prefix+"SOCKET_TYPE=tcp for host:6379")
	}
	u.Scheme, u.Path = "unix", where
}

// userOf reads a password, or a name and a password with a colon between; nil is none.
func userOf(auth string) *url.Userinfo {
	if auth == "" {
		return nil
	}
	name, password, ok := strings.Cut(auth, ":")
	if !ok {
		name, password = "", auth
	}
	return url.UserPassword(name, password)
}

// tls adds the files of a store's TLS.
func (r *reader) tls(prefix string, query url.Values) {
	for parameter, name := range map[string]string{"cert": "CLIENT_CERT", "key": "CLIENT_KEY", "ca": "CACERT"} {
		if file := r.get(prefix + name); file != "" {
			query.Set(parameter, file)
		}
	}
	if r.is(prefix + "SKIP_HOSTNAME_VERIFICATION") {
		r.refuse(prefix+"SKIP_HOSTNAME_VERIFICATION", "a store is always verified", "HEADGATE_STORE with ?server_name=NAME, where the certificate is for another name")
	}
}

func (r *reader) prefix(query url.Values) {
	if prefix := r.get("CACHE_KEY_PREFIX"); prefix != "" {
		query.Set("prefix", prefix)
	}
}

func (r *reader) memcached() string {
	if r.get("MEMCACHE_SRV") != "" {
		r.refuse("MEMCACHE_SRV", "servers are not looked up by SRV records", "MEMCACHE_HOST_PORT=host:11211,host:11211")
	}
	u, query := url.URL{Scheme: "memcached", Host: r.get("MEMCACHE_HOST_PORT")}, url.Values{}
	if u.Host == "" {
		r.refuse("MEMCACHE_HOST_PORT", "no server is named", "host:11211,host:11211")
	}
	if r.is("MEMCACHE_TLS") {
		query.Set("tls", "true")
		r.tls("MEMCACHE_TLS_", query)
	}
	r.prefix(query)
	u.RawQuery = query.Encode()
	return u.String()
}
