package testserver

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/eventually"
)

// RedisConfig says what kind of Redis a test needs. The zero value is a plain
// one on a free TCP port of 127.0.0.1.
type RedisConfig struct {
	// Program is one of RedisPrograms; empty means the first.
	Program string
	// Unix also listens on a unix socket.
	Unix bool
	// NoTCP listens on the unix socket only; it implies Unix.
	NoTCP bool
	// TLS speaks TLS, and nothing else, on the TCP port.
	TLS bool
	// Certificates are what TLS shows; nil means new ones.
	Certificates *Certificates
	// Password is what the default user must present; empty means none.
	Password string
	// Users are lines of an ACL file, such as
	// "user app on >secret ~hg:* +@all"; nil means no file.
	Users []string
	// MaxMemory is Redis's maxmemory, with the policy noeviction; empty means
	// unlimited.
	MaxMemory string
	// ReplicaOf makes this server a replica of that one.
	ReplicaOf *RedisServer
	// AnswersLoading has Redis wait for a server that answers, even when the
	// answer is that it is still loading.
	AnswersLoading bool
	// Args are further arguments, such as "--databases", "4".
	Args []string
}

// RedisPrograms are the servers with which what is said of Redis is tested: that of the
// system's packages, a later Redis, and Valkey.
var RedisPrograms = []string{"redis-server", "redis-server-8.2", "valkey-server"}

// RedisServer is a running redis-server. It keeps nothing on disk.
type RedisServer struct {
	// Addr is HOST:PORT, empty with NoTCP.
	Addr string
	// Socket is the path of the unix socket, empty without Unix.
	Socket string
	// Certificates are set with TLS.
	Certificates *Certificates

	t      testing.TB
	cfg    RedisConfig
	binary string
	args   []string // without the port and the primary
	port   int
	proc   *Process
	past   tail // what killed processes have written
	// sentinelFile, when not empty, is the configuration of a sentinel, which
	// this is then, and has all that else stands in args.
	sentinelFile string
}

// Redis starts a redis-server, waits until it answers, and stops it when the
// test ends.
func Redis(t testing.TB, cfg RedisConfig) *RedisServer {
	t.Helper()
	cfg.Program = cmp.Or(cfg.Program, RedisPrograms[0])
	s := &RedisServer{t: t, cfg: cfg, binary: Binary(t, cfg.Program)}
	s.args = s.arguments()
	t.Cleanup(s.Kill)
	startOnPort(t, cfg.Program, func(port int) {
		if !cfg.NoTCP {
			s.port, s.Addr = port, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}, s.start, s.Kill)
	return s
}

// arguments returns the command line without the port and the primary, and sets
// what it names.
func (s *RedisServer) arguments() []string {
	s.t.Helper()
	args := []string{
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", s.t.TempDir(),
		"--bind", "127.0.0.1", "--enable-debug-command", "yes", "--loglevel", "warning",
	}
	if s.cfg.Unix || s.cfg.NoTCP {
		s.Socket = filepath.Join(socketDir(s.t), "redis.sock")
		args = append(args, "--unixsocket", s.Socket, "--unixsocketperm", "700")
	}
	if s.cfg.TLS {
		s.Certificates = s.cfg.Certificates
		if s.Certificates == nil {
			s.Certificates = NewCertificates(s.t)
		}
		args = append(args, "--tls-cert-file", s.Certificates.CertFile, "--tls-key-file", s.Certificates.KeyFile,
			"--tls-ca-cert-file", s.Certificates.CAFile, "--tls-auth-clients", yesNo(s.Certificates.Mutual), "--tls-replication", "yes")
	}
	if s.cfg.Password != "" {
		args = append(args, "--requirepass", s.cfg.Password, "--masterauth", s.cfg.Password)
	}
	if s.cfg.Users != nil {
		file := filepath.Join(s.t.TempDir(), "users.acl")
		if err := os.WriteFile(file, []byte(strings.Join(s.cfg.Users, "\n")+"\n"), 0o600); err != nil {
			s.t.Fatalf("write the ACL file: %v", err)
		}
		args = append(args, "--aclfile", file)
	}
	if s.cfg.MaxMemory != "" {
		args = append(args, "--maxmemory", s.cfg.MaxMemory, "--maxmemory-policy", "noeviction")
	}
	return append(args, s.cfg.Args...)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// socketDir returns a new folder with a short path: a unix socket's path must
// stay under about 100 bytes, which the folder of a test with a long name does
// not.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hg")
	if err != nil {
		t.Fatalf("make a folder for a socket: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start runs the binary on the chosen port and waits until it answers.
func (s *RedisServer) start() error {
	plain, secure := s.port, 0
	if s.cfg.TLS {
		plain, secure = 0, s.port
	}
	args := append([]string{"--port", strconv.Itoa(plain)}, s.args...)
	if secure != 0 {
		args = append(args, "--tls-port", strconv.Itoa(secure))
	}
	if s.cfg.ReplicaOf != nil {
		args = append(args, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.cfg.ReplicaOf.port))
	}
	if s.sentinelFile != "" {
		args = []string{s.sentinelFile, "--sentinel"}
	}
	proc, err := StartProcess(exec.Command(s.binary, args...))
	if err != nil {
		return err
	}
	s.proc = proc
	return proc.Poll(s.ping)
}

// ping asks whether the server answers.
func (s *RedisServer) ping() error {
	answer, err := s.exchange("PING\r\n")
	if err != nil {
		return err
	}
	if strings.HasPrefix(answer, "-LOADING") && !s.cfg.AnswersLoading {
		return errors.New(answer)
	}
	if answer == "" || (answer[0] != '+' && answer[0] != '-') {
		return fmt.Errorf("unexpected answer %q to PING", answer)
	}
	return nil
}

// exchange sends one line on a new connection and returns the first line of
// the answer.
func (s *RedisServer) exchange(line string) (string, error) {
	conn, err := s.dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(line)); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func (s *RedisServer) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: time.Second}
	switch {
	case s.cfg.NoTCP:
		return dialer.Dial("unix", s.Socket)
	case s.cfg.TLS:
		return tls.DialWithDialer(dialer, "tcp", s.Addr, s.Certificates.Client())
	default:
		return dialer.Dial("tcp", s.Addr)
	}
}

// Kill ends the server with SIGKILL and waits until it is gone. It may be
// called more than once.
func (s *RedisServer) Kill() {
	if s.proc == nil {
		return
	}
	s.proc.Kill()
	_, _ = s.past.Write([]byte(s.proc.Output()))
	s.proc = nil
}

// said returns how often the server has written text to its log, before it was
// restarted too, as far as that is kept.
func (s *RedisServer) said(text string) int {
	n := strings.Count(s.past.String(), text)
	if s.proc != nil {
		n += strings.Count(s.proc.Output(), text)
	}
	return n
}

// CutReplicas ends the links to the replicas for good: what the server is told from
// now on, its replicas are not. Its other clients notice nothing.
func (s *RedisServer) CutReplicas() {
	s.t.Helper()
	s.MustDo("ACL", "SETUSER", "default", "-psync", "-sync")
	s.MustDo("CLIENT", "KILL", "TYPE", "replica")
	eventually.Nil(s.t, "cut off the replicas", func() error {
		n, err := s.Info("replication", "connected_slaves")
		if err == nil && n != "0" {
			err = fmt.Errorf("%s has %s replicas", s.Addr, n)
		}
		return err
	})
}

// AwaitReplica waits until a replica has all that s, its primary, has written so far, and s
// knows that it is there.
func (s *RedisServer) AwaitReplica(replica *RedisServer) {
	s.t.Helper()
	eventually.Nil(s.t, "the replica has all", func() error {
		written, err := s.Info("replication", "master_repl_offset")
		if err != nil {
			return err
		}
		read, err := replica.Info("replication", "slave_repl_offset")
		if err != nil {
			return err
		}
		known, err := s.Do("INFO", "replication")
		if err != nil {
			return err
		}
		if text := fmt.Sprint(known); read != written || !strings.Contains(text, fmt.Sprintf("port=%d,state=online", replica.port)) {
			return fmt.Errorf("%s has %s of %s bytes; %s", replica.Addr, read, written, text)
		}
		return replica.linked()
	})
}

// Restart starts a killed server again on the same addresses.
func (s *RedisServer) Restart() { restart(s.t, "redis-server", s.Kill, s.start) }

// restartAsReplica starts a killed server again on the same addresses, as a
// replica of primary.
func (s *RedisServer) restartAsReplica(primary *RedisServer) {
	s.t.Helper()
	s.cfg.ReplicaOf = primary
	s.Restart()
}

// alive reports whether the process runs; a frozen one does.
func (s *RedisServer) alive() bool { return s.proc != nil }

// Stop freezes the server with SIGSTOP: connections stay, nothing is answered.
func (s *RedisServer) Stop() { s.signal(syscall.SIGSTOP) }

// Continue thaws a server that Stop froze.
func (s *RedisServer) Continue() { s.signal(syscall.SIGCONT) }

func (s *RedisServer) signal(sig syscall.Signal) { signal(s.t, "redis-server", s.proc, sig) }

// URL returns the address in the form redis://, rediss:// or unix:// without
// credentials.
func (s *RedisServer) URL() string {
	switch {
	case s.cfg.NoTCP:
		return "unix://" + s.Socket
	case s.cfg.TLS:
		return "rediss://" + s.Addr
	default:
		return "redis://" + s.Addr
	}
}
