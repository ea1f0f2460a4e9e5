package testserver

import (
	"fmt"
	"os/exec"
	"strconv"
)

// Replica starts a hot standby of s, which replays what s writes and may be read, waits until
// it answers, and stops it when the test ends. It has the databases of s under the names and
// with the user of s. Whatever s has when this is called is there at once.
func (s *PostgresServer) Replica() *PostgresServer {
	s.t.Helper()
	if s.secure != nil {
		s.t.Fatal("no replica is made of a server with TLS")
	}
	program := postgresTool(s.t, "pg_basebackup")
	// A standby whose primary was away looks for it again at once.
	r := &PostgresServer{t: s.t, more: []string{"-c", "wal_retrieve_retry_interval=100ms"}}
	s.t.Cleanup(r.remove)
	r.makeFolder()
	cmd := exec.Command(program, "--pgdata", r.own(""), "--write-recovery-conf", "--checkpoint", "fast", "--no-sync",
		"--dbname", fmt.Sprintf("host=127.0.0.1 port=%s user=%s password=%s", strconv.Itoa(s.port), postgresUser, postgresPassword))
	cmd.Dir = r.dir
	r.unprivileged(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	s.t.Cleanup(r.Kill)
	r.launch()
	return r
}

// PauseReplay has a replica receive what its primary writes and show none of it, until
// ResumeReplay or its end.
func (s *PostgresServer) PauseReplay() {
	s.t.Helper()
	s.Exec("SELECT pg_wal_replay_pause()")
}

// ResumeReplay ends PauseReplay.
func (s *PostgresServer) ResumeReplay() {
	s.t.Helper()
	s.Exec("SELECT pg_wal_replay_resume()")
}
