package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// command returns a command of Redis in bytes.
func command(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// loggedIn returns a command of who has shown a token.
func loggedIn(token string, args ...string) string { return command("AUTH", token) + command(args...) }

// badCommands are commands of Redis that are not as they should be, of who may do everything
// and of who has not logged in.
func (f *fleet) badCommands() (list []input) {
	in := command("AUTH", f.tokens["all"])
	for name, data := range map[string]string{
		"no arguments":               "*0\r\n*-1\r\n\r\n",
		"a count of 2^63":            "*9223372036854775808\r\n",
		"a count of a million":       in + "*1000000\r\n",
		"a count of text":            in + "*x\r\n",
		"a length of 512 MiB":        in + "*1\r\n$536870912\r\n",
		"a length below 0":           in + "*1\r\n$-1\r\n",
		"an argument of 1 MiB":       in + "*1\r\n$1048576\r\n" + strings.Repeat("a", 1<<20) + "\r\n",
		"an argument that is no end": in + "*1\r\n$4\r\nPINGx\r\n",
		"an argument that is cut":    in + "*2\r\n$4\r\nECHO\r\n$100\r\nabc",
		"a number for an argument":   in + "*1\r\n:1\r\n",
		"a line of 1 MiB":            in + strings.Repeat("a", 1<<20),
		"a million line ends":        in + strings.Repeat("\r\n", 1<<20),
		"a name of 64 KiB":           in + command(strings.Repeat("a", 1<<16)),
		"a name of line ends":        in + command("\r\n+OK\r\n"),
		"commands that write":        in + command("SET", "a", "b") + command("FLUSHALL") + command("CONFIG", "SET", "dir", "/tmp") + command("EVAL", "return 1", "0") + command("SHUTDOWN"),
		"MULTI":                      in + command("MULTI") + command("EXEC"),
		"10,000 wrong tokens":        strings.Repeat(command("AUTH", "hgct_wrong"), 10_000),
		"a token of another kind":    loggedIn(f.tokens["admin"], "HEADGATE.CHECK", "d", "victim=v"),
		"a token in HELLO":           command("HELLO", "3", "AUTH", "default", f.tokens["expired"]) + command("HEADGATE.CHECK", "d", "victim=v"),
		"no token":                   command("HEADGATE.CHECK", "d", "victim=v"),
		"before the token":           command("HEADGATE.CHECK", "d", "victim=v") + in,
		"a reset":                    in + command("RESET") + command("HEADGATE.CHECK", "d", "victim=v"),
		"no domain":                  in + command("HEADGATE.CHECK", "", "victim=v"),
		"the domain of callers":      in + command("HEADGATE.CHECK", "headgate.caller", "key=k"),
		"no entry":                   in + command("HEADGATE.CHECK", "d", "victim"),
		"an entry without a key":     in + command("HEADGATE.CHECK", "d", "=v"),
		"33 entries":                 in + command(append([]string{"HEADGATE.CHECK", "d"}, strings.Fields(strings.Repeat("victim=v ", 33))...)...),
		"hits of 2^63":               in + command("HEADGATE.CHECK", "d", "victim=v", "HITS", "9223372036854775808"),
		"hits of -2^63":              in + command("HEADGATE.CHECK", "d", "victim=v", "HITS", "-9223372036854775808"),
		"half a hit":                 in + command("HEADGATE.CHECK", "d", "victim=v", "HITS", "0.5"),
		"an empty id":                in + command("HEADGATE.CHECK", "d", "victim=v", "ID", ""),
		"an id of 257 bytes":         in + command("HEADGATE.CHECK", "d", "victim=v", "ID", strings.Repeat("i", 257)),
		"a quantity of 2^63-1":       in + command("CL.THROTTLE", "k", "1", "1", "1", "9223372036854775807"),
		"a burst of 2^63-1":          in + command("CL.THROTTLE", "k", "9223372036854775807", "1", "1"),
		"a period of 2^63-1":         in + command("CL.THROTTLE", "k", "1", "1", "9223372036854775807"),
		"a rate of nothing":          in + command("CL.THROTTLE", "k", "1", "0", "0"),
		"a rate below 0":             in + command("CL.THROTTLE", "k", "1", "-1", "-1"),
		"an empty key":               in + command("CL.THROTTLE", "", "1", "1", "1"),
	} {
		list = append(list, input{name, "redis", []byte(data), true})
	}
	return list
}

// badProxyHeaders are what a load balancer never sends, each before a request that is good.
func badProxyHeaders() (list []input) {
	const get = "GET /v1/usage HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
	const signature = "\r\n\r\n\x00\r\nQUIT\n"
	for name, data := range map[string]string{
		"none":                         get,
		"nothing":                      "",
		"a part of it":                 "PROXY TCP4 10.0",
		"without a carriage return":    "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\n" + get,
		"in lower case":                "proxy TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + get,
		"twice the blank":              "PROXY  TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + get,
		"no such family":               "PROXY UDP4 10.0.0.1 10.0.0.2 1 2\r\n" + get,
		"an address of another family": "PROXY TCP4 ::1 ::1 1 2\r\n" + get,
		"an address that is none":      "PROXY TCP4 999.0.0.1 10.0.0.2 1 2\r\n" + get,
		"an address with a zone":       "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n" + get,
		"a port beyond 65535":          "PROXY TCP4 10.0.0.1 10.0.0.2 65536 2\r\n" + get,
		"a port below 0":               "PROXY TCP4 10.0.0.1 10.0.0.2 -1 2\r\n" + get,
		"a port with a zero before":    "PROXY TCP4 10.0.0.1 10.0.0.2 01 2\r\n" + get,
		"a word too many":              "PROXY TCP4 10.0.0.1 10.0.0.2 1 2 3\r\n" + get,
		"a word too few":               "PROXY TCP4 10.0.0.1 10.0.0.2 1\r\n" + get,
		"a line of 1 MiB":              "PROXY TCP4 " + strings.Repeat("1", 1<<20) + "\r\n" + get,
		"version 1 twice":              strings.Repeat("PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", 2) + get,
		"version 2 after version 1":    "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + signature + "\x21\x11\x00\x0c\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x01\x00\x02" + get,
		"a part of version 2":          signature + "\x21",
		"version 3":                    signature + "\x31\x11\x00\x0c\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x01\x00\x02" + get,
		"a command that is none":       signature + "\x2f\x11\x00\x0c\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x01\x00\x02" + get,
		"a family that is none":        signature + "\x21\xf1\x00\x0c\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x01\x00\x02" + get,
		"a length that is too short":   signature + "\x21\x11\x00\x04\x0a\x00\x00\x01" + get,
		"a length that is never met":   signature + "\x21\x11\xff\xff\x0a\x00\x00\x01",
		"a field beyond the header":    signature + "\x21\x11\x00\x0f\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x01\x00\x02\x01\xff\xff" + get,
		"no address":                   signature + "\x20\x00\x00\x00" + get,
		"garbage":                      "\xff\xfe\xfd" + get,
	} {
		list = append(list, input{name, "usage", []byte(data), true})
	}
	return list
}

// victimsCheck is the check of the victim, which has an id.
const victimsCheck = `{"domain":"d","descriptors":[{"entries":[{"key":"victim","value":"v"}],"hits":7}],"id":"taken"}`

// takenIDs are checks by the id of the victim's: by others, with other hits, and by other ways
// in. Whoever repeats it as it was is told the first answer, and charges nothing.
func (f *fleet) takenIDs() (list []input) {
	ask := func(name, token, body string, refused bool) {
		list = append(list, input{name, "http", request(http.MethodPost, "/v1/check", f.tokens[token], body), refused})
	}
	with := func(old, new string) string { return strings.Replace(victimsCheck, old, new, 1) }
	for _, who := range []string{"check", "all"} {
		ask("as it was by "+who, who, victimsCheck, false)
		ask("fewer hits by "+who, who, with(`"hits":7`, `"hits":1`), true)
		ask("a peek by "+who, who, with(`"hits":7`, `"hits":0`), true)
		ask("a charge by "+who, who, with(`"hits":7`, `"hits":7,"op":"charge"`), true)
		ask("given back by "+who, who, with(`"hits":7`, `"hits":-7`), true)
		ask("a reset by "+who, who, with(`"hits":7`, `"op":"reset"`), true)
		for name, id := range map[string]string{"an empty id": `""`, "an id of null": "null", "an id of a number": "7", "an id of a list": `["taken"]`, "an id of 257 bytes": `"` + strings.Repeat("i", 257) + `"`} {
			ask(name+" by "+who, who, with(`"taken"`, id), true)
		}
		list = append(list, input{"over Redis, as it was, by " + who, "redis", []byte(loggedIn(f.tokens[who], "HEADGATE.CHECK", "d", "victim=v", "HITS", "7", "ID", "taken")), false},
			input{"over Redis, fewer hits, by " + who, "redis", []byte(loggedIn(f.tokens[who], "HEADGATE.CHECK", "d", "victim=v", "ID", "taken")), true})
	}
	return list
}

// badRaises are raises of limits that may not be, by an admin.
func (f *fleet) badRaises() (list []input) {
	const until = `"until":"2999-01-01T00:00:00Z","reason":"x"`
	for name, raise := range map[string][2]string{
		"by nothing":                   {"raise:d.user", `{"state":"raised","raise":0,` + until + `}`},
		"by 101 %":                     {"raise:d.user", `{"state":"raised","raise":101,` + until + `}`},
		"by less than nothing":         {"raise:d.user", `{"state":"raised","raise":-1,` + until + `}`},
		"by 2^63":                      {"raise:d.user", `{"state":"raised","raise":9223372036854775808,` + until + `}`},
		"by half":                      {"raise:d.user", `{"state":"raised","raise":0.5,` + until + `}`},
		"without an end":               {"raise:d.user", `{"state":"raised","raise":10,"reason":"x"}`},
		"for a share":                  {"raise:d.user", `{"state":"raised","raise":10,"percent":10,` + until + `}`},
		"of a sensitive rule":          {"raise:d.login", `{"state":"raised","raise":10,` + until + `}`},
		"of everything":                {"raise:", `{"state":"raised","raise":10,` + until + `}`},
		"in another state":             {"raise:d.user", `{"state":"off","raise":10,` + until + `}`},
		"of a target that is no raise": {"d.user", `{"state":"raised","raise":10,` + until + `}`},
	} {
		list = append(list, input{name, "admin", request(http.MethodPut, "/admin/v1/switches/"+raise[0], f.tokens["admin"], raise[1]), true})
	}
	return list
}

// usageToken makes a token of the customer, which is a secret from then on.
func (f *fleet) usageToken() {
	f.t.Helper()
	status, body, err := f.nodes[0].ask(http.MethodPost, "admin", "/admin/v1/usage-tokens/"+apiKey, f.tokens["admin"], `{"ttl":"24h"}`)
	var made struct{ Token string }
	if err == nil {
		err = json.Unmarshal([]byte(body), &made)
	}
	if err != nil || status != http.StatusCreated || made.Token == "" {
		f.t.Fatalf("a token of the customer: %d, %s, %v", status, body, err)
	}
	f.tokens["usage"] = made.Token
}
