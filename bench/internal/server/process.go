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
	"unsafe"
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

// CPU returns the processor time that the process has used, in user mode and in
// the kernel, its ended threads included.
func (p *Process) CPU() (time.Duration, error) {
	d, err := cpuOf(p.cmd.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("read the processor time of %s: %w", p.name, err)
	}
	return d, nil
}

// cpuOf reads the clock that counts the processor time of a process
// (clock_getcpuclockid(3)). It is exact to the nanosecond, where /proc has
// steps of 10 ms.
func cpuOf(pid int) (time.Duration, error) {
	const scheduled = 2 // the kernel's CPUCLOCK_SCHED
	var t syscall.Timespec
	clock := ^uintptr(pid)<<3 | scheduled
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0, errno
	}
	return time.Duration(t.Nano()), nil
}

// Resident returns the memory that the process holds, in bytes.
func (p *Process) Resident() (int64, error) {
	held, err := ResidentOf(p.cmd.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	return held, nil
}

// ResidentOf returns the memory that any process holds, in bytes.
func ResidentOf(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	return parseStatm(string(statm))
}

// parseStatm returns the resident pages of /proc/PID/statm (proc_pid_statm(5)),
// in bytes.
func parseStatm(statm string) (int64, error) {
	fields := strings.Fields(statm)
	if len(fields) < 2 {
		return 0, errors.New("memory: /proc/PID/statm is too short")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}

// FreeAddr returns a loopback address that nobody listens on now.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
