package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

// quiet is longer than any visit: a server is asked nothing but what the doctor asks.
const quiet = time.Hour

// visit says which server to go to, and as whom.
type visit struct {
	network, addr string
	// as has the user, the password and the settings of TLS.
	as *conn.Options
	db int
	// optional says that there are others in its place: what fails is a warning.
	optional bool
	// sentinel says that a sentinel is to be there.
	sentinel bool
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

// hintOf returns the hint for an error at the server.
func (v *visit) hintOf(err error) string {
	_, hint := conn.Classify(err)
	if v.sentinel {
		return conn.SentinelHint(err, hint)
	}
	return hint
}

// blameVisit notes a step of a visit that failed.
func (d *doctor) blameVisit(name string, v visit, err error) {
	d.say(store.Check{Name: name, Server: v.addr, Status: store.CheckProblem, Found: plainError(err), Hint: v.hintOf(err)})
}

// subject is a server that lets itself be asked, one question at a time.
type subject struct {
	addr     string
	pipe     *resp.Pipe
	deadline func() time.Time
	info     string // the text of INFO, empty if it is refused
	// key is the one that is written for a moment.
	key string
}

func (p *subject) close() { p.pipe.Close() }

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
	link := d.connect(ctx, v)
	if link == nil {
		return nil
	}
	if !d.greet(ctx, v, link) {
		link.Close()
		return nil
	}
	p := &subject{
		addr: v.addr, pipe: resp.NewPipe(link, resp.Options{Quiet: quiet, Patience: quiet}),
		deadline: func() time.Time { return d.deadline(ctx) }, key: d.options.Prefix + "doctor",
	}
	if !d.authenticate(v, p) {
		p.close()
		return nil
	}
	return p
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

// connect makes the connection, with TLS if it is wanted, and returns nil if it cannot.
func (d *doctor) connect(ctx context.Context, v visit) net.Conn {
	bounded, cancel := context.WithDeadline(ctx, d.deadline(ctx))
	defer cancel()
	link, err := new(net.Dialer).DialContext(bounded, v.network, v.addr)
	if err != nil {
		hint := v.hintOf(err)
		if errors.Is(bounded.Err(), context.DeadlineExceeded) || isTimeoutError(err) {
			hint = "nothing answers there: check host and port, and the firewalls in between"
		}
		d.say(store.Check{Name: "connect", Server: v.addr, Status: store.CheckProblem, Found: plainError(err), Hint: v.hint(hint)})
		return nil
	}
	d.say(store.Check{Name: "connect", Server: v.addr, Status: store.CheckOK, Found: "connected"})
	if v.as.TLS == nil {
		return link
	}
	secure := d.handshake(bounded, v, link)
	if secure == nil {
		link.Close()
	}
	return secure
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
func (d *doctor) greet(ctx context.Context, v visit, link net.Conn) bool {
	err := conn.AskFirst(link, d.deadline(ctx))
	switch {
	case err == nil:
		d.say(store.Check{Name: "protocol", Server: v.addr, Status: store.CheckOK, Found: "a Redis answers"})
		return true
	case conn.IsReply(err):
		d.blame("protocol", v.addr, err)
	case v.as.TLS == nil && v.network == "tcp" && d.speaksTLS(v):
		d.say(store.Check{Name: "protocol", Server: v.addr, Status: store.CheckProblem, Found: "the server speaks TLS there, and was asked without", Hint: "use rediss:// (rediss+sentinel://, rediss+cluster://; sentinel_tls=true for sentinels alone), or its port without TLS"})
	default:
		hint := v.hintOf(err)
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
			d.blameVisit("auth", v, conn.Discreet(err))
			return false
		}
	}
	_, ping := p.do("PING")
	if ping != nil && strings.HasPrefix(ping.Error(), "NOAUTH") {
		d.blameVisit("auth", v, conn.Discreet(ping))
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
	if ping != nil && strings.HasPrefix(ping.Error(), "BUSY") {
		// Everything else would be refused too, which says nothing of rights or settings.
		d.blame("scripts", v.addr, ping)
		return false
	}
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
	} else if conn.IsReply(err) && strings.Contains(err.Error(), "cluster support disabled") {
		return "standalone"
	}
	return ""
}

// masters names the primaries that a sentinel watches.
func (p *subject) masters() string {
	reply, _ := p.do("SENTINEL", "MASTERS")
	list, err := reply.List()
	if err != nil {
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

// do asks one question. The error is a *resp.Error for an error reply; that there is
// nothing is none.
func (p *subject) do(words ...string) (resp.Message, error) {
	ctx, cancel := context.WithDeadline(context.Background(), p.deadline())
	defer cancel()
	reply, err := p.pipe.Ask(ctx, resp.Words(words...)).Message()
	if errors.Is(err, resp.ErrNil) {
		err = nil
	}
	return reply, err
}

// text returns a reply that is text; what is none is "".
func text(reply resp.Message) string {
	s, _ := reply.Text()
	return s
}

// texts returns the texts of a list; what is none is "".
func texts(reply resp.Message) []string {
	list, _ := reply.List()
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
func clusterNodes(reply resp.Message, addr string) (nodes []clusterNode, covered int) {
	ranges, _ := reply.List()
	known := map[string]bool{}
	host, _, _ := net.SplitHostPort(addr)
	for _, one := range ranges {
		parts, _ := one.List()
		if len(parts) < 3 {
			continue
		}
		from, err1 := parts[0].Int()
		to, err2 := parts[1].Int()
		at := nodeAt(parts[2], host)
		if err1 != nil || err2 != nil || from < 0 || to < from || to >= conn.HashSlots || at == "" {
			continue
		}
		if covered += int(to - from + 1); !known[at] {
			known[at] = true
			nodes = append(nodes, clusterNode{at, uint16(from)})
		}
	}
	return nodes, covered
}
