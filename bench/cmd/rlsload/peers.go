package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// peersFor returns the systems of others of which s names a binary.
func peersFor(s settings) (systems []system) {
	if s.ratelimit != "" {
		systems = append(systems,
			system{name: ratelimitName, protocol: envoy, workloads: all, start: ratelimitStarter()},
			system{name: ratelimitName + ", 100 MB cache", protocol: envoy, workloads: []workload{oneOver}, start: ratelimitStarter("LOCAL_CACHE_SIZE_IN_BYTES=100000000")},
		)
	}
	if s.gubernator != "" {
		systems = append(systems, system{name: "gubernator, memory", protocol: gubernator, workloads: all, start: startGubernator})
	}
	if s.limitador != "" {
		systems = append(systems,
			system{name: "limitador, memory", protocol: envoy, workloads: all, start: limitadorStarter(false)},
			system{name: "limitador, Redis", protocol: envoy, workloads: all, start: limitadorStarter(true)},
		)
	}
	return systems
}

// ratelimitStarter starts envoyproxy/ratelimit as its documentation shows, with
// a Redis of its own and without statistics being sent anywhere.
func ratelimitStarter(extra ...string) func(settings, string) (*instance, error) {
	return func(s settings, dir string) (*instance, error) {
		config := filepath.Join(dir, "root", "ratelimit", "config")
		if err := os.MkdirAll(config, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(config, "rules.yaml"), []byte(ruleFile), 0o600); err != nil {
			return nil, err
		}
		addrs, err := freeAddrs()
		if err != nil {
			return nil, err
		}
		i := &instance{}
		r, err := i.launchRedis(s, dir)
		if err != nil {
			return i, err
		}
		env := append([]string{
			"RUNTIME_ROOT=" + filepath.Join(dir, "root"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
			"REDIS_SOCKET_TYPE=" + r.Network, "REDIS_URL=" + r.Addr,
			"USE_STATSD=false", "LOG_LEVEL=warn",
		}, extra...)
		for n, prefix := range []string{"GRPC_", "DEBUG_", ""} {
			host, port := split(addrs[n])
			env = append(env, fmt.Sprintf("%sHOST=%s", prefix, host), fmt.Sprintf("%sPORT=%s", prefix, port))
		}
		return i, i.launch(addrs[0], "ratelimit", s.ratelimit, env)
	}
}

// gubernatorCache is how many limits gubernator may hold: more than the 50,000
// of its default, or it would forget most keys of the workloads.
const gubernatorCache = 1_000_000

// startGubernator starts one gubernator, which counts in memory. It decides what it finds itself
// to own among its peers; so it has to join a list of them, of which it is the only one.
func startGubernator(s settings, _ string) (*instance, error) {
	addrs, err := freeAddrs()
	if err != nil {
		return nil, err
	}
	i := &instance{}
	return i, i.launch(addrs[0], "gubernator", s.gubernator, []string{
		"GUBER_GRPC_ADDRESS=" + addrs[0], "GUBER_HTTP_ADDRESS=" + addrs[1], "GUBER_ADVERTISE_ADDRESS=" + addrs[0],
		"GUBER_PEER_DISCOVERY_TYPE=member-list", "GUBER_MEMBERLIST_ADDRESS=" + addrs[2],
		"GUBER_MEMBERLIST_BIND_ADDRESS=" + addrs[2], "GUBER_MEMBERLIST_KNOWN_NODES=" + addrs[2],
		fmt.Sprintf("GUBER_CACHE_SIZE=%d", gubernatorCache), "GUBER_LOG_LEVEL=error", "OTEL_TRACES_EXPORTER=none",
	})
}

// limitadorLimits says in the words of limitador what ruleFile says of requests
// with up to three descriptors.
func limitadorLimits() string {
	var text string
	for _, kind := range []struct {
		prefix         string
		quota, seconds int
	}{{"", 1_000_000_000, 3600}, {"over_", 1, 86_400}} {
		for n, name := range names {
			text += fmt.Sprintf("- namespace: %s\n  max_value: %d\n  seconds: %d\n  conditions: []\n  variables: [\"descriptors[%d].%s%s\"]\n",
				domain, kind.quota, kind.seconds, n, kind.prefix, name)
		}
	}
	return text
}

// limitadorStarter starts limitador-server, in memory or with a Redis of its own.
func limitadorStarter(withRedis bool) func(settings, string) (*instance, error) {
	return func(s settings, dir string) (*instance, error) {
		limits := filepath.Join(dir, "limits.yaml")
		if err := os.WriteFile(limits, []byte(limitadorLimits()), 0o600); err != nil {
			return nil, err
		}
		addrs, err := freeAddrs()
		if err != nil {
			return nil, err
		}
		i, store := &instance{}, []string{"memory"}
		if withRedis {
			r, err := i.launchRedis(s, dir)
			if err != nil {
				return i, err
			}
			store = []string{"redis", "redis://" + r.Addr}
		}
		host, port := split(addrs[0])
		webHost, webPort := split(addrs[1])
		args := append([]string{
			"--rls-ip", host, "--rls-port", port, "--http-ip", webHost, "--http-port", webPort, limits,
		}, store...)
		return i, i.launch(addrs[0], "limitador", s.limitador, nil, args...)
	}
}
