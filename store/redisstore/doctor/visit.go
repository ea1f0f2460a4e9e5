package doctor

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

const (
	// maxReply bounds the bytes of one text that the doctor reads, and
	// maxElements the length of one list: no answer to its questions is longer.
	maxReply    = 1 << 20
	maxElements = 1 << 16
	// maxDepth bounds lists in lists.
	maxDepth = 8
)

// visit says which server to go to, and as whom.
type visit struct {
	network, addr string
	// as has the user, the password and the settings of TLS.
	as *conn.Options
	db int
	// optional says that there are others in its place: what fails is a warning.
	optional bool
	// toldBy says who gave the address, if it was not the user.
	toldBy string
}

// hint adds to text, which is about an address, where that came from.
func (v *visit) hint(text string) string {
	if v.toldBy == "" {
		return text
	}
	return text + "; " + v.toldBy + " tell this address: it must lead to the server from here as well (see announce-ip)"
}

// subject is a server that lets itself be asked, one question at a time, in the
// old form of the protocol (RESP2), which all servers speak.
type subject struct {
	addr     string
	conn     net.Conn
	r        *bufio.Reader
	deadline func() time.Time
	info     string // the text of INFO, empty if it is refused
	// key is the one that is written for a moment.
	key string
}

func (p *subject) close() { p.conn.Close() }

// visit goes to a server step by step, and returns nil when a step failed.
func (d *doctor) visit(ctx context.Context, v visit) *subject {
	steps := len(d.report.Checks)
	p := d.enter(ctx, v)
	if p == nil && v.optional {
		for i := range d.report.Checks[steps:] {
			if c := &d.report.Checks[steps+i]; c.Status == store.CheckProblem {
				c.Status = store.CheckWarning
			}
		}
	}
	return p
}

func (d *doctor) enter(ctx context.Context, v visit) *subject {
	fresh, err := v.as.Fresh()
	if err != nil {
		d.blame("credentials", v.addr, err)
		return nil
	}
	v.as = fresh
	d.secrets = append(d.secrets, fresh.Secrets()...)
	if !d.resolve(ctx, v) {
		return nil
	}
	p := d.connect(ctx, v)
	if p == nil {
		return nil
	}
	if d.greet(ctx, v, p) && d.authenticate(v, p) {
		return p
	}
	p.close()
	return nil
}

// resolve looks the host up.
func (d *doctor) resolve(ctx context.Context, v visit) bool {
	host, _, err := net.SplitHostPort(v.addr)
	if v.network == "unix" || err != nil || net.ParseIP(host) != nil {
		return true
	}
	ctx, cancel := context.WithDeadline(ctx, d.deadline(ctx))
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		d.say(store.Check{Name: "resolve", Server: v.addr, Status: store.CheckProblem, Found: "the host name is unknown: " + plainError(err), Hint: v.hint("check the spelling, and the DNS of this machine")})
		return false
	}
	slices.Sort(ips)
	d.say(store.Check{Name: "resolve", Server: v.addr, Status: store.CheckOK, Found: strings.Join(ips, ", ")})
	return true
}

// connect makes the connection, with TLS if it is wanted.
func (d *doctor) connect(ctx context.Context, v visit) *subject {
	bounded, cancel := context.WithDeadline(ctx, d.deadline(ctx))
	defer cancel()
	link, err := new(net.Dialer).DialContext(bounded, v.network, v.addr)
	if err != nil {
		_, hint := conn.Classify(err)
		if errors.Is(bounded.Err(), context.DeadlineExceeded) || isTimeoutError(err) {
			hint = "nothing answers there: check host and port, and the firewalls in between"
		}
		d.say(store.Check{Name: "connect", Server: v.addr, Status: store.CheckProblem, Found: plainError(err), Hint: v.hint(hint)})
		return nil
	}
	d.say(store.Check{Name: "connect", Server: v.addr, Status: store.CheckOK, Found: "connected"})
	p := &subject{addr: v.addr, conn: link, key: d.options.Prefix + "doctor", deadline: func() time.Time { return d.deadline(ctx) }}
	if v.as.TLS != nil {
		if p.conn = d.handshake(bounded, v, link); p.conn == nil {
			link.Close()
			return nil
		}
	}
	p.r = bufio.NewReader(p.conn)
	return p
}

// speaksPlain reports whether the server answers without TLS.
func (d *doctor) speaksPlain(v visit) bool {
	link, err := net.DialTimeout(v.network, v.addr, d.options.DialTimeout)
	if err != nil {
		return false
	}
	defer link.Close()
	return conn.AskFirst(link, time.Now().Add(d.options.DialTimeout)) == nil
}

// speaksTLS reports whether the server answers a TLS handshake, whoever it is.
func (d *doctor) speaksTLS(v visit) bool {
	dialer := &net.Dialer{Timeout: d.options.DialTimeout}
	// Nothing is sent over this connection: it only asks which language is
	// spoken.
	link, err := tls.DialWithDialer(dialer, v.network, v.addr, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		link.Close()
	}
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert)
}

// greet makes sure that a Redis answers.
func (d *doctor) greet(ctx context.Context, v visit, p *subject) bool {
	err := conn.AskFirst(p.conn, d.deadline(ctx))
	var refused *conn.Refusal
	switch {
	case err == nil:
		d.say(store.Check{Name: "protocol", Server: v.addr, Status: store.CheckOK, Found: "a Redis answers"})
		return true
	case errors.As(err, &refused):
		d.blame("protocol", v.addr, err)
	case v.as.TLS == nil && v.network == "tcp" && d.speaksTLS(v):
		d.say(store.Check{Name: "protocol", Server: v.addr, Status: store.CheckProblem, Found: "the server speaks TLS there, and was asked without", Hint: "use rediss:// (rediss+sentinel://, rediss+cluster://; sentinel_tls=true for sentinels alone), or its port without TLS"})
	default:
		_, hint := conn.Classify(err)
		found := plainError(err)
		if errors.Is(err, io.EOF) {
			found = "the server closed the connection"
		}
		if isTimeoutError(err) {
			hint = "the port is open but nothing answers: the process hangs, or it is no Redis"
		}
		d.say(store.Check{Name: "protocol", Server: v.addr, Status: store.CheckProblem, Found: found, Hint: hint})
	}
	return false
}

// authenticate presents user and password, chooses the database, and reads what
// kind of server it is.
func (d *doctor) authenticate(v visit, p *subject) bool {
	if v.as.Password != "" || v.as.Username != "" {
		words := []string{"AUTH", v.as.Password}
		if v.as.Username != "" {
			words = []string{"AUTH", v.as.Username, v.as.Password}
		}
		if _, err := p.do(words...); err != nil {
			d.blame("auth", v.addr, err)
			return false
		}
	}
	if _, err := p.do("PING"); err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
		d.blame("auth", v.addr, err)
		return false
	}
	who := "no password is asked for"
	if v.as.Password != "" {
		who = "accepted"
	}
	if reply, err := p.do("ACL", "WHOAMI"); err == nil {
		who += ", user " + text(reply)
	}
	d.say(store.Check{Name: "auth", Server: v.addr, Status: store.CheckOK, Found: who})
	if v.db != 0 {
		if _, err := p.do("SELECT", strconv.Itoa(v.db)); err != nil {
			d.blame("database", v.addr, err)
			return false
		}
	}
	if reply, err := p.do("INFO"); err == nil {
		p.info = text(reply)
	}
	return true
}

// mode returns "standalone", "cluster" or "sentinel", or "" where the server does
// not tell.
func (p *subject) mode() string {
	if mode := field(p.info, "redis_mode"); mode != "" {
		return mode
	}
	// Valkey has its own word, and an old one for others.
	if mode := field(p.info, "server_mode"); mode != "" {
		return mode
	}
	if _, err := p.do("CLUSTER", "INFO"); err == nil {
		return "cluster"
	} else if isRefusal(err) && strings.Contains(err.Error(), "cluster support disabled") {
		return "standalone"
	}
	return ""
}

// masters names the primaries that a sentinel watches.
func (p *subject) masters() string {
	reply, err := p.do("SENTINEL", "MASTERS")
	list, ok := reply.([]any)
	if err != nil || !ok {
		return "none that it tells"
	}
	var names []string
	for _, one := range list {
		words := texts(one)
		for i := 0; i+1 < len(words); i += 2 {
			if words[i] == "name" {
				names = append(names, strconv.Quote(words[i+1]))
			}
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// do asks one question. The error is a *refusal for an error reply.
func (p *subject) do(words ...string) (any, error) {
	if err := p.conn.SetDeadline(p.deadline()); err != nil {
		return nil, err
	}
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := p.conn.Write(b); err != nil {
		return nil, err
	}
	reply, err := readReply(p.r, 0)
	if err != nil {
		return nil, err
	}
	if refused, ok := reply.(*conn.Refusal); ok {
		return nil, refused
	}
	return reply, nil
}

// readReply reads a string, an int64, a list ([]any), nil or a *refusal.
func readReply(r *bufio.Reader, depth int) (any, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || depth > maxDepth {
		return nil, conn.ErrNotRedis
	}
	kind, rest := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return &conn.Refusal{Text: rest}, nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, conn.ErrNotRedis
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$' && n <= maxReply:
		data := make([]byte, n+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, err
		}
		return string(data[:n]), nil
	case kind == '*' && n <= maxElements:
		var list []any
		for range n {
			one, err := readReply(r, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	}
	return nil, conn.ErrNotRedis
}

// text returns a reply that is text.
func text(reply any) string {
	s, _ := reply.(string)
	return s
}

// texts returns the texts of a list; what is none is "".
func texts(reply any) []string {
	list, _ := reply.([]any)
	var all []string
	for _, one := range list {
		all = append(all, text(one))
	}
	return all
}

// field returns the value of "name:value" in an answer to INFO.
func field(info, name string) string {
	for known, value := range conn.InfoLines(info) {
		if known == name {
			return value
		}
	}
	return ""
}

func isTimeoutError(err error) bool {
	var n net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// clusterNode is a primary of a cluster, and one of its slots.
type clusterNode struct {
	addr string
	slot uint16
}

// clusterNodes reads the answer to CLUSTER SLOTS of the node at addr: the
// primaries in the order of their first slots, and how many slots they have.
func clusterNodes(reply any, addr string) (nodes []clusterNode, covered int) {
	ranges, _ := reply.([]any)
	known := map[string]bool{}
	host, _, _ := net.SplitHostPort(addr)
	for _, one := range ranges {
		parts, _ := one.([]any)
		if len(parts) < 3 {
			continue
		}
		from, ok1 := parts[0].(int64)
		to, ok2 := parts[1].(int64)
		at := nodeAt(parts[2], host)
		if !ok1 || !ok2 || from < 0 || to < from || to >= conn.HashSlots || at == "" {
			continue
		}
		if covered += int(to - from + 1); !known[at] {
			known[at] = true
			nodes = append(nodes, clusterNode{at, uint16(from)})
		}
	}
	return nodes, covered
}
