package hostile

import (
	"fmt"
	"strings"

	"golang.org/x/net/http2"
)

// input is some bytes for a listener.
type input struct {
	name, listener string
	data           []byte
	// refused says that no answer may be one of success.
	refused bool
}

// noRequests are bytes that are no good requests, for a listener that speaks HTTP/1.1.
func noRequests(listener string) (list []input) {
	const get = "GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
	const post = "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
	for name, data := range map[string]string{
		"nothing":                         "",
		"a line end":                      "\r\n",
		"a thousand line ends":            strings.Repeat("\r\n", 1000),
		"a null byte":                     "\x00",
		"random bytes":                    "\x9d\x01\xff\x8a\x00\x13\x37\xfe\xed\xfa\xce",
		"a greeting of TLS":               "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
		"SMTP":                            "EHLO example.com\r\n",
		"RESP":                            "*1\r\n$8\r\nFLUSHALL\r\n",
		"the PROXY protocol":              "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + get + "\r\n",
		"the PROXY protocol, version 2":   "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x01\x00\x02" + get + "\r\n",
		"a method alone":                  "GET\r\n\r\n",
		"no version":                      "GET /x\r\n\r\n",
		"a version that is none":          "GET /x HTTP/9.9\r\nHost: a\r\n\r\n",
		"version 1.0 without a host":      "GET /x HTTP/1.0\r\n\r\n",
		"no host":                         "GET /x HTTP/1.1\r\n\r\n",
		"two hosts":                       "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"a host with a line end":          "GET /x HTTP/1.1\r\nHost: a\rb\r\n\r\n",
		"a foreign host":                  "GET /x HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
		"a host of 64 KiB":                "GET /x HTTP/1.1\r\nHost: " + strings.Repeat("a", 1<<16) + "\r\n\r\n",
		"a path of 2 MiB":                 "GET /" + strings.Repeat("a", 2<<20) + " HTTP/1.1\r\nHost: a\r\n\r\n",
		"a method of 64 KiB":              strings.Repeat("A", 1<<16) + " / HTTP/1.1\r\nHost: a\r\n\r\n",
		"a header of 2 MiB":               get + "X-Long: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
		"30,000 headers":                  get + strings.Repeat("X: y\r\n", 30000) + "\r\n",
		"a header without a colon":        get + "Nonsense\r\n\r\n",
		"a header without a name":         get + ": y\r\n\r\n",
		"a blank before the colon":        get + "X : y\r\n\r\n",
		"a folded header":                 get + "X: y\r\n z\r\n\r\n",
		"a null byte in a header":         get + "X: y\x00z\r\n\r\n",
		"bytes that are no text in it":    get + "X-API-Key: \xff\xfe\xfd\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
		"a header that never ends":        get + "X: y",
		"a path up":                       strings.Replace(get, "/x", "/../../../etc/passwd", 1) + "\r\n",
		"a path up, written in percent":   strings.Replace(get, "/x", "/%2e%2e/%2e%2e/etc/passwd", 1) + "\r\n",
		"a path with a null byte":         strings.Replace(get, "/x", "/a%00b", 1) + "\r\n",
		"a path of bytes that are none":   strings.Replace(get, "/x", "/\xff\xfe", 1) + "\r\n",
		"a path of two slashes":           strings.Replace(get, "/x", "//v1//check", 1) + "\r\n",
		"a bad escape":                    strings.Replace(get, "/x", "/%zz", 1) + "\r\n",
		"a bad escape in the query":       strings.Replace(get, "/x", "/v1/check?a=%zz&%=;", 1) + "\r\n",
		"a whole address":                 strings.Replace(get, "/x", "http://evil.example/v1/check", 1) + "\r\n",
		"an address of a file":            strings.Replace(get, "/x", "file:///etc/passwd", 1) + "\r\n",
		"a star":                          strings.Replace(get, "GET /x", "OPTIONS *", 1) + "\r\n",
		"CONNECT":                         "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
		"TRACE":                           strings.Replace(get, "GET", "TRACE", 1) + "\r\n",
		"a method that nobody knows":      strings.Replace(get, "GET", "FROBNICATE", 1) + "\r\n",
		"a negative length":               post + "Content-Length: -1\r\n\r\n",
		"two lengths":                     post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
		"a length that is no number":      post + "Content-Length: 0x10\r\n\r\n{}",
		"a length of 2^63":                post + "Content-Length: 9223372036854775808\r\n\r\n{}",
		"a length that is never met":      post + "Content-Length: 1000\r\n\r\n{",
		"a length and chunks":             post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n",
		"chunks of chunks":                post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		"an encoding that nobody knows":   post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"a chunk of a bad size":           post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"a chunk of a size beyond 64 bit": post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}\r\n0\r\n\r\n",
		"a chunk that is cut off":         post + "Transfer-Encoding: chunked\r\n\r\n10\r\n{}",
		"a chunk extension of 1 MiB":      post + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("a", 1<<20) + "\r\n{}\r\n0\r\n\r\n",
		"trailers of 2 MiB":               post + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
		"an expectation":                  post + "Expect: nonsense\r\nContent-Length: 2\r\n\r\n{}",
		"a body that is compressed":       post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
		"an upgrade to a web socket":      get + "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
		"an upgrade to h2c":               get + "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"1,000 requests at once":          strings.Repeat("GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 1000) + get + "\r\n",
		"a preface of HTTP/2 and no more": http2.ClientPreface,
		"a preface and garbage":           http2.ClientPreface + strings.Repeat("\xff", 100),
	} {
		list = append(list, input{name: name, listener: listener, data: []byte(data)})
	}
	return list
}

// badFrames are bytes of HTTP/2 that break its rules, or those of gRPC.
func badFrames(listener string) (list []input) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	frame := func(kind, flags byte, stream uint32, payload string) string {
		n := len(payload)
		return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
	}
	// POST, http, the path of the method, application/grpc: all as literals.
	literal := func(name, value string) string {
		return "\x00" + string([]byte{byte(len(name))}) + name + string([]byte{byte(len(value))}) + value
	}
	call := "\x83\x86" + literal(":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit") + literal(":authority", "a") +
		literal("content-type", "application/grpc") + literal("te", "trailers")
	for name, data := range map[string]string{
		"data on stream 0":                  frame(0, 0, 0, "x"),
		"data before headers":               frame(0, 1, 1, "x"),
		"headers on stream 0":               frame(1, 5, 0, call),
		"headers on an even stream":         frame(1, 5, 2, call),
		"headers that are no HPACK":         frame(1, 5, 1, "\xff\xff\xff\xff\xff\xff"),
		"a table of 2^31":                   frame(1, 5, 1, "\x3f\xe1\xff\xff\xff\x0f"),
		"an index that is not there":        frame(1, 5, 1, "\xff\x80\x01"),
		"headers that depend on themselves": frame(1, 0x25, 1, "\x00\x00\x00\x01\x10"+call),
		"padding longer than the frame":     frame(1, 0x0d, 1, "\xff"+call),
		"a continuation of nothing":         frame(9, 4, 1, call),
		"headers that never end":            frame(1, 0, 1, call) + strings.Repeat(frame(9, 0, 1, ""), 2000),
		"another frame within headers":      frame(1, 0, 1, call) + frame(6, 0, 0, "12345678"),
		"a window that grows by 0":          frame(8, 0, 0, "\x00\x00\x00\x00"),
		"a window beyond 2^31":              frame(8, 0, 0, "\x7f\xff\xff\xff") + frame(8, 0, 0, "\x7f\xff\xff\xff"),
		"settings of an odd length":         frame(4, 0, 0, "12345"),
		"settings of a stream":              frame(4, 0, 1, ""),
		"settings of a window beyond 2^31":  frame(4, 0, 0, "\x00\x04\xff\xff\xff\xff"),
		"settings of a frame of 1 byte":     frame(4, 0, 0, "\x00\x05\x00\x00\x00\x01"),
		"an answered settings with text":    frame(4, 1, 0, "123456"),
		"a ping of 7 bytes":                 frame(6, 0, 0, "1234567"),
		"a reset of a stream that is idle":  frame(3, 0, 7, "\x00\x00\x00\x08"),
		"a reset of 3 bytes":                frame(3, 0, 1, "\x00\x00\x00"),
		"a priority of 4 bytes":             frame(2, 0, 1, "1234"),
		"a push":                            frame(5, 4, 1, "\x00\x00\x00\x02"+call),
		"going away at once":                frame(7, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"),
		"a frame of 16 MiB":                 "\xff\xff\xff\x00\x00\x00\x00\x00\x01" + strings.Repeat("a", 1<<16),
		"a kind of frame that is none":      frame(0xee, 0xff, 1, "x"),
		"no path":                           frame(1, 5, 1, "\x83\x86"+literal(":authority", "a")),
		"two paths":                         frame(1, 5, 1, call+literal(":path", "/")),
		"a header in upper case":            frame(1, 5, 1, call+literal("X-Upper", "a")),
		"a connection header":               frame(1, 5, 1, call+literal("connection", "close")),
		"a line end in a header":            frame(1, 5, 1, call+literal("x", "a\r\nb")),
		"10,000 fields":                     frame(1, 5, 1, call+strings.Repeat("\x82", 10000)),
		"no message":                        frame(1, 5, 1, call),
		"a message that is cut off":         frame(1, 4, 1, call) + frame(0, 1, 1, "\x00\x00\x00\x00\x10x"),
		"a message that says it has 4 GiB":  frame(1, 4, 1, call) + frame(0, 1, 1, "\x00\xff\xff\xff\xff"),
		"a compressed message":              frame(1, 4, 1, call) + frame(0, 1, 1, "\x01\x00\x00\x00\x01x"),
		"a flag that is none":               frame(1, 4, 1, call) + frame(0, 1, 1, "\x07\x00\x00\x00\x00"),
		"two messages":                      frame(1, 4, 1, call) + frame(0, 1, 1, strings.Repeat("\x00\x00\x00\x00\x00", 2)),
		"a message that is no protobuf":     frame(1, 4, 1, call) + frame(0, 1, 1, "\x00\x00\x00\x00\x04\xff\xff\xff\xff"),
		"a timeout that is none":            frame(1, 4, 1, call+literal("grpc-timeout", "forever")) + frame(0, 1, 1, "\x00\x00\x00\x00\x00"),
		"a timeout of 0":                    frame(1, 4, 1, call+literal("grpc-timeout", "0n")) + frame(0, 1, 1, "\x00\x00\x00\x00\x00"),
		"a token that is none":              frame(1, 4, 1, call+literal("authorization", "Bearer \xff")) + frame(0, 1, 1, "\x00\x00\x00\x00\x00"),
		"100,000 empty data frames":         frame(1, 4, 1, call) + strings.Repeat(frame(0, 0, 1, ""), 100_000),
		"50,000 pings":                      strings.Repeat(frame(6, 0, 0, "12345678"), 50_000),
		"50,000 settings":                   strings.Repeat(settings, 50_000),
		"2,000 streams that are reset":      resets(frame, call, 2000),
	} {
		list = append(list, input{name: name, listener: listener, data: []byte(http2.ClientPreface + settings + data), refused: true})
	}
	return list
}

// resets opens n streams, each of which is reset at once.
func resets(frame func(byte, byte, uint32, string) string, headers string, n uint32) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(frame(1, 4, 2*i+1, headers))
		b.WriteString(frame(3, 0, 2*i+1, "\x00\x00\x00\x08"))
	}
	return b.String()
}

// badBodies are JSON that is not valid for one who asks for a decision.
func badBodies() map[string]string {
	const good = `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`
	with := func(member string) string { return strings.TrimSuffix(good, "}") + "," + member + "}" }
	list := map[string]string{
		"nothing":                "",
		"null":                   "null",
		"a list":                 "[]",
		"a number":               "7",
		"no members":             "{}",
		"cut off":                good[:len(good)/2],
		"two values":             good + good,
		"a byte order mark":      "\xef\xbb\xbf" + good,
		"no UTF-8":               strings.Replace(good, `"u"`, "\"\xff\xfe\"", 1),
		"half of a pair":         strings.Replace(good, `"u"`, `"\ud800"`, 1),
		"a control letter":       strings.Replace(good, `"u"`, "\"\x01\"", 1),
		"a comma too many":       strings.TrimSuffix(good, "}") + ",}",
		"single quotes":          strings.ReplaceAll(good, `"`, `'`),
		"a comment":              good + "// x",
		"a member twice":         with(`"domain":"d"`),
		"a member in upper case": strings.Replace(good, `"domain"`, `"DOMAIN"`, 1),
		"a member nobody knows":  with(`"nonsense":1`),
		"100,000 levels":         strings.Repeat(`[`, 100_000),
		"levels within":          with(`"x":` + strings.Repeat(`{"x":`, 10_000) + "1" + strings.Repeat("}", 10_000)),
		"a domain of a number":   strings.Replace(good, `"d"`, `1`, 1),
		"an empty domain":        strings.Replace(good, `"d"`, `""`, 1),
		"descriptors of text":    `{"domain":"d","descriptors":"user:u"}`,
		"no descriptors":         `{"domain":"d","descriptors":[]}`,
		"101 descriptors":        `{"domain":"d","descriptors":[` + strings.TrimSuffix(strings.Repeat(`{"descriptor":"user:u"},`, 101), ",") + `]}`,
		"33 entries":             `{"domain":"d","descriptors":[{"entries":[` + strings.TrimSuffix(strings.Repeat(`{"key":"user","value":"u"},`, 33), ",") + `]}]}`,
		"entries of null":        `{"domain":"d","descriptors":[{"entries":[null]}]}`,
		"an entry without a key": `{"domain":"d","descriptors":[{"entries":[{"key":"","value":"u"}]}]}`,
		"a key of a list":        `{"domain":"d","descriptors":[{"entries":[{"key":["user"],"value":"u"}]}]}`,
		"a value of 1 MiB":       strings.Replace(good, `"u"`, `"`+strings.Repeat("u", 1<<20)+`"`, 1),
		"a body of 8 MiB":        strings.Replace(good, `"u"`, `"`+strings.Repeat("u", 8<<20)+`"`, 1),
	}
	for name, hits := range map[string]string{
		"half a hit": "0.5", "hits of text": `"1"`, "hits of 2^63": "9223372036854775808", "hits of 1e400": "1e400", "hits that are not a number": "NaN",
		"hits of true": "true", "hits of a list": "[1]", "hits with a zero before": "01", "hits of plus": "+1", "hits of -2^70": "-1180591620717411303424",
	} {
		list[name] = fmt.Sprintf(`{"domain":"d","descriptors":[{"descriptor":"user:u","hits":%s}]}`, hits)
	}
	return list
}

// badDocuments are bodies that the admin API must refuse, wherever they are put.
func badDocuments() map[string]string {
	return map[string]string{
		"nothing": "", "null": "null", "a list": "[]", "cut off": `{"tier":`, "a member twice": `{"tier":"free","tier":"free"}`,
		"a member in upper case": `{"TIER":"free"}`, "a member nobody knows": `{"tier":"free","nonsense":1}`, "no UTF-8": "{\"tier\":\"\xff\"}",
		"half of a pair": `{"tier":"\ud800"}`, "two values": `{"tier":"free"}{"tier":"free"}`, "a number": `{"tier":1}`,
		"a tier that is not there": `{"tier":"platinum"}`, "a tier of 1 MiB": `{"tier":"` + strings.Repeat("a", 1<<20) + `"}`,
		"a date that is none": `{"tier":"free","effective_at":"tomorrow"}`, "a year beyond 9999": `{"tier":"free","effective_at":"12026-01-01T00:00:00Z"}`,
		"100,000 levels": strings.Repeat("[", 100_000), "a limit below 0": `{"overrides":[{"requests_per_unit":-1,"unit":"minute"}]}`,
		"a limit of 2^70":    `{"overrides":[{"requests_per_unit":1180591620717411303424,"unit":"minute"}]}`,
		"a unit of nonsense": `{"overrides":[{"requests_per_unit":1,"unit":"fortnight"}]}`, "10,000 overrides": `{"overrides":[` + strings.Repeat(`{"requests_per_unit":1,"unit":"minute"},`, 10_000) + `{}]}`,
	}
}
