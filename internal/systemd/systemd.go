// Package systemd tells the manager of services that started this process how it is, by the
// protocol of sd_notify(3): datagrams of lines to a socket that the environment names.
package systemd

import (
	"fmt"
	"net"
	"time"
)

// Variable is the variable of the environment that names the socket.
const Variable = "NOTIFY_SOCKET"

// patience bounds how long a manager may take to read.
const patience = time.Second

// Manager is who is told. The zero value is nobody, as for a process that was started by
// hand. It is safe for concurrent use.
type Manager struct {
	// Socket is the path of a unix socket; a leading "@" makes it one of the abstract
	// name space. "" tells nobody.
	Socket string
}

// Ready tells that the process serves.
func (m Manager) Ready() error { return m.tell("READY=1") }

// Stopping tells that the process is about to end by itself.
func (m Manager) Stopping() error { return m.tell("STOPPING=1") }

func (m Manager) tell(state string) error {
	if m.Socket == "" {
		return nil
	}
	// Go puts a leading "@" into the abstract name space itself.
	conn, err := net.Dial("unixgram", m.Socket)
	if err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	return nil
}
