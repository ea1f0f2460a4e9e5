// Package server starts the servers that benchmarks talk to, on loopback
// addresses of their own, and reads what they have used.
package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a server that this command started.
type Process struct {
	name string
	cmd  *exec.Cmd
	// Output is what it wrote; to be read when it has ended.
	Output bytes.Buffer
	done   chan error
}

// Start starts a server that ends with this process at the latest.
func Start(name, binary string, env []string, args ...string) (*Process, error) {
	p := &Process{name: name, cmd: exec.Command(binary, args...), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Output, &p.Output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p, nil
}

// stopTimeout is how long a server may take to end gently.
const stopTimeout = 5 * time.Second

// Stop ends the process and returns when it has ended.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("stop %s: it had to be killed after %v", p.name, stopTimeout)
}

// startTimeout is how long a server may take until it accepts connections.
const startTimeout = 15 * time.Second

// WaitFor returns when something accepts connections at the address, or with
// an error when the process has ended or time is up.
func (p *Process) WaitFor(network, addr string) error {
	deadline := time.Now().Add(startTimeout)
	for {
		conn, err := net.Dial(network, addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case ended := <-p.done:
			p.done <- ended
			return fmt.Errorf("%s ended: %v\n%s", p.name, ended, p.Output.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not listen on %s: %w", p.name, addr, err)
		}
	}
}

// userHZ is the unit of times in /proc, the same on all of Linux.
const userHZ = 100

// CPU returns the processor time that the process has used, in user mode and in
// the kernel, in steps of 10 ms.
func (p *Process) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of %s: %w", p.name, err)
	}
	return parseStat(string(stat))
}

// parseStat returns utime + stime of a line of /proc/PID/stat (proc_pid_stat(5)).
func parseStat(stat string) (time.Duration, error) {
	// The name of the command, in parentheses, may hold anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3 // counted from field 3, the first after the name
	if len(fields) <= stime {
		return 0, errors.New("processor time: /proc/PID/stat is too short")
	}
	user, err1 := strconv.ParseInt(fields[utime], 10, 64)
	system, err2 := strconv.ParseInt(fields[stime], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	return time.Duration(user+system) * time.Second / userHZ, nil
}

// FreeAddr returns a loopback address that nobody listens on now.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
