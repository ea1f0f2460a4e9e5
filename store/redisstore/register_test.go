package redisstore

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
	"github.com/headgate/headgate/store/storetest"
)

func TestRegisterConformance(t *testing.T) { storetest.RunRegister(t, openClocked) }

func TestRegisterInACluster(t *testing.T) {
	servers := testserver.Cluster(t, testserver.ClusterConfig{NoReplicas: true})
	storetest.RunRegister(t, func(t *testing.T) storetest.Harness { return clocked(t, openEmptied(t, servers)) })
}

// What is no register is an error, and nothing that anybody would obey.
func TestRegisterErrors(t *testing.T) {
	s, server := openRedis(t)
	key := conn.DefaultPrefix + "register:a"
	for _, bad := range [][]string{{"SET", key, "x"}, {"HSET", key, "version", "one", "text", "x"}, {"HSET", key, "version", "-1"}, {"HSET", key, "version", "7"}} {
		command(t, s, "DEL", key)
		command(t, s, bad...)
		if version, text, err := s.ReadRegister(t.Context(), "a", 0); err == nil {
			t.Errorf("%q: version %d, %q", bad, version, text)
		}
	}
	command(t, s, "DEL", key)
	if done, err := s.ReplaceRegister(t.Context(), "a", 0, 1, []byte("x")); !done || err != nil {
		t.Errorf("%t, %v", done, err)
	}
	if ttl := command(t, s, "PTTL", key); ttl != "-1" {
		t.Errorf("it lives for %s ms", ttl)
	}
	server.Kill()
	if _, _, err := s.ReadRegister(t.Context(), "a", 1); store.ReasonOf(err) == "" {
		t.Errorf("a Redis that is gone: %v", err)
	}
}

// A user with the commands that hints name may do all that a fleet does: count its nodes,
// post, and keep switches.
func TestHintedUserMayDoAll(t *testing.T) {
	_, hint := conn.Classify(&resp.Error{Text: "NOPERM this user has no permissions to run the command"})
	commands := strings.Join(regexp.MustCompile(`\+[a-z]+`).FindAllString(strings.Split(hint, ", in a cluster")[0], -1), " ")
	server := testserver.Redis(t, testserver.RedisConfig{Users: []string{"user default off", "user app on >secret ~hg:* " + commands}})
	o, err := ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.Username, o.Password = "app", "secret"
	s := open(t, o)
	if done, err := s.ReplaceRegister(t.Context(), "a", 0, 1, []byte("x")); !done || err != nil {
		t.Errorf("replace: %t, %v; with %s", done, err, commands)
	}
	if version, text, err := s.ReadRegister(t.Context(), "a", 0); version != 1 || string(text) != "x" || err != nil {
		t.Errorf("read: %d, %q, %v", version, text, err)
	}
	if nodes, err := s.Attend(t.Context(), "n", time.Minute); nodes != 1 || err != nil {
		t.Errorf("attend: %d, %v", nodes, err)
	}
	if err := s.Post(t.Context(), "n", []byte("{}"), time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := s.Notices(t.Context()); err != nil {
		t.Error(err)
	}
}
