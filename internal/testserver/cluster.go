package testserver

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// ClusterConfig says what kind of Redis Cluster a test needs. The zero value is
// three primaries with a replica each.
type ClusterConfig struct {
	// Primaries is the number of shards; 0 means 3. Fewer cannot agree on a
	// failover.
	Primaries int
	// NoReplicas leaves the replicas out.
	NoReplicas bool
	// Password is that of the servers; empty means none.
	Password string
	// TLS has all of them speak TLS, and nothing else, with the same
	// certificates. Mutual has them want certificates of clients too.
	TLS, Mutual bool
	// NodeTimeout is how long a node must be silent to count as down; 0 means
	// 2 s, so that one on a busy machine does not.
	NodeTimeout time.Duration
	// Args are further arguments of the servers.
	Args []string
}

// ClusterServers are the nodes of a Redis Cluster. Its methods are for the
// goroutine of the test.
type ClusterServers struct {
	// Nodes are all servers: first those that began as primaries, the i-th with
	// the i-th part of the slots, then their replicas in the same order.
	Nodes []*RedisServer
	// Certificates are set with TLS.
	Certificates *Certificates

	t      testing.TB
	shards int
}

// Cluster starts the servers, joins them, waits until all of them agree, and
// stops them when the test ends. A shard that is down leaves the slots of the
// others served.
func Cluster(t testing.TB, cfg ClusterConfig) *ClusterServers {
	t.Helper()
	cfg.Primaries = cmp.Or(cfg.Primaries, 3)
	cfg.NodeTimeout = cmp.Or(cfg.NodeTimeout, 2*time.Second)
	c := &ClusterServers{t: t, shards: cfg.Primaries}
	if cfg.TLS {
		c.Certificates = NewCertificates(t)
		c.Certificates.Mutual = cfg.Mutual
	}
	count := 2 * cfg.Primaries
	if cfg.NoReplicas {
		count = cfg.Primaries
	}
	for range count {
		c.Nodes = append(c.Nodes, c.startNode(cfg))
	}
	c.join()
	return c
}

// startNode starts one node that knows no other.
func (c *ClusterServers) startNode(cfg ClusterConfig) *RedisServer {
	c.t.Helper()
	args := []string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-port", strconv.Itoa(FreePort(c.t)),
		"--cluster-node-timeout", strconv.FormatInt(cfg.NodeTimeout.Milliseconds(), 10),
		"--cluster-require-full-coverage", "no",
		// Replicas may always take over, and stay where they are.
		"--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no",
		"--repl-diskless-sync-delay", "0",
		// Failovers are found in the log.
		"--loglevel", "notice",
	}
	if cfg.TLS {
		args = append(args, "--tls-cluster", "yes")
	}
	return Redis(c.t, RedisConfig{
		Password: cfg.Password, TLS: cfg.TLS, Certificates: c.Certificates, Args: append(args, cfg.Args...),
	})
}

// join makes the nodes know each other, gives out the slots and the replicas.
func (c *ClusterServers) join() {
	c.t.Helper()
	for i, node := range c.Nodes {
		node.MustDo("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < c.shards {
			first, last := i*slots/c.shards, (i+1)*slots/c.shards-1
			node.MustDo("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		}
		for _, other := range c.Nodes[:i] {
			node.MustDo("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port), other.busPort())
		}
	}
	for _, node := range c.Nodes {
		eventually.Nil(c.t, "nodes get to know each other", func() error {
			return clusterInfo(node, "cluster_known_nodes", strconv.Itoa(len(c.Nodes)))
		})
	}
	for i, replica := range c.Nodes[c.shards:] {
		eventually.Nil(c.t, "make replicas", func() error {
			_, err := replica.Do("CLUSTER", "REPLICATE", c.id(c.Nodes[i]))
			return err
		})
	}
	c.WaitHealthy()
}

// busPort returns the port of a node on which nodes talk to each other.
func (s *RedisServer) busPort() string {
	return s.cfg.Args[slices.Index(s.cfg.Args, "--cluster-port")+1]
}

// clusterInfo says why a field of CLUSTER INFO is not as wanted.
func clusterInfo(node *RedisServer, field, want string) error {
	answer, err := node.Do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if got := infoField(fmt.Sprint(answer), field); got != want {
		return fmt.Errorf("%s of %s is %s, not %s", field, node.Addr, got, want)
	}
	return nil
}

// id returns the name that the cluster has for a living node.
func (c *ClusterServers) id(node *RedisServer) string {
	c.t.Helper()
	return fmt.Sprint(node.MustDo("CLUSTER", "MYID"))
}

// Addrs returns the addresses of all nodes, HOST:PORT, dead ones too.
func (c *ClusterServers) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr
	}
	return addrs
}

// WaitHealthy waits until every node runs and agrees with the others on who
// serves what, and every replica is up to date.
func (c *ClusterServers) WaitHealthy() {
	c.t.Helper()
	eventually.Nil(c.t, "the cluster settles", func() error {
		for _, node := range c.Nodes {
			if err := clusterInfo(node, "cluster_state", "ok"); err != nil {
				return err
			}
			if err := clusterInfo(node, "cluster_slots_ok", strconv.Itoa(slots)); err != nil {
				return err
			}
			if role, err := node.Info("replication", "role"); err != nil {
				return err
			} else if role == "slave" {
				if err := node.linked(); err != nil {
					return err
				}
			}
		}
		return c.agreed()
	})
}

// agreed says which living node has another view of the slots than the first.
func (c *ClusterServers) agreed() error {
	var first []slotRange
	for _, node := range c.Nodes {
		if !node.alive() {
			continue
		}
		view, err := slotRanges(node)
		if err != nil {
			return err
		}
		if first == nil {
			first = view
		} else if !slices.Equal(first, view) {
			return fmt.Errorf("%s sees other primaries than the rest", node.Addr)
		}
	}
	return nil
}

// slotRange is a row of CLUSTER SLOTS.
type slotRange struct {
	first, last int
	primary     string // HOST:PORT
}

// slotRanges returns the view of one node, in the order of the slots.
func slotRanges(node *RedisServer) ([]slotRange, error) {
	answer, err := node.Do("CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	rows, _ := answer.([]any)
	var view []slotRange
	for _, row := range rows {
		parts, _ := row.([]any)
		if len(parts) < 3 {
			return nil, fmt.Errorf("unexpected answer to CLUSTER SLOTS: %v", row)
		}
		first, ok1 := parts[0].(int64)
		last, ok2 := parts[1].(int64)
		primary, ok3 := parts[2].([]any)
		if !ok1 || !ok2 || !ok3 || len(primary) < 2 {
			return nil, fmt.Errorf("unexpected answer to CLUSTER SLOTS: %v", row)
		}
		addr := net.JoinHostPort(fmt.Sprint(primary[0]), fmt.Sprint(primary[1]))
		view = append(view, slotRange{int(first), int(last), addr})
	}
	slices.SortFunc(view, func(a, b slotRange) int { return cmp.Compare(a.first, b.first) })
	return view, nil
}

// node returns the node at an address.
func (c *ClusterServers) node(addr string) *RedisServer {
	for _, node := range c.Nodes {
		if node.Addr == addr {
			return node
		}
	}
	return nil
}

// slotOwner returns the primary of a slot, in the view that all living nodes
// share.
func (c *ClusterServers) slotOwner(slot int) (*RedisServer, error) {
	var owner *RedisServer
	for _, node := range c.Nodes {
		if !node.alive() {
			continue
		}
		view, err := slotRanges(node)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(view, func(r slotRange) bool { return r.first <= slot && slot <= r.last })
		if i < 0 {
			return nil, fmt.Errorf("%s says that nobody serves slot %d", node.Addr, slot)
		}
		seen := c.node(view[i].primary)
		if seen == nil || owner != nil && owner != seen {
			return nil, fmt.Errorf("the nodes disagree on slot %d", slot)
		}
		owner = seen
	}
	if owner == nil {
		return nil, errors.New("no node lives")
	}
	return owner, nil
}

// SlotOwner returns the primary of a slot once the living nodes agree on it.
func (c *ClusterServers) SlotOwner(slot int) *RedisServer { return c.WaitForPrimary(slot, nil) }

// WaitForPrimary waits until all living nodes agree that a slot has a primary
// other than not, and returns it.
func (c *ClusterServers) WaitForPrimary(slot int, not *RedisServer) *RedisServer {
	c.t.Helper()
	var owner *RedisServer
	eventually.Nil(c.t, fmt.Sprintf("wait for a primary of slot %d", slot), func() error {
		var err error
		owner, err = c.slotOwner(slot)
		switch {
		case err != nil:
			return err
		case owner == not:
			return fmt.Errorf("it is still %s", not.Addr)
		}
		return owner.isPrimary()
	})
	return owner
}

// FirstSlot returns the first slot that shard i began with.
func (c *ClusterServers) FirstSlot(i int) int { return i * slots / c.shards }

// Primaries returns the primary of each shard: of the slot with which it began.
func (c *ClusterServers) Primaries() []*RedisServer {
	c.t.Helper()
	primaries := make([]*RedisServer, c.shards)
	for i := range primaries {
		primaries[i] = c.SlotOwner(c.FirstSlot(i))
	}
	return primaries
}

// KillPrimary ends the primary of shard i with SIGKILL and returns it. It does
// not wait for another one.
func (c *ClusterServers) KillPrimary(i int) *RedisServer {
	c.t.Helper()
	primary := c.SlotOwner(c.FirstSlot(i))
	primary.Kill()
	return primary
}

// Failovers returns how often a replica has taken the place of its primary.
func (c *ClusterServers) Failovers() int {
	n := 0
	for _, node := range c.Nodes {
		n += node.said("Failover election won")
	}
	return n
}

// Restart starts a dead node again and waits until the cluster is whole; where
// its replica has taken over meanwhile, it becomes a replica of that.
func (c *ClusterServers) Restart(node *RedisServer) {
	c.t.Helper()
	node.Restart()
	c.WaitHealthy()
}

// SlotMove is the move of one slot from one primary to another, step by step:
// Begin, MoveKeys until none is left, Finish.
type SlotMove struct {
	cluster  *ClusterServers
	slot     int
	from, to *RedisServer
}

// MoveSlot prepares the move of a slot; nothing changes before Begin.
func (c *ClusterServers) MoveSlot(slot int, from, to *RedisServer) *SlotMove {
	return &SlotMove{cluster: c, slot: slot, from: from, to: to}
}

// Begin marks the slot as being moved: from now on its old primary answers ASK
// for keys that it does not hold.
func (m *SlotMove) Begin() {
	m.cluster.t.Helper()
	slot := strconv.Itoa(m.slot)
	m.to.MustDo("CLUSTER", "SETSLOT", slot, "IMPORTING", m.cluster.id(m.from))
	m.from.MustDo("CLUSTER", "SETSLOT", slot, "MIGRATING", m.cluster.id(m.to))
}

// MoveKeys moves up to most keys and returns how many there were to move, at
// most that many; 0 says that the old primary has none left.
func (m *SlotMove) MoveKeys(most int) int {
	m.cluster.t.Helper()
	answer := m.from.MustDo("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.slot), strconv.Itoa(most))
	keys, _ := answer.([]any)
	if len(keys) == 0 {
		return 0
	}
	words := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.port), "", "0", "1000"}
	if password := m.from.cfg.Password; password != "" {
		words = append(words, "AUTH", password)
	}
	words = append(words, "KEYS")
	for _, key := range keys {
		words = append(words, fmt.Sprint(key))
	}
	m.from.MustDo(words...)
	return len(keys)
}

// Finish gives the slot to its new primary and tells all primaries.
func (m *SlotMove) Finish() {
	m.cluster.t.Helper()
	slot, id := strconv.Itoa(m.slot), m.cluster.id(m.to)
	m.to.MustDo("CLUSTER", "SETSLOT", slot, "NODE", id)
	m.from.MustDo("CLUSTER", "SETSLOT", slot, "NODE", id)
	for _, node := range m.cluster.Nodes {
		if node.alive() && node != m.to && node != m.from && node.isPrimary() == nil {
			node.MustDo("CLUSTER", "SETSLOT", slot, "NODE", id)
		}
	}
}

// MigrateSlot moves a slot in whole, a few keys at a time.
func (c *ClusterServers) MigrateSlot(slot int, from, to *RedisServer) {
	c.t.Helper()
	m := c.MoveSlot(slot, from, to)
	m.Begin()
	for m.MoveKeys(10) > 0 {
	}
	m.Finish()
}

// KeySlot returns the slot of a key: of the part between the first { and the
// next }, if there is something between them.
func KeySlot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
