package conn

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

const primaryInfo = "# Replication\r\nrole:master\r\nconnected_slaves:4\r\n" +
	"slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0\r\n" +
	"slave1:ip=fd00::2,port=6380,state=online,offset=14,lag=1\r\n" +
	"slave2:ip=replica-3.internal,port=6379,state=wait_bgsave,offset=0,lag=0\r\n" +
	"slave3:ip=,port=6379,state=online\r\nslave4:ip=10.0.0.4,port=70000,state=online\r\nslave_count:none\r\n" +
	"master_replid:0123\r\n"

func TestReplicasOfAPrimary(t *testing.T) {
	if got, want := ReadReplicas(primaryInfo), []string{"10.0.0.2:6379", "[fd00::2]:6380"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func replicaInfo(status, heard, syncing string) string {
	return "# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_link_status:" + status + "\r\nmaster_last_io_seconds_ago:" + heard +
		"\r\nmaster_sync_in_progress:" + syncing + "\r\n"
}

func TestLinkOfAReplica(t *testing.T) {
	for _, c := range []struct {
		info  string
		heard time.Duration
		err   error
	}{
		{replicaInfo("up", "0", "0"), time.Second, nil},
		{replicaInfo("up", "9", "0"), 10 * time.Second, nil},
		{replicaInfo("down", "-1", "0"), 0, errUnlinked},
		{replicaInfo("down", "3", "0"), 0, errUnlinked},
		{replicaInfo("up", "3", "1"), 0, errUnlinked},
		{replicaInfo("up", "", "0"), 0, errUnlinked},
		{replicaInfo("up", "99999999999", "0"), 0, errUnlinked},
		{primaryInfo, 0, errNoReplica},
		{"", 0, errNoReplica},
	} {
		if heard, err := ReadLink(c.info); heard != c.heard || !errors.Is(err, c.err) {
			t.Errorf("%q: got %v and %v, want %v and %v", c.info, heard, err, c.heard, c.err)
		}
	}
}

// Whatever a server says, there are few replicas, with addresses; and an error where it has no
// link, or a second at least.
func FuzzReplication(f *testing.F) {
	f.Add(primaryInfo)
	f.Add(replicaInfo("up", "9", "0"))
	f.Fuzz(func(t *testing.T, info string) {
		addrs := ReadReplicas(info)
		if len(addrs) > MaxReplicas {
			t.Errorf("%d replicas", len(addrs))
		}
		for _, addr := range addrs {
			if i := strings.LastIndexByte(addr, ':'); i < 1 || i == len(addr)-1 {
				t.Errorf("%q is no address", addr)
			}
		}
		if heard, err := ReadLink(info); (err == nil) != (heard >= time.Second) {
			t.Errorf("heard %v, with %v", heard, err)
		}
	})
}

// A certificate is for the host that is dialled, unless one name was given for all.
func TestNameOfAReplica(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"rediss://primary.internal:6380", ""},
		{"rediss://primary.internal:6380?server_name=redis.internal", "redis.internal"},
	} {
		o, err := ParseURL(c.url)
		if err != nil {
			t.Fatal(err)
		}
		before := o.TLS.ServerName
		one := o.ReplicaAt("replica.internal:6380")
		if one.Addr != "replica.internal:6380" || one.TLS.ServerName != c.want || o.TLS.ServerName != before {
			t.Errorf("%s: %s for %q, and %q for the primary", c.url, one.Addr, one.TLS.ServerName, o.TLS.ServerName)
		}
	}
	plain := Options{Network: "unix", Addr: "/run/redis.sock"}
	if one := plain.ReplicaAt("replica:6379"); one.Network != "tcp" || one.TLS != (*tls.Config)(nil) {
		t.Errorf("%s %v", one.Network, one.TLS)
	}
}
