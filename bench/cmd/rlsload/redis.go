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
	socket string
}

func startRedis(binary, dir string) (*redisServer, error) {
	r := &redisServer{socket: filepath.Join(dir, "redis.sock")}
	var err error
	r.process, err = startProcess("redis-server", binary, nil,
		"--port", "0", "--unixsocket", r.socket, "--dir", dir, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	return r, r.waitFor("unix", r.socket)
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
	conn, err := net.Dial("unix", r.socket)
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
