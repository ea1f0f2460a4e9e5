package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// holderVariable makes the test binary a holder: a worker process that takes slots
// of a limit on concurrency over HTTP, and tells what it holds on its standard
// output. It can be killed, which a goroutine of the test cannot.
const holderVariable = "HEADGATE_TEST_HOLDER"

// orders say what a holder does.
type orders struct {
	Sockets []string // of the nodes that it asks
	Redis   string   // whose clock it goes by
	Body    string   // of a check, with %s for the hold
	Timeout time.Duration
	// Long is how many slots it holds until it is told to end, and Short how many it
	// takes and releases again and again.
	Long, Short int
}

// holderEvent is one line of a holder. Instants are in microseconds of the clock
// of Redis.
type holderEvent struct {
	What string // held, renewed, released, denied, late or error
	ID   string
	// From and Until bound the time in which the slot was surely held: From is after
	// the answer, Until a timeout after the moment before the question.
	From, Until int64
	Long        bool
	Text        string
}

// holder is the worker process.
type holder struct {
	orders
	clients []*http.Client
	mu      sync.Mutex // of the standard output
}

// runHolder obeys text until SIGTERM, and returns the exit code.
func runHolder(text string) int {
	var h holder
	if err := json.Unmarshal([]byte(text), &h.orders); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	for _, socket := range h.Sockets {
		h.clients = append(h.clients, &http.Client{Timeout: patience, Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		}})
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var wg sync.WaitGroup
	for i := range h.Long + h.Short {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), i, n)
				if err := h.request(ctx, id, i < h.Long); err != nil {
					h.tell(holderEvent{What: "error", ID: id, Text: err.Error()})
				}
			}
		})
	}
	wg.Wait()
	return 0
}

// request is one request from its admission to its end.
func (h *holder) request(ctx context.Context, id string, long bool) error {
	before, err := h.now()
	if err != nil {
		return err
	}
	allowed, err := h.post("/v1/check", id)
	if err != nil {
		return err
	}
	if !allowed {
		h.tell(holderEvent{What: "denied", ID: id})
		work(ctx, 20*time.Millisecond)
		return nil
	}
	from, err := h.now()
	if err != nil {
		return err
	}
	until := before + h.Timeout.Microseconds()
	h.tell(holderEvent{What: "held", ID: id, From: from, Until: until, Long: long})
	if !long {
		work(ctx, time.Duration(50+rand.IntN(200))*time.Millisecond)
	}
	for long && work(ctx, h.Timeout/3) {
		if until, err = h.renew(id, until); err != nil || until == 0 {
			break
		}
	}
	if err != nil {
		return err
	}
	if until, err = h.now(); err != nil {
		return err
	}
	h.tell(holderEvent{What: "released", ID: id, Until: until, Long: long})
	_, err = h.post("/v1/release", id)
	return err
}

// renew returns until when the slot is surely held now; 0 when the renewal may have
// come too late, so that the slot may have been another's in between.
func (h *holder) renew(id string, until int64) (int64, error) {
	before, err := h.now()
	if err != nil {
		return 0, err
	}
	if _, err := h.post("/v1/renew", id); err != nil {
		return 0, err
	}
	after, err := h.now()
	if err != nil {
		return 0, err
	}
	if after >= until {
		h.tell(holderEvent{What: "late", ID: id})
		return 0, nil
	}
	until = before + h.Timeout.Microseconds()
	h.tell(holderEvent{What: "renewed", ID: id, Until: until, Long: true})
	return until, nil
}

// work lasts d, or until the holder is to end, and reports whether it is not.
func work(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// post asks one of the nodes and returns whether it allows.
func (h *holder) post(path, id string) (bool, error) {
	client := h.clients[rand.IntN(len(h.clients))]
	resp, err := client.Post("http://headgate"+path, "application/json", strings.NewReader(fmt.Sprintf(h.Body, id)))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	var a struct {
		Allowed  bool
		Degraded string
		Hold     *struct{ ID string }
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Degraded != "" {
		return false, fmt.Errorf("%s: %s: %w", path, body, err)
	}
	if holds := path != "/v1/release" && a.Allowed; holds != (a.Hold != nil && a.Hold.ID == id) {
		return false, fmt.Errorf("%s: holds %v: %s", path, holds, body)
	}
	return a.Allowed, nil
}

// now reads the clock of Redis.
func (h *holder) now() (int64, error) { return redisTime(h.Redis) }

// redisTime reads the clock of a Redis in microseconds.
func redisTime(addr string) (int64, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if _, err := conn.Write([]byte("TIME\r\n")); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(conn)
	var words []string // *2, $10, seconds, $n, microseconds
	for len(words) < 5 && lines.Scan() {
		words = append(words, lines.Text())
	}
	if len(words) < 5 {
		return 0, fmt.Errorf("TIME: answered %q, %w", words, io.ErrUnexpectedEOF)
	}
	seconds, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return 0, err
	}
	micros, err := strconv.ParseInt(words[4], 10, 64)
	return seconds*1e6 + micros, err
}

func (h *holder) tell(e holderEvent) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = os.Stdout.Write(append(bytes.TrimSpace(line), '\n'))
}
