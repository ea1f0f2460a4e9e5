package testserver

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// SentinelConfig says what kind of a Redis under Sentinel a test needs. The zero
// value is three sentinels over a primary and a replica.
type SentinelConfig struct {
	// Name is what the sentinels call the primary; empty means "headgate".
	Name string
	// Sentinels is their number; 0 means 3. The quorum is their majority.
	Sentinels int
	// Replicas is the number of replicas; 0 means 1.
	Replicas int
	// Password is that of the Redis servers, SentinelPassword that of the
	// sentinels; empty means none.
	Password, SentinelPassword string
	// TLS has all of them speak TLS, and nothing else, with the same
	// certificates. Mutual has them want certificates of clients too.
	TLS, Mutual bool
	// DownAfter is how long the primary must be silent to count as down, and
	// FailoverTimeout what bounds a failover; 0 means 500 ms and 3 s, half of it
	// when Quick.
	DownAfter, FailoverTimeout time.Duration
	// Quick has the sentinels talk to each other and to the servers several times
	// as often as they do by default, so that they agree sooner.
	Quick bool
}

// SentinelServers are Redis servers that sentinels watch. Its methods are for
// the goroutine of the test.
type SentinelServers struct {
	// Name is what the sentinels call the primary.
	Name string
	// Nodes are the Redis servers; the first one began as the primary.
	Nodes []*RedisServer
	// Certificates are set with TLS.
	Certificates *Certificates

	t         testing.TB
	cfg       SentinelConfig
	sentinels []*RedisServer
}

// Sentinel starts the servers, waits until the sentinels know each other and
// all replicas, and stops them when the test ends.
func Sentinel(t testing.TB, cfg SentinelConfig) *SentinelServers {
	t.Helper()
	cfg.Name = cmp.Or(cfg.Name, "headgate")
	cfg.Sentinels = cmp.Or(cfg.Sentinels, 3)
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	cfg.DownAfter = cmp.Or(cfg.DownAfter, 500*time.Millisecond)
	if cfg.FailoverTimeout == 0 {
		cfg.FailoverTimeout = 3 * time.Second
		if cfg.Quick {
			// Sentinels that split their votes try again after twice that.
			cfg.FailoverTimeout /= 2
		}
	}
	s := &SentinelServers{Name: cfg.Name, t: t, cfg: cfg}
	if cfg.TLS {
		s.Certificates = NewCertificates(t)
		s.Certificates.Mutual = cfg.Mutual
	}
	// A replica copies at once, and not after the five seconds in which more of
	// them might ask.
	node := RedisConfig{
		Password: cfg.Password, TLS: cfg.TLS, Certificates: s.Certificates,
		Args: []string{"--repl-diskless-sync-delay", "0", "--repl-timeout", "5"},
	}
	for range 1 + cfg.Replicas {
		s.Nodes = append(s.Nodes, Redis(t, node))
		node.ReplicaOf = s.Nodes[0]
	}
	for _, replica := range s.Nodes[1:] {
		eventually.Nil(t, "replicate", replica.linked)
	}
	for range cfg.Sentinels {
		s.sentinels = append(s.sentinels, s.startSentinel())
	}
	for _, sentinel := range s.sentinels {
		eventually.Nil(t, "sentinels get to know each other", func() error { return s.complete(sentinel) })
	}
	return s
}

// startSentinel starts one sentinel on a free port.
func (s *SentinelServers) startSentinel() *RedisServer {
	s.t.Helper()
	sentinel := &RedisServer{
		t: s.t, binary: Binary(s.t, "redis-server"), Certificates: s.Certificates,
		cfg: RedisConfig{TLS: s.cfg.TLS, Password: s.cfg.SentinelPassword},
	}
	s.t.Cleanup(sentinel.Kill)
	startOnPort(s.t, "a sentinel", func(port int) {
		sentinel.port, sentinel.Addr = port, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		// A sentinel rewrites its file as it learns.
		sentinel.sentinelFile = filepath.Join(s.t.TempDir(), "sentinel.conf")
		if err := os.WriteFile(sentinel.sentinelFile, []byte(s.sentinelText(sentinel.port)), 0o600); err != nil {
			s.t.Fatalf("write the configuration of a sentinel: %v", err)
		}
	}, sentinel.start, sentinel.Kill)
	s.hasten(sentinel)
	return sentinel
}

// sentinelText returns the configuration of a sentinel on port.
func (s *SentinelServers) sentinelText(port int) string {
	var b strings.Builder
	line := func(words ...any) { fmt.Fprintln(&b, words...) }
	line("bind 127.0.0.1")
	line("dir", strconv.Quote(s.t.TempDir()))
	if s.cfg.TLS {
		line("port 0")
		line("tls-port", port)
		line("tls-cert-file", strconv.Quote(s.Certificates.CertFile))
		line("tls-key-file", strconv.Quote(s.Certificates.KeyFile))
		line("tls-ca-cert-file", strconv.Quote(s.Certificates.CAFile))
		line("tls-auth-clients", yesNo(s.Certificates.Mutual))
		line("tls-replication yes")
	} else {
		line("port", port)
	}
	if s.cfg.SentinelPassword != "" {
		line("requirepass", s.cfg.SentinelPassword)
		line("sentinel sentinel-pass", s.cfg.SentinelPassword)
	}
	line("sentinel monitor", s.Name, "127.0.0.1", s.Nodes[0].port, s.cfg.Sentinels/2+1)
	if s.cfg.Password != "" {
		line("sentinel auth-pass", s.Name, s.cfg.Password)
	}
	line("sentinel down-after-milliseconds", s.Name, s.cfg.DownAfter.Milliseconds())
	line("sentinel failover-timeout", s.Name, s.cfg.FailoverTimeout.Milliseconds())
	return b.String()
}

// hasten makes a sentinel quick if that is wanted. The words are those of Redis 7;
// with older servers it takes its time.
func (s *SentinelServers) hasten(sentinel *RedisServer) {
	if s.cfg.Quick {
		// What is known of a replica must be younger than five ping periods for it
		// to be promoted, and is asked for each second when the primary is down.
		_, _ = sentinel.Do("SENTINEL", "DEBUG", "publish-period", "200", "info-period", "500",
			"ping-period", "300", "ask-period", "100", "election-timeout", "1000",
			"slave-reconf-timeout", "500", "min-link-reconnect-period", "1000")
	}
}

// complete reports what a sentinel does not know yet.
func (s *SentinelServers) complete(sentinel *RedisServer) error {
	facts, err := s.facts(sentinel)
	if err != nil {
		return err
	}
	if replicas := facts["num-slaves"]; replicas != strconv.Itoa(s.cfg.Replicas) {
		return fmt.Errorf("%s knows %s replicas, not %d", sentinel.Addr, replicas, s.cfg.Replicas)
	}
	if others := facts["num-other-sentinels"]; others != strconv.Itoa(s.cfg.Sentinels-1) {
		return fmt.Errorf("%s knows %s other sentinels, not %d", sentinel.Addr, others, s.cfg.Sentinels-1)
	}
	return nil
}

// facts returns what a sentinel knows of the primary.
func (s *SentinelServers) facts(sentinel *RedisServer) (map[string]string, error) {
	answer, err := sentinel.Do("SENTINEL", "MASTER", s.Name)
	if err != nil {
		return nil, err
	}
	list, _ := answer.([]any)
	facts := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		facts[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return facts, nil
}

// Addrs returns the addresses of the sentinels, HOST:PORT, dead ones too.
func (s *SentinelServers) Addrs() []string {
	addrs := make([]string, len(s.sentinels))
	for i, sentinel := range s.sentinels {
		addrs[i] = sentinel.Addr
	}
	return addrs
}

// Sentinels returns the sentinels, to kill, freeze and restart them.
func (s *SentinelServers) Sentinels() []*RedisServer { return s.sentinels }

// Primary returns the server that more than half of the living sentinels name as
// the primary, whether it lives or not; nil if they do not agree so far.
func (s *SentinelServers) Primary() *RedisServer {
	votes, cast := map[string]int{}, 0
	best := ""
	for _, sentinel := range s.sentinels {
		answer, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)
		list, _ := answer.([]any)
		if err != nil || len(list) != 2 {
			continue
		}
		addr := net.JoinHostPort(fmt.Sprint(list[0]), fmt.Sprint(list[1]))
		cast++
		votes[addr]++
		if votes[addr] > votes[best] {
			best = addr
		}
	}
	for _, node := range s.Nodes {
		if node.Addr == best && 2*votes[best] > cast {
			return node
		}
	}
	return nil
}

// KillPrimary ends the primary with SIGKILL and returns it. It does not wait for
// another one.
func (s *SentinelServers) KillPrimary() *RedisServer {
	s.t.Helper()
	primary := s.WaitForPrimary(nil)
	primary.Kill()
	return primary
}

// DeposePrimary has the first sentinel promote a replica though the primary lives, and
// returns the old one when it has. A sentinel that finds too little time for that, as on a
// busy machine, gives up; then it is told again.
func (s *SentinelServers) DeposePrimary() *RedisServer {
	s.t.Helper()
	old := s.WaitForPrimary(nil)
	eventually.Nil(s.t, "depose a primary", func() error {
		facts, err := s.facts(s.sentinels[0])
		switch {
		case err != nil:
			return err
		case facts["port"] != strconv.Itoa(old.port):
			return nil
		case strings.Contains(facts["flags"], "failover_in_progress"):
			return errors.New("a failover is in progress")
		}
		if _, err = s.sentinels[0].Do("SENTINEL", "FAILOVER", s.Name); err == nil {
			err = errors.New("a failover has begun")
		}
		return err
	})
	return old
}

// WaitForPrimary waits until most sentinels name a primary other than not, and
// it is one, and returns it.
func (s *SentinelServers) WaitForPrimary(not *RedisServer) *RedisServer {
	s.t.Helper()
	var primary *RedisServer
	eventually.Nil(s.t, "wait for a primary", func() error {
		primary = s.Primary()
		switch {
		case primary == nil:
			return errors.New("the sentinels name none, or do not agree")
		case primary == not:
			return fmt.Errorf("the sentinels still name %s", not.Addr)
		}
		return primary.isPrimary()
	})
	return primary
}

// Restart starts a dead Redis server again, as a replica of the present primary,
// and waits until it has copied it and the sentinels could promote it.
func (s *SentinelServers) Restart(node *RedisServer) {
	s.t.Helper()
	node.restartAsReplica(s.WaitForPrimary(node))
	eventually.Nil(s.t, "replicate again", node.linked)
	eventually.Nil(s.t, "sentinels see the replica", func() error { return s.usable(node) })
}

// usable says why the sentinels would not promote a replica.
func (s *SentinelServers) usable(node *RedisServer) error {
	for _, sentinel := range s.sentinels {
		if !sentinel.alive() {
			continue
		}
		answer, err := sentinel.Do("SENTINEL", "REPLICAS", s.Name)
		if err != nil {
			return err
		}
		list, _ := answer.([]any)
		seen := false
		for _, replica := range list {
			text := " " + strings.Trim(fmt.Sprint(replica), "[]") + " "
			seen = seen || strings.Contains(text, " name "+node.Addr+" ") &&
				strings.Contains(text, " flags slave ") && strings.Contains(text, " master-link-status ok ")
		}
		if !seen {
			return fmt.Errorf("%s does not see %s as a replica yet", sentinel.Addr, node.Addr)
		}
	}
	return nil
}

// isPrimary says why s is not a primary that answers.
func (s *RedisServer) isPrimary() error {
	role, err := s.Info("replication", "role")
	if err == nil && role != "master" {
		err = fmt.Errorf("%s is a %s", s.Addr, role)
	}
	return err
}

// linked says why a replica is not up to date with its primary.
func (s *RedisServer) linked() error {
	status, err := s.Info("replication", "master_link_status")
	if err == nil && status != "up" {
		err = fmt.Errorf("the link of %s to its primary is %q", s.Addr, status)
	}
	return err
}

// RestartSentinel starts a dead sentinel again, with what it knew, and waits until
// it knows the others.
func (s *SentinelServers) RestartSentinel(sentinel *RedisServer) {
	s.t.Helper()
	sentinel.Restart()
	s.hasten(sentinel)
	eventually.Nil(s.t, "a sentinel finds the others", func() error { return s.complete(sentinel) })
}

// WaitForDemotion waits until a node that was the primary is a replica.
func (s *SentinelServers) WaitForDemotion(node *RedisServer) {
	s.t.Helper()
	eventually.Nil(s.t, "become a replica", func() error {
		role, err := node.Info("replication", "role")
		if err == nil && role != "slave" {
			err = fmt.Errorf("%s is a %s", node.Addr, role)
		}
		return err
	})
}

// WaitForReplica waits until a node that was the primary follows the present one.
func (s *SentinelServers) WaitForReplica(node *RedisServer) {
	s.t.Helper()
	eventually.Nil(s.t, "become a replica", node.linked)
	eventually.Nil(s.t, "sentinels see the replica", func() error { return s.usable(node) })
}

// Failovers returns how often another server has become the primary, as far as
// the sentinels know.
func (s *SentinelServers) Failovers() int {
	most := 0
	for _, sentinel := range s.sentinels {
		most = max(most, sentinel.said("+switch-master"))
	}
	return most
}
