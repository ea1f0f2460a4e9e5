package conn

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/store"
)

// The error replies of Redis 5 to 8, Valkey and the managed ones, word by word.
func TestErrorReplies(t *testing.T) {
	for text, want := range map[string]store.Reason{
		"NOAUTH Authentication required.": store.Denied,
		"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user>": store.Denied,
		"WRONGPASS invalid username-password pair or user is disabled.":                                              store.Denied,
		"NOPERM this user has no permissions to run the 'evalsha' command":                                           store.Denied,
		"NOPERM No permissions to access a key script: 5f, on @user_script:10.":                                      store.Denied,
		"ERR The user executing the script can't run this command or subcommand script: 5f, on @user_script:9.":      store.Denied,
		"ERR invalid password":                         store.Denied,
		"ERR Client sent AUTH, but no password is set": store.Denied,
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?":     store.Denied,
		"DENIED Redis is running in protected mode because protected mode is enabled":                                                      store.Denied,
		"OOM command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:9.":                                           store.Full,
		"ERR Error running script (call to f_5f): @user_script:9: -OOM command not allowed when used memory > 'maxmemory'.":                store.Full,
		"READONLY You can't write against a read only replica.":                                                                            store.ReadOnly,
		"ERR Error running script (call to f_5f): @user_script:9: @user_script: 9: -READONLY You can't write against a read only replica.": store.ReadOnly,
		"LOADING Redis is loading the dataset in memory":                                                                                   store.Loading,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                                 store.Unavailable,
		"CLUSTERDOWN The cluster is down":                                                                                        store.Unavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                store.Unavailable,
		"NOREPLICAS Not enough good replicas to write.":                                                                          store.Unavailable,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.":                                 store.Unavailable,
		"ERR max number of clients reached":                                                                                      store.Unavailable,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":                       store.Misconfigured,
		"MOVED 3999 127.0.0.1:6381":                                                                                              store.Misconfigured,
		"CROSSSLOT Keys in request don't hash to the same slot":                                                                  store.Misconfigured,
		"ERR unknown command 'EVALSHA', with args beginning with: '5f' '1'":                                                      store.Misconfigured,
		"ERR Unknown Redis command called from script script: 5f, on @user_script:9.":                                            store.Misconfigured,
		"ERR Unknown command called from script script: 5f, on @user_script:9.":                                                  store.Misconfigured, // Valkey
		"ERR Error running script (call to f_5f): @user_script:9: @user_script: 9: Unknown Redis command called from Lua script": store.Misconfigured,
		"ERR DB index is out of range":                                                                                           store.Misconfigured,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 5f, on @user_script:1.":                       store.Misconfigured,
	} {
		if a, ok := answerOf(text); !ok || a.reason != want || a.hint == "" {
			t.Errorf("%q: %s, want %s", text, a.reason, want)
		}
	}
	for _, text := range []string{"", "ERR", "ERR syntax error", "ERR the READONLY word in the middle", "ASKING"} {
		if a, ok := answerOf(text); ok {
			t.Errorf("%q: %s", text, a.reason)
		}
	}
}

// A cluster that refuses all slots for the sake of one has a setting for that; one that lacks the
// slot has none.
func TestClusterDownHints(t *testing.T) {
	for text, want := range map[string]bool{
		"CLUSTERDOWN The cluster is down":                                true,
		"CLUSTERDOWN The cluster is down and only accepts read commands": true,
		"CLUSTERDOWN Hash slot not served":                               false,
	} {
		reason, hint := Classify(ScriptError(text))
		if got := strings.Contains(hint, "cluster-require-full-coverage"); got != want || reason != store.Unavailable {
			t.Errorf("%s: %s, %s", text, reason, hint)
		}
	}
}

// A server that quotes our arguments back does not make us print the password.
// What redis.pcall gives a script is classified as what ends one, also where its text begins with
// the place in the script, as before Redis 7.
func TestScriptErrors(t *testing.T) {
	for text, want := range map[string]store.Reason{
		"OOM command not allowed when used memory > 'maxmemory'.":                     store.Full,
		"@user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.":   store.Full,
		"WRONGTYPE Operation against a key holding the wrong kind of value":           store.Misconfigured,
		"@user_script: 5: -NOREPLICAS Not enough good replicas to write.":             store.Unavailable,
		"@user_script: 5: Wrong number of args calling Redis command From Lua script": store.Internal,
	} {
		if got, _ := Classify(ScriptError(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestFaultHidesThePassword(t *testing.T) {
	o := Options{Network: "tcp", Addr: "host:1", Password: "secret"}
	fault := o.Fault("dial", errors.New("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'secret'"))
	if strings.Contains(fault.Error(), "secret") {
		t.Error(fault)
	}
}

// Who has given the address of a replica has to give another one; who has given those of sentinels
// or of a cluster has not.
func TestHintsOfReplicas(t *testing.T) {
	for want, o := range map[string]Options{
		"give the address of the primary": {Network: "tcp", Addr: "host:1"},
		"the sentinels name a replica":    {Network: "tcp", Addr: "host:1", Sentinel: &Sentinel{Addrs: []string{"host:2"}, Master: "m"}},
		"a node has become a replica":     {Network: "tcp", Addr: "host:1", Cluster: []string{"host:1"}},
	} {
		for _, err := range []error{
			errReplica, ScriptError("READONLY You can't write against a read only replica."),
			ScriptError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
		} {
			if fault := o.Fault("take", err); !strings.Contains(fault.Hint, want) || strings.Contains(fault.Hint, hintPrimary) != (o.Topology() == OneServer) {
				t.Errorf("%v of %v: %q, want %q", err, o, fault.Hint, want)
			}
		}
	}
}
