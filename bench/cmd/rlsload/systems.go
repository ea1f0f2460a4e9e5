package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/headgate/headgate/bench/internal/server"
)

// Names of the systems that others are compared with.
const (
	constantName  = "grpc-go, answers a constant"
	ratelimitName = "envoyproxy/ratelimit"
)

// system is a server to measure.
type system struct {
	name      string
	workloads []workload
	// start starts it with its files in dir. What it returns is to be stopped
	// even when there is an error.
	start func(s settings, dir string) (*instance, error)
}

// instance is a system that runs.
type instance struct {
	server *server.Process
	redis  *server.Redis // nil without
	addr   string        // of the gRPC service
	ops    string        // of Headgate's metrics; "" for others
}

// stop ends all processes.
func (i *instance) stop() error {
	if i == nil {
		return nil
	}
	var errs []error
	if i.server != nil {
		errs = append(errs, i.server.Stop())
	}
	if i.redis != nil {
		errs = append(errs, i.redis.Stop())
	}
	return errors.Join(errs...)
}

var (
	one     = workload{descriptors: 1}
	three   = workload{descriptors: 3}
	oneOver = workload{descriptors: 1, over: true}
)

func systemsFor(s settings) []system {
	all := []workload{one, three, oneOver}
	systems := []system{
		{constantName, []workload{one, three}, startConstant},
		{"headgate, memory", all, headgateStarter(false)},
		{"headgate, memory, --grpc-transport h2", all, headgateStarter(false, "--grpc-transport", "h2")},
		{"headgate, memory, --compat envoy", all, headgateStarter(false, "--compat", "envoy")},
		{"headgate, Redis", all, headgateStarter(true)},
		{"headgate, Redis, --grpc-transport h2", all, headgateStarter(true, "--grpc-transport", "h2")},
		{"headgate, Redis, --compat envoy", all, headgateStarter(true, "--compat", "envoy")},
		{"headgate, Redis, denials kept to their end", []workload{oneOver}, headgateStarter(true, "--denial-memory", "1000000", "--denial-time", "24h")},
	}
	if s.ratelimit != "" {
		systems = append(systems,
			system{ratelimitName, all, ratelimitStarter()},
			system{ratelimitName + ", 100 MB cache", []workload{oneOver}, ratelimitStarter("LOCAL_CACHE_SIZE_IN_BYTES=100000000")},
		)
	}
	return systems
}

func startConstant(_ settings, _ string) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := server.FreeAddr()
	if err != nil {
		return nil, err
	}
	i := &instance{addr: addr}
	if i.server, err = server.Start("constant server", self, nil, constantCommand, addr); err != nil {
		return i, err
	}
	return i, i.server.WaitFor("tcp", addr)
}

// freeAddrs returns three different free addresses.
func freeAddrs() (a [3]string, err error) {
	var errs []error
	for i := range a {
		var err error
		a[i], err = server.FreeAddr()
		errs = append(errs, err)
	}
	return a, errors.Join(errs...)
}

// headgateStarter starts Headgate with a memory store, or with a Redis of its
// own.
func headgateStarter(withRedis bool, extra ...string) func(settings, string) (*instance, error) {
	return func(s settings, dir string) (*instance, error) {
		rules := filepath.Join(dir, "rules.yaml")
		if err := os.WriteFile(rules, []byte(ruleFile), 0o600); err != nil {
			return nil, err
		}
		addrs, err := freeAddrs()
		if err != nil {
			return nil, err
		}
		i := &instance{addr: addrs[0], ops: addrs[1]}
		store := "memory://"
		if withRedis {
			if i.redis, err = server.StartRedis(s.redis, dir, s.redisUnix); err != nil {
				return i, err
			}
			store = i.redis.URL()
		}
		args := append([]string{
			"serve", "--rules", rules, "--store", store, "--log-level", "warn",
			"--grpc-addr", addrs[0], "--ops-addr", addrs[1], "--http-addr", addrs[2],
		}, extra...)
		if i.server, err = server.Start("headgate", s.headgate, nil, args...); err != nil {
			return i, err
		}
		return i, i.server.WaitFor("tcp", i.addr)
	}
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
		i := &instance{addr: addrs[0]}
		if i.redis, err = server.StartRedis(s.redis, dir, s.redisUnix); err != nil {
			return i, err
		}
		env := append([]string{
			"RUNTIME_ROOT=" + filepath.Join(dir, "root"), "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
			"REDIS_SOCKET_TYPE=" + i.redis.Network, "REDIS_URL=" + i.redis.Addr,
			"USE_STATSD=false", "LOG_LEVEL=warn",
		}, extra...)
		for n, prefix := range []string{"GRPC_", "DEBUG_", ""} {
			host, port, err := net.SplitHostPort(addrs[n])
			if err != nil {
				return i, err
			}
			env = append(env, fmt.Sprintf("%sHOST=%s", prefix, host), fmt.Sprintf("%sPORT=%s", prefix, port))
		}
		if i.server, err = server.Start("ratelimit", s.ratelimit, env); err != nil {
			return i, err
		}
		return i, i.server.WaitFor("tcp", i.addr)
	}
}
