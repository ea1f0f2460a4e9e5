package h1

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// seen is what a handler sees of a request.
type seen struct {
	Method, URI, Path, Query, Host, Proto string
	Header                                http.Header
	Length                                int64
	Body                                  string
}

// tell answers with what it sees, in the way that the request asks for.
func tell(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("X-Answer") {
	case "unread":
		return
	case "refused":
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	switch r.Header.Get("X-Answer") {
	case "empty":
		w.WriteHeader(http.StatusNoContent)
		return
	case "nothing":
		return
	case "odd":
		w.Header()["X-Odd"] = []string{"a\r\nb: c", "d"}
		w.WriteHeader(799)
		w.WriteHeader(200)
	case "text":
		io.WriteString(w, "<html>")
		return
	case "close":
		w.Header().Set("Connection", "close")
	case "early":
		w.WriteHeader(http.StatusEarlyHints)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(seen{
		r.Method, r.RequestURI, r.URL.Path, r.URL.RawQuery, r.Host, r.Proto, r.Header, r.ContentLength, string(text),
	})
}

// silent is for what net/http says of wrong requests.
var silent = log.New(io.Discard, "", 0)

func newHTTP(h http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: &protocols, ErrorLog: silent, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute,
	}
}

// patient returns a server that waits for a machine with other things to do.
func patient() *http.Server {
	s := newHTTP(http.HandlerFunc(tell))
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout = time.Hour, time.Hour, time.Hour
	return s
}

// listening serves on pipes until the test ends.
func listening(t testing.TB, s httpServing) *pipes {
	p := newPipes()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(p)
	}()
	t.Cleanup(func() {
		p.Close()
		s.Close()
		<-done
	})
	return p
}

type httpServing interface {
	Serve(net.Listener) error
	Close() error
}

// said is an answer, without what may differ between servers.
type said struct {
	Status int
	Last   bool // the connection ends with it
	Header http.Header
	Body   string
}

// ask sends pieces, each by itself, and returns all answers.
func ask(t testing.TB, to *pipes, pieces ...string) (all []said) {
	t.Helper()
	requests, answers := to.dialHalves()
	defer answers.Close()
	sent := make(chan struct{})
	defer func() { <-sent }()
	defer requests.Close()
	go func() {
		defer close(sent)
		defer requests.Close()
		for _, piece := range pieces {
			if _, err := io.WriteString(requests, piece); err != nil {
				return // the server has heard enough
			}
		}
	}()
	for r := bufio.NewReader(answers); ; {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return all
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		if resp.Header.Get("Date") == "" && resp.StatusCode == http.StatusOK {
			t.Errorf("no Date in %v", resp.Header)
		}
		resp.Header.Del("Date")
		resp.Header.Del("Content-Length")
		if resp.StatusCode/100 != 1 {
			all = append(all, said{resp.StatusCode, resp.Close, resp.Header, string(body)})
		}
	}
}

const plainHead = "POST /v1/check HTTP/1.1\r\nHost: a:80\r\nContent-Length: 2\r\n"

// requests are bytes that clients send, good ones and bad ones.
var requests = map[string]string{
	"plain":                       plainHead + "\r\n{}",
	"two":                         plainHead + "\r\n{}" + plainHead + "\r\n[]",
	"two that differ":             plainHead + "\r\n{}" + plainHead + "X-B: c\r\n\r\n[]" + plainHead + "\r\n()",
	"two of one length":           plainHead + "X-B: c\r\n\r\n{}" + plainHead + "X-B: d\r\n\r\n[]",
	"no body":                     "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	"fields":                      plainHead + "x-a: b\r\nX-A:c\r\nAccept: */*\r\nCookie: a=b\r\ntraceparent:\t00-1 \r\nEmpty:\r\n\r\n{}",
	"keep-alive":                  plainHead + "Connection: Keep-Alive\r\n\r\n{}" + plainHead + "\r\n[]",
	"close":                       plainHead + "Connection: close\r\n\r\n{}" + plainHead + "\r\n[]",
	"close is answered":           plainHead + "X-Answer: close\r\n\r\n{}" + plainHead + "\r\n[]",
	"empty is answered":           plainHead + "X-Answer: empty\r\n\r\n{}" + plainHead + "\r\n[]",
	"nothing is answered":         plainHead + "X-Answer: nothing\r\n\r\n{}" + plainHead + "\r\n[]",
	"odd is answered":             plainHead + "X-Answer: odd\r\n\r\n{}" + plainHead + "\r\n[]",
	"text is answered":            plainHead + "X-Answer: text\r\n\r\n{}",
	"early hints are answered":    plainHead + "X-Answer: early\r\n\r\n{}",
	"unread":                      plainHead + "X-Answer: unread\r\n\r\n{}" + plainHead + "\r\n[]",
	"unread and short":            plainHead + "X-Answer: unread\r\n\r\n{",
	"unread and large":            fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nX-Answer: unread\r\nContent-Length: %d\r\n\r\n", maxBody) + strings.Repeat("a", maxBody) + plainHead + "\r\n{}",
	"refused":                     plainHead + "X-Answer: refused\r\n\r\n{}" + plainHead + "\r\n[]",
	"refused and short":           plainHead + "X-Answer: refused\r\n\r\n",
	"GET":                         "GET /healthcheck HTTP/1.1\r\nHost: a\r\n\r\n" + plainHead + "\r\n{}",
	"POST and GET":                plainHead + "\r\n{}GET /x?y=z HTTP/1.1\r\nHost: a\r\n\r\n" + plainHead + "\r\n{}",
	"query":                       "POST /v1/check?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"escape":                      "POST /v1%2fcheck HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"steps":                       "POST /v1/../check HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"two slashes":                 "POST //v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"whole address":               "POST http://b/v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.0":                    "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.2":                    "POST / HTTP/1.2\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/2":                      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"chunks":                      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + plainHead + "\r\n{}",
	"chunks and length":           plainHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + plainHead + "\r\n{}",
	"chunks in another spelling":  plainHead + "transfer-encoding : chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	"two lengths":                 plainHead + "Content-Length: 3\r\n\r\n{}",
	"two equal lengths":           plainHead + "Content-Length: 2\r\n\r\n{}",
	"length with sign":            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n{}",
	"length of hex":               "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x2\r\n\r\n{}",
	"length of zeros":             "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 00002\r\n\r\n{}",
	"length of more zeros":        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0000000002\r\n\r\n{}",
	"length below zero":           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -2\r\n\r\n{}",
	"no number":                   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n{}",
	"list of lengths":             "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\n{}",
	"huge length":                 "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
	"no length":                   "POST / HTTP/1.1\r\nHost: a\r\n\r\n" + plainHead + "\r\n{}",
	"body is short":               plainHead + "\r\n{",
	"head is short":               plainHead,
	"line is short":               "POST /v1",
	"nothing":                     "",
	"no host":                     "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
	"empty host":                  "POST / HTTP/1.1\r\nHost:\r\nContent-Length: 2\r\n\r\n{}",
	"two hosts":                   plainHead + "Host: b\r\n\r\n{}",
	"host with a user":            "POST / HTTP/1.1\r\nHost: u@a\r\nContent-Length: 2\r\n\r\n{}",
	"host of six":                 "POST / HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 2\r\n\r\n{}",
	"expect":                      plainHead + "Expect: 100-continue\r\n\r\n{}",
	"expect more":                 plainHead + "Expect: more\r\n\r\n{}",
	"upgrade":                     plainHead + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n{}",
	"trailer":                     plainHead + "Trailer: X\r\n\r\n{}",
	"pragma":                      plainHead + "Pragma: no-cache\r\n\r\n{}",
	"LF alone":                    "POST / HTTP/1.1\nHost: a\nContent-Length: 2\n\n{}",
	"LF among CRLF":               "POST / HTTP/1.1\r\nHost: a\nContent-Length: 2\r\n\r\n{}",
	"LF ends the head":            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\n{}",
	"CR in a value":               plainHead + "X: a\rb\r\n\r\n{}",
	"two CR":                      plainHead + "X: a\r\r\n\r\n{}",
	"line goes on":                plainHead + "X: a\r\n b\r\n\r\n{}",
	"first line goes on":          "POST / HTTP/1.1\r\n Host: a\r\nContent-Length: 2\r\n\r\n{}",
	"zero byte in a value":        plainHead + "X: a\x00b\r\n\r\n{}",
	"zero byte in a path":         "POST /\x00 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"high byte in a value":        plainHead + "X: \xff\r\n\r\n{}",
	"blank before the colon":      plainHead + "X : a\r\n\r\n{}",
	"blank before the name":       plainHead + " X: a\r\n\r\n{}",
	"no colon":                    plainHead + "X\r\n\r\n{}",
	"no name":                     plainHead + ": a\r\n\r\n{}",
	"name of other bytes":         plainHead + "X(): a\r\n\r\n{}",
	"blank at the start":          " " + plainHead + "\r\n{}",
	"line at the start":           "\r\n" + plainHead + "\r\n{}",
	"line between":                plainHead + "\r\n{}\r\n" + plainHead + "\r\n[]",
	"lines between":               plainHead + "\r\n{}\r\n\n\n" + plainHead + "\r\n[]",
	"too many lines between":      plainHead + "\r\n{}\r\n\r\n\r\n" + plainHead + "\r\n[]",
	"lines after it":              plainHead + "\r\n{}\r\n\r\n",
	"three bytes after it":        plainHead + "\r\n{}000",
	"four bytes after it":         plainHead + "\r\n{}0000",
	"a byte after a line":         plainHead + "\r\n{}\r\n0",
	"bytes after a line":          plainHead + "\r\n{}\r\n00",
	"method in small letters":     "post / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"protocol in small letters":   "POST / http/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"two blanks":                  "POST  / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"blank at the end":            "POST / HTTP/1.1 \r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"first line of two words":     "POST /\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	"TLS":                         "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	"long value":                  plainHead + "X: " + strings.Repeat("a", maxHead) + "\r\n\r\n{}",
	"longer than anybody takes":   plainHead + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\n{}",
	"as long as it may be":        longHead(maxHead) + "{}" + plainHead + "\r\n[]",
	"longer by one":               longHead(maxHead+1) + "{}" + plainHead + "\r\n[]",
	"many fields":                 plainHead + strings.Repeat("X: a\r\n", maxFields) + "\r\n{}",
	"as many fields as may be":    plainHead + strings.Repeat("X: a\r\n", maxFields-2) + "\r\n{}",
	"large body":                  fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", maxBody) + strings.Repeat("a", maxBody) + plainHead + "\r\n{}",
	"larger body":                 fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", maxBody+1) + strings.Repeat("a", maxBody+1) + plainHead + "\r\n{}",
	"body that looks like a head": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 63\r\n\r\n" + plainHead + "\r\n{}" + plainHead + "\r\n[]",
}

// longHead is a head of n bytes.
func longHead(n int) string {
	const name, end = "X: ", "\r\n\r\n"
	return plainHead + name + strings.Repeat("a", n-len(plainHead)-len(name)-len(end)) + end
}

// TestSameAsNetHTTP: whatever bytes come, in one piece or byte by byte, the answers are those of
// net/http, and so is what handlers see.
func TestSameAsNetHTTP(t *testing.T) {
	theirs := listening(t, patient())
	ours := listening(t, New(patient()))
	for name, bytes := range requests {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			want := ask(t, theirs, bytes)
			if got := ask(t, ours, bytes); !reflect.DeepEqual(got, want) {
				t.Errorf("answers\n%v, want\n%v", got, want)
			}
			if len(bytes) > 1<<10 {
				return
			}
			if got := ask(t, ours, strings.Split(bytes, "")...); !reflect.DeepEqual(got, want) {
				t.Errorf("byte by byte\n%v, want\n%v", got, want)
			}
		})
	}
}

// TestSameBytes: an answer is that of net/http in every byte, in the order of its fields too.
func TestSameBytes(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"fields": func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"C", "A", "Z", "B", "X"} {
				w.Header().Add(name, "a")
				w.Header().Add(name, "b")
			}
			io.WriteString(w, "{}")
		},
		"typed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		},
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"status that is not known": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(799)
		},
		"too many": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			w.Header().Set("Late", "a")
			io.WriteString(w, "{}")
		},
		"no content": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "{}"); err != http.ErrBodyNotAllowed {
				t.Errorf("a body beside 204: %v", err)
			}
		},
		"encoded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "{}")
		},
		"of no type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "{}")
		},
		"blanks and names": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["A"] = []string{" \ta \t"}
			w.Header()["B\r\nC"] = []string{"a"}
			w.Header()[""] = []string{"a"}
		},
		"not modified, with a type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotModified)
		},
		"not modified": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotModified)
			io.WriteString(w, "{}")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			bytesOf := func(s httpServing) string {
				p := newPipes()
				go s.Serve(p)
				defer s.Close()
				defer p.Close()
				requests, answers := p.dialHalves()
				defer requests.Close()
				defer answers.Close()
				// The second is net/http's with either server, and ends the connection.
				go io.WriteString(requests, plainHead+"\r\n{}"+plainHead+"Connection: close\r\n\r\n{}")
				all, err := io.ReadAll(answers)
				if err != nil {
					t.Error(err)
				}
				return string(all)
			}
			want := bytesOf(newHTTP(answer))
			if got := bytesOf(New(newHTTP(answer))); got != want {
				t.Errorf("%s: answered\n%s, want\n%s", name, got, want)
			}
		})
	}
}

// FuzzSameAsNetHTTP is TestSameAsNetHTTP for any bytes, which come in two pieces.
func FuzzSameAsNetHTTP(f *testing.F) {
	theirs := listening(f, patient())
	ours := listening(f, New(patient()))
	for _, b := range requests {
		if len(b) < 1<<10 {
			f.Add([]byte(b), uint16(len(b)/2))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		at := min(int(cut), len(b))
		want := ask(t, theirs, string(b))
		if got := ask(t, ours, string(b[:at]), string(b[at:])); !reflect.DeepEqual(got, want) {
			t.Errorf("answers\n%v, want\n%v", got, want)
		}
	})
}

// TestPlainIsServedHere: what is plain is served without net/http, so that what it costs is not
// seen by chance alone.
func TestPlainIsServedHere(t *testing.T) {
	plain := map[string]bool{
		"plain": true, "two": true, "two that differ": true, "two of one length": true, "no body": true, "fields": true, "keep-alive": true,
		"as long as it may be": true, "as many fields as may be": true, "large body": true, "length of zeros": true,
		"host of six": true, "body that looks like a head": true, "nothing is answered": true, "empty is answered": true,
		"odd is answered": true, "text is answered": true, "early hints are answered": true, "close is answered": true,
		"unread": true, "unread and short": true, "unread and large": true, "refused": true, "refused and short": true,
		"body is short": true, "POST and GET": true, "line between": true, "lines between": true, "too many lines between": true, "lines after it": true,
		"three bytes after it": true, "four bytes after it": true, "a byte after a line": true, "bytes after a line": true,
	}
	for name, b := range requests {
		c := newConn(New(newHTTP(nil)), nil)
		c.ctx, c.in = t.Context(), bytes.Clone([]byte(b))
		if got := c.find(); (got == whole) != plain[name] {
			t.Errorf("%s: found %d", name, got)
		}
	}
}
