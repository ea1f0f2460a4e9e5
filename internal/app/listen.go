package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/config"
)

// listen binds the address of a setting.
func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	network, address, err := config.ListenAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", setting, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) && abandoned(address) {
		// A process that was killed leaves its socket behind.
		if err = os.Remove(address); err == nil {
			l, err = lc.Listen(ctx, network, address)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w%s", setting, err, listenHint(err))
	}
	return l, nil
}

// abandoned reports whether path is a socket that nobody listens on.
func abandoned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func listenHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; hint: another process listens there; is a headgate running already? Port 0 takes a free port"
	case errors.Is(err, syscall.EACCES):
		return "; hint: ports below 1024 and some directories need more rights"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; hint: this machine has no such address"
	}
	return ""
}

// display returns the address as a person or a test can use it.
func display(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix://" + l.Addr().String()
	}
	return l.Addr().String()
}

// reachable returns host and port under which a client on this machine reaches
// l; of a listener on all addresses it is localhost.
func reachable(l net.Listener) string {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return display(l)
	}
	host := "localhost"
	if !tcp.IP.IsUnspecified() {
		host = tcp.IP.String()
	}
	return net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}
