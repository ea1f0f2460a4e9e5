package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

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
	protocol  protocol
	workloads []workload
	// axis is the table of costs against size that it belongs to, or checkTable; ""
	// is none, and then connections and streams are those of the settings.
	axis                 string
	connections, streams int
	// start starts it with its files in dir. What it returns is to be stopped
	// even when there is an error.
	start func(s settings, dir string) (*instance, error)
}

// instance is a system that runs.
type instance struct {
	servers []*server.Process
	redis   []*server.Redis // none without
	addrs   []string        // of the gRPC service, one of each server
	web     []string        // of Headgate's check API; none for others
	ops     []string        // of Headgate's metrics; none for others
	filled  bool            // all keys of the workloads with a rate are there
}

// stop ends all processes.
func (i *instance) stop() error {
	if i == nil {
		return nil
	}
	var errs []error
	for _, p := range i.servers {
		errs = append(errs, p.Stop())
	}
	for _, r := range i.redis {
		errs = append(errs, r.Stop())
	}
	return errors.Join(errs...)
}

// output is what the servers wrote.
func (i *instance) output() []byte {
	var all bytes.Buffer
	for _, p := range i.servers {
		all.Write(p.Output.Bytes())
	}
	return all.Bytes()
}

// launch starts one more server and waits until it listens.
func (i *instance) launch(addr, name, binary string, env []string, args ...string) error {
	p, err := server.Start(name, binary, env, args...)
	if err != nil {
		return err
	}
	i.servers, i.addrs = append(i.servers, p), append(i.addrs, addr)
	return p.WaitFor("tcp", addr)
}

// launchRedis starts a Redis for the servers.
func (i *instance) launchRedis(s settings, dir string) (*server.Redis, error) {
	r, err := server.StartRedis(s.redis, dir, s.redisUnix)
	if r != nil {
		i.redis = append(i.redis, r)
	}
	return r, err
}

var (
	one     = workload{descriptors: 1}
	three   = workload{descriptors: 3}
	oneOver = workload{descriptors: 1, over: true}
	closed  = []workload{one, three, oneOver}
	// paced are the workloads in which requests are due at set times.
	paced = []workload{{descriptors: 1, rate: 1000}, {descriptors: 1, rate: 5000}, {descriptors: 1, rate: 20_000}}
	// busy is asked for a part of what was answered before.
	busy = workload{descriptors: 1, load: 70}
	all  = slices.Concat(paced, closed, []workload{busy})
)

// systemsFor returns what is measured: Headgate, what transport alone costs, and
// the peers of which there is a binary.
func systemsFor(s settings) []system {
	switch {
	case s.check:
		return checkSystems()
	case s.scale != "":
		return scaleSystems(s.scale, s.full)
	}
	systems := []system{
		{name: constantName, protocol: envoy, workloads: slices.Concat(paced, []workload{one, three, busy}), start: startConstant},
		{name: "headgate, memory", protocol: envoy, workloads: all, start: headgate{}.start},
		{name: "headgate, memory, --grpc-transport grpc-go", protocol: envoy, workloads: closed, start: headgate{flags: grpcGo}.start},
		{name: "headgate, memory, --compat envoy", protocol: envoy, workloads: closed, start: headgate{flags: []string{"--compat", "envoy"}}.start},
		{name: "headgate, Redis", protocol: envoy, workloads: all, start: headgate{store: oneRedis}.start},
		{name: "headgate, Redis, --grpc-transport grpc-go", protocol: envoy, workloads: all, start: headgate{store: oneRedis, flags: grpcGo}.start},
		{name: "headgate, Redis, --compat envoy", protocol: envoy, workloads: closed, start: headgate{store: oneRedis, flags: []string{"--compat", "envoy"}}.start},
		{
			name: "headgate, Redis, denials kept to their end", protocol: envoy, workloads: []workload{oneOver},
			start: headgate{store: oneRedis, flags: []string{"--denial-memory", "1000000", "--denial-time", "24h"}}.start,
		},
	}
	return append(systems, peersFor(s)...)
}

var grpcGo = []string{"--grpc-transport", "grpc-go"}

func startConstant(_ settings, _ string) (*instance, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := server.FreeAddr()
	if err != nil {
		return nil, err
	}
	i := &instance{}
	return i, i.launch(addr, "constant server", self, nil, constantCommand, addr)
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

// headgate is how the real command is run.
type headgate struct {
	// store starts what the nodes count in and returns its URL; nil is memory.
	store func(i *instance, s settings, dir string) (string, error)
	// nodes is how many processes there are; 0 means one.
	nodes int
	flags []string
}

func oneRedis(i *instance, s settings, dir string) (string, error) {
	r, err := i.launchRedis(s, dir)
	if err != nil {
		return "", err
	}
	return r.URL(), nil
}

// shards is the size of the cluster.
const shards = 3

func cluster(i *instance, s settings, dir string) (url string, err error) {
	if i.redis, err = server.StartCluster(s.redis, dir, shards); err != nil {
		return "", err
	}
	return server.ClusterURL(i.redis), nil
}

func (h headgate) start(s settings, dir string) (*instance, error) {
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte(ruleFile), 0o600); err != nil {
		return nil, err
	}
	i, url := &instance{}, "memory://"
	if h.store != nil {
		var err error
		if url, err = h.store(i, s, dir); err != nil {
			return i, err
		}
	}
	for range max(h.nodes, 1) {
		addrs, err := freeAddrs()
		if err != nil {
			return i, err
		}
		args := append([]string{
			"serve", "--rules", rules, "--store", url, "--log-level", "warn",
			"--grpc-addr", addrs[0], "--ops-addr", addrs[1], "--http-addr", addrs[2],
		}, h.flags...)
		i.ops, i.web = append(i.ops, addrs[1]), append(i.web, addrs[2])
		if err := i.launch(addrs[0], "headgate", s.headgate, nil, args...); err != nil {
			return i, err
		}
	}
	return i, nil
}

// split returns host and port of an address for settings that want them apart.
func split(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(fmt.Sprintf("a free address %q has no port", addr)) // server.FreeAddr made it
	}
	return host, port
}
