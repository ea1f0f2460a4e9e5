package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// redisServer is a redis-server that keeps nothing on disk.
type redisServer struct {
	*process
	network, addr string // what net.Dial takes
}

// startRedis starts a Redis on a unix socket or, as it is commonly reached, on
// TCP.
func startRedis(s settings, dir string) (*redisServer, error) {
	args := []string{"--dir", dir, "--save", "", "--appendonly", "no"}
	r := &redisServer{network: "unix", addr: filepath.Join(dir, "redis.sock")}
	if s.redisUnix {
		args = append(args, "--port", "0", "--unixsocket", r.addr)
	} else {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		r.network, r.addr = "tcp", addr
		args = append(args, "--bind", host, "--port", port)
	}
	var err error
	if r.process, err = startProcess("redis-server", s.redis, nil, args...); err != nil {
		return nil, err
	}
	return r, r.waitFor(r.network, r.addr)
}

// url is what Headgate calls the server.
func (r *redisServer) url() string {
	if r.network == "unix" {
		return "unix://" + r.addr
	}
	return "redis://" + r.addr + "/0"
}

// redisCounters is what Redis says of itself.
type redisCounters struct {
	commands int64 // from clients and from scripts
	reads    int64 // how often it read from a client: a measure of batching
	memory   int64 // bytes in use
	keys     int64
}

func (r *redisServer) counters() (redisCounters, error) {
	info, err := r.ask("INFO everything")
	if err != nil {
		return redisCounters{}, err
	}
	return redisCounters{
		commands: infoNumber(info, "total_commands_processed:"),
		reads:    infoNumber(info, "total_reads_processed:"),
		memory:   infoNumber(info, "used_memory:"),
		keys:     infoNumber(info, "db0:keys="),
	}, nil
}

// infoNumber returns the number after name at the beginning of a line, 0 if
// there is none.
func infoNumber(info, name string) int64 {
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
			n, _ := strconv.ParseInt(rest[:max(end, 0)], 10, 64)
			return n
		}
	}
	return 0
}

// ask sends one command and returns its answer, a status or a bulk string.
func (r *redisServer) ask(command string) (string, error) {
	conn, err := net.Dial(r.network, r.addr)
	if err != nil {
		return "", fmt.Errorf("ask Redis: %w", err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", fmt.Errorf("ask Redis: %w", err)
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("ask Redis: %w", err)
	}
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "$") {
		if strings.HasPrefix(line, "-") {
			return "", fmt.Errorf("ask Redis: %s: %s", command, line)
		}
		return line, nil
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", fmt.Errorf("ask Redis: %w", err)
	}
	bulk := make([]byte, size)
	if _, err := io.ReadFull(reader, bulk); err != nil {
		return "", fmt.Errorf("ask Redis: %w", err)
	}
	return string(bulk), nil
}
