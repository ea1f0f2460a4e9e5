package envoyenv

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/store"
)

// variableOf returns a variable of the table.
func variableOf(name string) *variable {
	i := slices.IndexFunc(variables, func(v variable) bool { return v.name == name })
	return &variables[i]
}

func (r *reader) mapStores() {
	if err := store.CheckPrefix(r.get("CACHE_KEY_PREFIX")); err != nil {
		r.problems = append(r.problems, fmt.Errorf("CACHE_KEY_PREFIX: %w", err))
	}
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
	kind := r.choose(prefix+"TYPE", "SINGLE", "SENTINEL", "CLUSTER")
	addresses := []string{r.get(prefix + "URL")}
	if kind != "SINGLE" {
		addresses = strings.Split(addresses[0], ",")
	}
	master := ""
	if kind == "SENTINEL" {
		master, addresses = addresses[0], addresses[1:]
	}
	servers, ok := r.redisServers(prefix+"URL", addresses)
	if !ok {
		return ""
	}
	u, query := url.URL{Scheme: "redis", User: loginOf(r.get(prefix + "AUTH")).or(servers.login).userinfo()}, url.Values{}
	if r.is(prefix+"TLS") || servers.tls {
		u.Scheme = "rediss"
		r.tls("REDIS_TLS_", query)
	}
	switch kind {
	case "SENTINEL":
		r.sentinels(prefix, master, servers, &u, query)
	case "CLUSTER":
		r.cluster(prefix, servers, &u)
	default:
		r.single(prefix, servers, &u)
	}
	r.prefix(query)
	u.RawQuery = query.Encode()
	return u.String()
}

// sentinels completes the URL of sentinels. What their URLs have of a login is for them, and not
// for the servers that they know, as there.
func (r *reader) sentinels(prefix, master string, servers redisServers, u *url.URL, query url.Values) {
	if servers.hosts == "" || strings.Contains(master, ":") {
		r.refuse(prefix+"URL", "it does not name a primary and sentinels", "master,host:26379,host:26379")
	}
	if servers.database != 0 {
		r.refuse(prefix+"URL", "a sentinel has no database", "leave the database out: the servers behind sentinels count in database 0")
	}
	u.User = loginOf(r.get(prefix + "AUTH")).userinfo()
	u.Scheme, u.Host, u.Path = u.Scheme+"+sentinel", servers.hosts, "/0"
	query.Set("master", master)
	own := loginOf(r.get(prefix + "SENTINEL_AUTH")).or(servers.login)
	if own != (login{}) {
		query.Set("sentinel_password", own.password)
	}
	if own.name != "" {
		query.Set("sentinel_user", own.name)
	}
}

// cluster completes the URL of a cluster.
func (r *reader) cluster(prefix string, servers redisServers, u *url.URL) {
	if servers.database != 0 {
		r.refuse(prefix+"URL", "a cluster has only database 0", "leave the database out, or "+prefix+"TYPE=SINGLE")
	}
	u.Scheme, u.Host = u.Scheme+"+cluster", servers.hosts
}

// single completes the URL of one server.
func (r *reader) single(prefix string, server redisServers, u *url.URL) {
	if r.choose(prefix+"SOCKET_TYPE", "unix", "tcp", "tcp4", "tcp6") != "unix" {
		if !strings.Contains(server.hosts, ":") {
			r.refuse(prefix+"URL", "it is not set, or no host and port", "host:6379")
		}
		u.Host, u.Path = server.hosts, "/"+strconv.FormatUint(uint64(server.database), 10)
		return
	}
	if u.Scheme == "rediss" {
		r.refuse(prefix+"TLS", "there is no TLS on a socket of this machine", prefix+"SOCKET_TYPE=tcp, or leave it out")
	}
	if !path.IsAbs(server.hosts) {
		r.refuse(prefix+"URL", "the path of a socket is absolute", "an absolute path, or "+prefix+"SOCKET_TYPE=tcp for host:6379")
	}
	u.Scheme, u.Path = "unix", server.hosts
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
