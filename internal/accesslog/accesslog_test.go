package accesslog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/accesslog"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func TestCombined(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want accesslog.Line
		err  error
	}{
		"common": {`127.0.0.1 - frank [10/Oct/2026:13:55:36 -0700] "GET /apache_pb.gif?a=b HTTP/1.0" 200 2326`,
			accesslog.Line{At: at("2026-10-10T20:55:36Z"), Method: "GET", Target: "/apache_pb.gif?a=b", Peer: "127.0.0.1", User: "frank", Status: 200}, nil},
		"combined": {`2001:db8::7 - - [22/Nov/2026:12:00:00 +0530] "POST /v1/x HTTP/1.1" 429 0 "https://a.example/" "curl/8.5.0"`,
			accesslog.Line{At: at("2026-11-22T06:30:00Z"), Method: "POST", Target: "/v1/x", Peer: "2001:db8::7", Status: 429, Referer: "https://a.example/", UserAgent: "curl/8.5.0"}, nil},
		"forwarded and more": {`10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "GET / HTTP/2.0" 200 5 "-" "-" "203.0.113.7, 10.0.0.9" 0.003`,
			accesslog.Line{At: at("2026-11-22T12:00:00Z"), Method: "GET", Target: "/", Peer: "10.0.0.1", Status: 200, ForwardedFor: "203.0.113.7, 10.0.0.9"}, nil},
		"escapes of nginx": {`10.0.0.1 - a\x22b [22/Nov/2026:12:00:00 +0000] "GET /\x22 HTTP/1.1" 200 5 "-" "say \x22hi\x22 \xD0\x96\x5C"`,
			accesslog.Line{At: at("2026-11-22T12:00:00Z"), Method: "GET", Target: `/"`, Peer: "10.0.0.1", User: `a"b`, Status: 200, UserAgent: "say \"hi\" Ж\\"}, nil},
		"escapes of Apache": {`10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "GET /\" HTTP/1.1" 200 - "-" "a\tb\\c\xff\q"`,
			accesslog.Line{At: at("2026-11-22T12:00:00Z"), Method: "GET", Target: `/"`, Peer: "10.0.0.1", Status: 200, UserAgent: "a\tb\\c\xff\\q"}, nil},
		"HTTP/0.9 and a space": {`10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "GET /a b" 400 5`,
			accesslog.Line{At: at("2026-11-22T12:00:00Z"), Method: "GET", Target: "/a b", Peer: "10.0.0.1", Status: 400}, nil},
		"TLS to a plain port": {`10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "\x16\x03\x01\x02\x00" 400 150 "-" "-"`, accesslog.Line{}, accesslog.ErrNoRequest},
		"nothing sent":        {`10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "-" 408 - "-" "-"`, accesslog.Line{}, accesslog.ErrNoRequest},
	} {
		var got accesslog.Line
		err := accesslog.ParseCombined(c.line, &got)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		} else if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); c.err == nil && diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCombinedRefuses(t *testing.T) {
	const good = `127.0.0.1 - frank [10/Oct/2026:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "-" "x"`
	for i := range good[:strings.Index(good, " 2326")] {
		if err := accesslog.ParseCombined(good[:i], new(accesslog.Line)); err == nil {
			t.Errorf("%q was taken", good[:i])
		} else if i == 0 && !strings.Contains(err.Error(), "hint: --format") {
			t.Errorf("a line that is no log of this format: %v", err)
		}
	}
	for _, broken := range []string{"31/Feb", "10/Okt", "1/Oct/", "10/Oct/2026:24", "10/Oct/2026:13:60", "10/Oct/2026 13"} {
		line := strings.Replace(good, "10/Oct/2026:13"[:min(len(broken), 14)], broken, 1)
		if err := accesslog.ParseCombined(line, new(accesslog.Line)); err == nil && line != good {
			t.Errorf("%q was taken", line)
		}
	}
}

func TestEnvoy(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want accesslog.Line
		err  error
	}{
		"default": {`[2026-11-22T12:00:00.310Z] "POST /api/v1/locations?x=1 HTTP/2" 204 - 154 0 226 100 "203.0.113.7,10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"`,
			accesslog.Line{At: at("2026-11-22T12:00:00.31Z"), Method: "POST", Target: "/api/v1/locations?x=1", Status: 204, ForwardedFor: "203.0.113.7,10.0.35.28", UserAgent: "nsq2http", Host: "locations"}, nil},
		"limited": {`[2026-11-22T12:00:00.310Z] "GET / HTTP/1.1" 403 RL 0 18 1 - "-" "-" "x" "a.example" "-"`,
			accesslog.Line{At: at("2026-11-22T12:00:00.31Z"), Method: "GET", Target: "/", Status: 403, Host: "a.example", Limited: true}, nil},
		"quotes": {`[2026-11-22T12:00:00.310Z] "GET /a"b HTTP/1.1" 200 RLSE,UF 0 18 1 - "-" "say "hi"" "x" "a.example" "-"`,
			accesslog.Line{At: at("2026-11-22T12:00:00.31Z"), Method: "GET", Target: `/a"b`, Status: 200, UserAgent: `say "hi"`, Host: "a.example"}, nil},
		"empty fields": {`[2026-11-22T12:00:00.310Z] "GET / HTTP/1.1" 200 - 0 18 1 - "" "" "" "" ""`,
			accesslog.Line{At: at("2026-11-22T12:00:00.31Z"), Method: "GET", Target: "/", Status: 200}, nil},
		"no request": {`[2026-11-22T12:00:00.310Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"`, accesslog.Line{}, accesslog.ErrNoRequest},
	} {
		var got accesslog.Line
		err := accesslog.ParseEnvoy(c.line, &got)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		} else if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); c.err == nil && diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Nobody can put an address in the place of his own by a quote.
func TestEnvoyRefusesWhatEndsAField(t *testing.T) {
	for _, line := range []string{
		`[2026-11-22T12:00:00.310Z] "GET / HTTP/1.1" 200 - 0 18 1 - "6.6.6.6" "x,192.0.2.2" "agent" "id" "a.example" "-"`,
		`[2026-11-22T12:00:00.310Z] "GET / HTTP/1.1" 200 - 0 18 1 - "6.6.6.6" "agent" "id" "a.example"`,
		`[2026-11-22T12:00:00.310Z] "GET / HTTP/1.1" 200 - 0 18 1 - "6.6.6.6" "agent" "id" "a.example" "-`,
	} {
		if err := accesslog.ParseEnvoy(line, new(accesslog.Line)); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

func TestCSV(t *testing.T) {
	header := "\ufefftime,Domain,hits,allowed,rule,descriptor,descriptor,entry:user,entry:op,cost,header:X-Api-Key"
	c, err := accesslog.NewCSV(header)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Describes() || !c.Tells() || len(c.Unknown()) != 1 || c.Unknown()[0] != "cost" {
		t.Errorf("%t %t %q", c.Describes(), c.Tells(), c.Unknown())
	}
	var row accesslog.Row
	for _, line := range []string{`1795348800.5,api,3,false,r,"user:a,op:b",,u1,"say ""x"", or",9,k`, "1795348800500,api,3,false,r,\"user:a,op:b\",,u1,\"say \"\"x\"\", or\",9,k\r"} {
		if err := c.Parse(line, &row); err != nil {
			t.Fatal(err)
		}
		want := accesslog.Row{
			Line:   accesslog.Line{At: at("2026-11-22T12:00:00.5Z"), Fields: []accesslog.Field{{Name: "X-Api-Key", Value: "k"}}},
			Domain: "api", Hits: 3, Rule: "r",
			Descriptors: [][]descriptor.Entry{{{Key: "user", Value: "a"}, {Key: "op", Value: "b"}}, {{Key: "user", Value: "u1"}, {Key: "op", Value: `say "x", or`}}},
		}
		if diff := cmp.Diff(want, row, cmpopts.IgnoreUnexported(accesslog.Row{})); diff != "" {
			t.Error(diff)
		}
	}
	for _, text := range []string{"2026-11-22T14:00:00.5+02:00", "2026-11-22 12:00:00.5", "1795348800500000"} {
		c, _ := accesslog.NewCSV("time")
		if err := c.Parse(text, &row); err != nil || !row.At.Equal(at("2026-11-22T12:00:00.5Z")) {
			t.Errorf("%s: %v %v", text, row.At, err)
		}
	}
	for line, want := range map[string]string{
		"1": "1 cells", `1,a,-1,true,,,,,,,`: "column 3", `x,a,1,true,,,,,,,`: "time", `,a,1,true,,,,,,,`: "time",
		`1,a,1,maybe,,,,,,,`: "true or false", `1,a,1,true,,user,,,,,`: "column 6", `"1,a,1,true,,,,,,,`: "closing quote", `"1"1,a,1,true,,,,,,,`: "comma",
	} {
		if err := c.Parse(line, &row); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", line, err, want)
		}
	}
	for header, want := range map[string]string{
		"": "time", "a,b": "time", "time,time": "twice", "time,status,allowed": "one of them", `"time`: "quote", "time" + strings.Repeat(",a", 300): "columns",
	} {
		if _, err := accesslog.NewCSV(header); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q in it", header, err, want)
		}
	}
}

// FuzzCombined takes any line without harm, and gives back what was written as nginx writes it.
func FuzzCombined(f *testing.F) {
	f.Add(`127.0.0.1 - frank [10/Oct/2026:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "-" "x"`, "/a?b", "agent \" \\ é", 200)
	f.Add(`a - b [ ] "" 1`, "/", "\x00\x7f", 429)
	f.Fuzz(func(t *testing.T, line, target, agent string, status int) {
		var got accesslog.Line
		_ = accesslog.ParseCombined(line, &got)
		if strings.ContainsAny(target, " ") || target == "" || status < 100 || status > 999 || agent == "-" {
			return
		}
		line = fmt.Sprintf(`10.0.0.1 - - [22/Nov/2026:12:00:00 +0000] "GET %s HTTP/1.1" %d 5 "-" "%s"`, escaped(target), status, escaped(agent))
		if err := accesslog.ParseCombined(line, &got); err != nil || got.Target != target || got.UserAgent != agent || got.Status != status {
			t.Errorf("%s: %v %+v", line, err, got)
		}
	})
}

// escaped writes text as nginx does in logs.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func FuzzEnvoy(f *testing.F) {
	f.Add(`[2026-11-22T12:00:00.310Z] "GET / HTTP/1.1" 403 RL 0 18 1 - "-" "-" "x" "a.example" "-"`, "/x")
	f.Fuzz(func(t *testing.T, line, target string) {
		var got accesslog.Line
		_ = accesslog.ParseEnvoy(line, &got)
		if target == "" || target == "-" || strings.Contains(target, " ") {
			return
		}
		line = `[2026-11-22T12:00:00.310Z] "GET ` + target + ` HTTP/1.1" 200 - 0 18 1 - "-" "a" "x" "a.example" "-"`
		if err := accesslog.ParseEnvoy(line, &got); err != nil || got.Target != target || got.UserAgent != "a" || got.Status != 200 {
			t.Errorf("%s: %v %+v", line, err, got)
		}
	})
}

// FuzzCSV gives back any cell that was written as RFC 4180 has it, but for those with the end of a line.
func FuzzCSV(f *testing.F) {
	f.Add("time,descriptor", "1,a:b", `say "x", or`)
	f.Fuzz(func(t *testing.T, header, line, cell string) {
		var row accesslog.Row
		if c, err := accesslog.NewCSV(header); err == nil {
			_ = c.Parse(line, &row)
		}
		c, err := accesslog.NewCSV("time,entry:k,entry:l")
		if err != nil {
			t.Fatal(err)
		}
		if cell == "" || strings.ContainsAny(cell, "\r\n") || !utf8.ValidString(cell) {
			return
		}
		if err := c.Parse(`1,"`+strings.ReplaceAll(cell, `"`, `""`)+`",x`, &row); err != nil || row.Descriptors[0][0].Value != cell || row.Descriptors[0][1].Value != "x" {
			t.Errorf("%q: %v %+v", cell, err, row)
		}
	})
}
