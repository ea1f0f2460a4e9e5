package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const request = "GET /v1/orders?limit=2 HTTP/1.1\r\nHost: api.example\r\nUser-Agent: bench\r\nAccept: application/json\r\nX-Api-Key: 0123456789abcdef\r\n\r\n"

// load asks addr over this many connections for a while, and returns how many
// requests were answered with 200. Anything else is an error.
func load(addr string, connections int, d time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var total atomic.Int64
	errs := make(chan error, connections)
	var asking sync.WaitGroup
	for range connections {
		asking.Go(func() { errs <- askUntil(ctx, addr, &total) })
	}
	asking.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return total.Load(), nil
}

// askUntil asks over one connection until ctx ends.
func askUntil(ctx context.Context, addr string, answered *atomic.Int64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for ctx.Err() == nil {
		if err := ask(conn, r); err != nil {
			return err
		}
		answered.Add(1)
	}
	return nil
}

func ask(conn net.Conn, r *bufio.Reader) error {
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", res.Status)
	}
	return nil
}
