// Package h1load asks the check API over HTTP/1.1: one request after the other
// on each connection, or several without waiting for answers (pipelined). It is
// a closed loop, as h2load.Run is, and its figures are made to be compared with
// that one's.
package h1load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/bench/internal/h2load"
)

// run is what the connections of one Run share.
type run struct {
	h2load.Course // its Answers are those to checks
	options       h2load.Options
	requests      [][]byte
}

// ID stands in a body where an id is to be: each request has another one of the same length.
const ID = "0000000000000000"

// Run asks o.Path on o.Connections with o.Streams requests under way on each.
// The Messages are bodies; all answers have to be 200 or 429. What is counted
// are checks: a body may hold many. Codes has 1 for each check that is allowed
// and 2 for each that is not.
func Run(o h2load.Options) (*h2load.Result, error) {
	if len(o.Messages) == 0 || o.Connections < 1 || o.Streams < 1 {
		return nil, fmt.Errorf("load %s: no messages, connections or streams", o.Addr)
	}
	r := &run{options: o, requests: make([][]byte, len(o.Messages))}
	for i, body := range o.Messages {
		r.requests[i] = appendRequest(nil, o.Path, body)
	}
	connections := make([]*connection, 0, o.Connections)
	defer func() {
		for _, c := range connections {
			_ = c.conn.Close()
		}
	}()
	for i := range o.Connections {
		conn, err := net.Dial(o.Network, o.Addr)
		if err != nil {
			return nil, err
		}
		connections = append(connections, &connection{
			run: r, conn: conn, reader: bufio.NewReader(conn), writer: bufio.NewWriter(conn),
			random: rand.New(rand.NewPCG(uint64(i), 5)),
		})
	}
	errs := make(chan error, len(connections))
	var running sync.WaitGroup
	for _, c := range connections {
		running.Go(func() {
			if err := c.loop(); err != nil {
				errs <- err
			}
		})
	}
	result := &h2load.Result{}
	err := r.Conduct(&r.options, result, errs)
	r.End()
	for _, c := range connections {
		_ = c.conn.SetDeadline(time.Now().Add(drainTimeout))
	}
	running.Wait()
	select {
	case late := <-errs:
		err = errors.Join(err, late)
	default:
	}
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", o.Addr, err)
	}
	for _, c := range connections {
		for _, d := range c.latencies {
			result.Latencies.Add(d)
		}
		for i := range c.codes {
			result.Codes[i] += c.codes[i]
		}
	}
	return result, nil
}

// drainTimeout bounds the wait for the last answers of a run.
const drainTimeout = 5 * time.Second

// appendRequest writes a request as common clients do, with few header fields.
func appendRequest(dst []byte, path string, body []byte) []byte {
	dst = fmt.Appendf(dst, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, len(body))
	return append(dst, body...)
}

// connection is one client. All of it is in one goroutine.
type connection struct {
	run    *run
	conn   net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
	random *rand.Rand
	begun  []time.Time // of the requests under way, the oldest first
	body   []byte
	// request is the one that is sent, where it has an id.
	request []byte

	latencies []time.Duration
	codes     [4]int64
}

// loop asks until the run has ended and the last answer is there.
func (c *connection) loop() error {
	for {
		for len(c.begun) < c.run.options.Streams && !c.run.Ended() {
			if err := c.ask(); err != nil {
				return err
			}
		}
		if len(c.begun) == 0 {
			return nil
		}
		if c.reader.Buffered() == 0 {
			if err := c.writer.Flush(); err != nil {
				return err
			}
		}
		if err := c.answer(); err != nil {
			return err
		}
	}
}

func (c *connection) ask() error {
	sent := c.run.Sent.Add(1)
	n := sent - 1
	if n >= int64(len(c.run.requests)) {
		n = int64(c.random.IntN(len(c.run.requests)))
	}
	request := c.run.requests[n]
	if at := bytes.Index(request, []byte(ID)); at >= 0 {
		c.request = append(c.request[:0], request...)
		request = c.request
		copy(request[at:], fmt.Sprintf("%0*x", len(ID), sent))
	}
	c.begun = append(c.begun, time.Now())
	_, err := c.writer.Write(request)
	return err
}

// answer takes in one answer.
func (c *connection) answer() error {
	status, err := c.read()
	if err != nil {
		return err
	}
	const allowed, denied = 200, 429
	if status != allowed && status != denied {
		return fmt.Errorf("answered %d: %s", status, c.body)
	}
	passed, refused := bytes.Count(c.body, []byte(`"allowed":true`)), bytes.Count(c.body, []byte(`"allowed":false`))
	took := time.Since(c.begun[0])
	c.begun = append(c.begun[:0], c.begun[1:]...)
	c.run.Answers.Add(int64(passed + refused))
	if !c.run.Measuring() {
		return nil
	}
	c.latencies = append(c.latencies, took)
	c.codes[1] += int64(passed)
	c.codes[2] += int64(refused)
	return nil
}

// maxBody bounds an answer, in bytes.
const maxBody = 16 << 20

// read reads one answer: its status, and its body into c.body.
func (c *connection) read() (status int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if fields := strings.Fields(line); len(fields) < 2 || !strings.HasPrefix(line, "HTTP/1.1 ") {
		return 0, fmt.Errorf("answered %q, which is not HTTP/1.1", line)
	} else if status, err = strconv.Atoi(fields[1]); err != nil {
		return 0, fmt.Errorf("answered %q: %w", line, err)
	}
	size, chunked := 0, false
	for {
		if line, err = c.line(); err != nil || line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); {
		case strings.EqualFold(name, "Content-Length"):
			if size, err = strconv.Atoi(value); err != nil || size < 0 || size > maxBody {
				return 0, fmt.Errorf("content length %q", value)
			}
		case strings.EqualFold(name, "Transfer-Encoding"):
			chunked = strings.EqualFold(value, "chunked")
		}
	}
	c.body = c.body[:0]
	switch {
	case err != nil:
	case chunked:
		err = c.chunks()
	default:
		err = c.take(size)
	}
	return status, err
}

// chunks reads a body in pieces (RFC 9112, section 7.1), without trailers.
func (c *connection) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(line, 16, 32)
		if err != nil || int(size)+len(c.body) > maxBody {
			return fmt.Errorf("chunk of size %q", line)
		}
		if err := c.take(int(size)); err != nil {
			return err
		}
		if line, err = c.line(); err != nil || line != "" {
			return errors.Join(err, fmt.Errorf("%q after a chunk", line))
		}
		if size == 0 {
			return nil
		}
	}
}

// take adds so many bytes to the body.
func (c *connection) take(size int) error {
	from := len(c.body)
	c.body = append(c.body, make([]byte, size)...)
	_, err := io.ReadFull(c.reader, c.body[from:])
	return err
}

func (c *connection) line() (string, error) {
	line, err := c.reader.ReadSlice('\n')
	return strings.TrimRight(string(line), "\r\n"), err
}
