package testserver

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// memcachedThreads is how many threads of memcached serve connections, in
	// turn, unless it is told otherwise.
	memcachedThreads = 4
	// silence is how long a frozen server must not answer.
	silence = 20 * time.Millisecond
)

// MemcachedConfig says what kind of memcached a test needs. The zero value is a
// plain one on a free TCP port of 127.0.0.1.
type MemcachedConfig struct {
	// Unix listens on a unix socket, and on no port.
	Unix bool
	// TLS are certificates to speak TLS with, and nothing else, on the TCP port; nil
	// means that it speaks none.
	TLS *Certificates
	// Args are further arguments, such as "-m", "2".
	Args []string
}

// MemcachedServer is a running memcached.
type MemcachedServer struct {
	// Addr is HOST:PORT, or the path of the unix socket.
	Addr string

	t      testing.TB
	cfg    MemcachedConfig
	binary string
	port   int
	proc   *Process
}

// Memcached starts a memcached, waits until it answers, and stops it when the
// test ends.
func Memcached(t testing.TB, cfg MemcachedConfig) *MemcachedServer {
	t.Helper()
	s := &MemcachedServer{t: t, cfg: cfg, binary: Binary(t, "memcached")}
	if cfg.Unix {
		s.Addr = filepath.Join(socketDir(t), "memcached.sock")
	}
	t.Cleanup(s.Kill)
	startOnPort(t, "memcached", func(port int) {
		if !cfg.Unix {
			s.port, s.Addr = port, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}, s.start, s.Kill)
	return s
}

// start runs the binary on the chosen address and waits until it answers.
func (s *MemcachedServer) start() error {
	args := []string{"-l", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "0"}
	if s.cfg.Unix {
		args = []string{"-s", s.Addr, "-a", "700"}
	}
	if c := s.cfg.TLS; c != nil {
		verify := "0"
		if c.Mutual {
			verify = "2"
		}
		args = append(args, "-Z", "-o", "ssl_chain_cert="+c.CertFile, "-o", "ssl_key="+c.KeyFile,
			"-o", "ssl_ca_cert="+c.CAFile, "-o", "ssl_verify_mode="+verify)
	}
	// Memcached refuses to be root unless it is told to be.
	if who, err := user.Current(); err == nil && who.Uid == "0" {
		args = append(args, "-u", "root")
	}
	proc, err := StartProcess(exec.Command(s.binary, append(args, s.cfg.Args...)...))
	if err != nil {
		return err
	}
	s.proc = proc
	return proc.Poll(s.ping)
}

// ping asks whether the server answers.
func (s *MemcachedServer) ping() error {
	answer, err := s.Exchange("version\r\n")
	if err == nil && !strings.HasPrefix(answer, "VERSION ") && !strings.HasPrefix(answer, "CLIENT_ERROR unauthenticated") {
		err = fmt.Errorf("unexpected answer %q to version", answer)
	}
	return err
}

// Exchange sends text on a new connection and returns the first line of the
// answer.
func (s *MemcachedServer) Exchange(text string) (string, error) {
	return s.exchange(text, time.Second)
}

func (s *MemcachedServer) exchange(text string, patience time.Duration) (string, error) {
	network := "tcp"
	if s.cfg.Unix {
		network = "unix"
	}
	conn, err := s.dial(network, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func (s *MemcachedServer) dial(network string, patience time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	if s.cfg.TLS != nil {
		return tls.DialWithDialer(dialer, network, s.Addr, s.cfg.TLS.Client())
	}
	return dialer.Dial(network, s.Addr)
}

// Kill ends the server with SIGKILL and waits until it is gone. It may be
// called more than once.
func (s *MemcachedServer) Kill() {
	if s.proc == nil {
		return
	}
	s.proc.Kill()
	s.proc = nil
}

// Restart starts a killed server again on the same address. It has forgotten
// everything.
func (s *MemcachedServer) Restart() { restart(s.t, "memcached", s.Kill, s.start) }

// Stop freezes the server with SIGSTOP: connections stay, nothing is answered.
// Its threads do not stop at once; Stop returns when all have.
func (s *MemcachedServer) Stop() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	err := s.proc.Poll(func() error {
		for range memcachedThreads {
			if answer, err := s.exchange("version\r\n", silence); err == nil {
				return fmt.Errorf("still answers %q", answer)
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("freeze memcached: %v", err)
	}
}

// Continue thaws a server that Stop froze.
func (s *MemcachedServer) Continue() { s.signal(syscall.SIGCONT) }

func (s *MemcachedServer) signal(sig syscall.Signal) { signal(s.t, "memcached", s.proc, sig) }

// URL returns the address in the form memcached:// without credentials.
func (s *MemcachedServer) URL() string { return "memcached://" + s.Addr }
