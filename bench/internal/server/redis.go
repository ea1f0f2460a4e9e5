package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Redis is a redis-server that keeps nothing on disk.
type Redis struct {
	*Process
	// Network and Addr are what net.Dial takes.
	Network, Addr string

	bus string // the port on which nodes of a cluster talk
}

// StartRedis starts a redis-server, with its files in dir, on a unix socket or, as
// it is commonly reached, on TCP.
func StartRedis(binary, dir string, unix bool) (*Redis, error) {
	return startRedis(binary, dir, unix)
}

func startRedis(binary, dir string, unix bool, more ...string) (*Redis, error) {
	args := append([]string{"--dir", dir, "--save", "", "--appendonly", "no"}, more...)
	r := &Redis{Network: "unix", Addr: filepath.Join(dir, "redis.sock")}
	if unix {
		args = append(args, "--port", "0", "--unixsocket", r.Addr)
	} else {
		addr, err := FreeAddr()
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		r.Network, r.Addr = "tcp", addr
		args = append(args, "--bind", host, "--port", port)
	}
	var err error
	if r.Process, err = Start("redis-server", binary, nil, args...); err != nil {
		return nil, err
	}
	return r, r.WaitFor(r.Network, r.Addr)
}

// URL is what Headgate calls the server.
func (r *Redis) URL() string {
	if r.Network == "unix" {
		return "unix://" + r.Addr
	}
	return "redis://" + r.Addr + "/0"
}

// Counters is what Redis says of itself.
type Counters struct {
	Commands int64 // from clients and from scripts
	Reads    int64 // how often it read from a client: a measure of batching
	Memory   int64 // bytes in use
	Keys     int64
	Scripts  int64 // calls of scripts
}

// Plus returns the sum of the counters of two servers.
func (c Counters) Plus(d Counters) Counters {
	return Counters{
		Commands: c.Commands + d.Commands, Reads: c.Reads + d.Reads, Memory: c.Memory + d.Memory,
		Keys: c.Keys + d.Keys, Scripts: c.Scripts + d.Scripts,
	}
}

// Counters reads the counters.
func (r *Redis) Counters() (Counters, error) {
	info, err := r.Ask("INFO everything")
	if err != nil {
		return Counters{}, err
	}
	return Counters{
		Commands: infoNumber(info, "total_commands_processed:"),
		Reads:    infoNumber(info, "total_reads_processed:"),
		Memory:   infoNumber(info, "used_memory:"),
		Keys:     infoNumber(info, "db0:keys="),
		Scripts:  infoNumber(info, "cmdstat_evalsha:calls="),
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

// Ask sends one command and returns its answer, a status or a bulk string.
func (r *Redis) Ask(command string) (string, error) {
	conn, err := net.Dial(r.Network, r.Addr)
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
