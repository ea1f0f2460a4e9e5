package testserver

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// postgresUser and postgresPassword are of the one user of a test's database.
const postgresUser, postgresPassword = "headgate", "not-a-real-secret"

// PostgresServer is a running PostgreSQL with one empty database.
type PostgresServer struct {
	// DSN is the address of the database, credentials included.
	DSN string

	t      testing.TB
	dir    string
	port   int
	secure *Certificates // nil: no TLS
	more   []string      // arguments of a start
	proc   *Process
}

// SecurePostgres is Postgres for a server that lets in by TLS alone, who has a certificate
// of the authority and the password. DSN has files with both.
func SecurePostgres(t testing.TB, c *Certificates) *PostgresServer {
	t.Helper()
	return startPostgres(t, c)
}

// sharedPostgres is the server of PostgresDatabase.
var sharedPostgres struct {
	sync.Mutex
	ends   bool // RunTests ends it
	server *PostgresServer
	number int // of databases
}

// PostgresDatabase makes an empty database for the test, which is gone when that ends, and
// returns its address, credentials included. The tests of a package share its server: a
// test that harms it, or looks at what belongs to all databases, needs one of its own. The
// package needs RunTests, which ends the server.
func PostgresDatabase(t testing.TB) (dsn string) {
	t.Helper()
	sharedPostgres.Lock()
	defer sharedPostgres.Unlock()
	switch {
	case !sharedPostgres.ends:
		t.Fatal("nobody would end the server; hint: func TestMain(m *testing.M) { testserver.RunTests(m) }")
	case sharedPostgres.server == nil:
		s := &PostgresServer{t: t}
		s.initialize()
		sharedPostgres.server = s // also where it does not start: its files are to be removed
		s.launch()
	}
	s := sharedPostgres.server
	s.t = t
	sharedPostgres.number++
	name := "test" + strconv.Itoa(sharedPostgres.number)
	t.Cleanup(func() {
		sharedPostgres.Lock()
		defer sharedPostgres.Unlock()
		s.t = t
		s.Exec(fmt.Sprintf("DROP DATABASE %q WITH (FORCE)", name))
	})
	return s.database(name)
}

// pristine has the files of a server that was never started. To make them takes longer than
// all else of a start, so where RunTests deletes them each server gets a copy.
var pristine struct {
	sync.Once
	files *PostgresServer
}

// endPostgres ends the server that a package shares, and deletes what all are copies of.
func endPostgres() {
	if pristine.files != nil {
		pristine.files.remove()
	}
	sharedPostgres.Lock()
	defer sharedPostgres.Unlock()
	if s := sharedPostgres.server; s != nil {
		s.Kill()
		s.remove()
	}
}

// Postgres starts a PostgreSQL, waits until it answers, and stops it when the test
// ends. Nothing of it is synced to disk.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	return startPostgres(t, nil)
}

func startPostgres(t testing.TB, c *Certificates) *PostgresServer {
	t.Helper()
	s := &PostgresServer{t: t, secure: c}
	t.Cleanup(s.remove)
	s.initialize()
	t.Cleanup(s.Kill)
	s.launch()
	return s
}

// launch starts the server on some free port.
func (s *PostgresServer) launch() {
	s.t.Helper()
	startOnPort(s.t, "postgres", func(port int) {
		s.port = port
		address := url.URL{
			Scheme: "postgres", User: url.UserPassword(postgresUser, postgresPassword),
			Host: "127.0.0.1:" + strconv.Itoa(s.port), Path: "/postgres", RawQuery: "sslmode=disable",
		}
		if c := s.secure; c != nil {
			address.RawQuery = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {c.CAFile}, "sslcert": {c.CertFile}, "sslkey": {c.KeyFile}}.Encode()
		}
		s.DSN = address.String()
	}, s.start, s.Kill)
}

// remove removes what the server has written.
func (s *PostgresServer) remove() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// postgresTool returns the path of one of PostgreSQL's programs, which Debian
// keeps out of PATH.
func postgresTool(t testing.TB, name string) string {
	t.Helper()
	skipUnlessWanted(t)
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return slices.Max(found)
	}
	return Binary(t, name)
}

// initialize makes the files of a new server.
func (s *PostgresServer) initialize() {
	s.t.Helper()
	program := postgresTool(s.t, "initdb") // which skips the test where there is none
	s.makeFolder()
	if !sharedPostgres.ends {
		s.initdb(program)
	} else {
		pristine.Do(func() {
			first := &PostgresServer{t: s.t}
			first.makeFolder()
			pristine.files = first
			first.initdb(program)
		})
		if out, err := exec.Command("cp", "-a", pristine.files.own(""), s.own("")).CombinedOutput(); err != nil {
			s.t.Fatalf("copy the files of a new server: %v: %s", err, out)
		}
	}
	if s.secure != nil {
		s.certify()
	}
}

func (s *PostgresServer) makeFolder() {
	s.t.Helper()
	var err error
	if s.dir, err = os.MkdirTemp("", "headgate-postgres-"); err != nil {
		s.t.Fatal(err)
	}
}

// initdb makes the files by PostgreSQL's own program.
func (s *PostgresServer) initdb(program string) {
	s.t.Helper()
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte(postgresPassword+"\n"), 0o644); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program, "--pgdata", filepath.Join(s.dir, "data"), "--username", postgresUser,
		"--auth", "scram-sha-256", "--pwfile", password, "--no-sync", "--no-locale", "--encoding", "UTF8")
	cmd.Dir = s.dir
	s.unprivileged(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("initdb: %v: %s", err, out)
	}
}

// own returns where a file of the server is; "" is the folder of all.
func (s *PostgresServer) own(name string) string { return filepath.Join(s.dir, "data", name) }

// certify gives the server its certificate, and has it let in by TLS alone.
func (s *PostgresServer) certify() {
	s.t.Helper()
	for from, name := range map[string]string{s.secure.CertFile: "server.pem", s.secure.KeyFile: "server.key", s.secure.CAFile: "ca.pem"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = s.write(name, text)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.write("pg_hba.conf", []byte("hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n")); err != nil {
		s.t.Fatal(err)
	}
}

// write writes a file of the server, who owns it then.
func (s *PostgresServer) write(name string, text []byte) error {
	if err := os.WriteFile(s.own(name), text, 0o600); err != nil {
		return err
	}
	info, err := os.Stat(s.own("PG_VERSION"))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Chown(s.own(name), int(owner.Uid), int(owner.Gid))
}

// unprivileged lets cmd run as somebody else when this is root, whom PostgreSQL
// refuses, and gives him the folder.
func (s *PostgresServer) unprivileged(cmd *exec.Cmd) {
	s.t.Helper()
	who, err := user.Current()
	if err != nil || who.Uid != "0" {
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		s.t.Fatalf("postgres does not run as root: %v", err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(s.dir, uid, gid); err != nil {
		s.t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func (s *PostgresServer) start() error {
	cmd := exec.Command(postgresTool(s.t, "postgres"), "-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off",
		"-c", "full_page_writes=off", "-c", "autovacuum=off",
		"-c", "shared_buffers=32MB", "-c", "max_connections=60", "-c", "log_min_messages=fatal")
	if s.secure != nil {
		cmd.Args = append(cmd.Args, "-c", "ssl=on", "-c", "ssl_cert_file="+s.own("server.pem"), "-c", "ssl_key_file="+s.own("server.key"), "-c", "ssl_ca_file="+s.own("ca.pem"))
	}
	cmd.Args = append(cmd.Args, s.more...)
	cmd.Dir = s.dir
	s.unprivileged(cmd)
	proc, err := StartProcess(cmd)
	if err != nil {
		return err
	}
	s.proc = proc
	return proc.Poll(s.ping)
}

func (s *PostgresServer) ping() error {
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Ping()
}

// Exec runs statements on the server and fails the test when one fails.
func (s *PostgresServer) Exec(statements ...string) {
	s.t.Helper()
	db, err := sql.Open("pgx", s.DSN)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
	}
}

// Database makes another empty database on the server and returns its DSN.
func (s *PostgresServer) database(name string) string {
	s.t.Helper()
	s.Exec(fmt.Sprintf("CREATE DATABASE %q", name))
	return strings.Replace(s.DSN, "/postgres?", "/"+name+"?", 1)
}

// Kill ends the server at once, as a crash does: nothing is written any more and
// all connections break. It may be called more than once.
func (s *PostgresServer) Kill() {
	if s.proc == nil {
		return
	}
	// SIGQUIT is PostgreSQL's own emergency end: it takes its children along, which
	// would hold the memory that a restart needs.
	_ = s.proc.Signal(syscall.SIGQUIT)
	<-s.proc.Ended()
	s.proc = nil
}

// Restart starts a killed server again on the same address, with what it held.
func (s *PostgresServer) Restart() { restart(s.t, "postgres", s.Kill, s.start) }
