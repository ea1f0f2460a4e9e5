// Package statsd sends counters and times to a statsd server, such as Datadog's agent or
// statsd_exporter: what has been counted since the last time, every so often. Who counts is not
// its matter, and no decision waits for it.
package statsd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

// Snapshot is what was counted by now.
type Snapshot struct {
	Counts []Count
	Times  []Time
}

// Count is a counter since some start; it falls where its start is another.
type Count struct {
	Name string
	N    uint64
}

// Time is how many times of that name were of that length, since some start.
type Time struct {
	Name   string
	Length time.Duration
	N      uint64
}

// Tag is a name with a value that all lines carry.
type Tag struct{ Name, Value string }

// Options configures a Sender; Read is required.
type Options struct {
	// Network is "tcp" or "udp", Address a host and a port.
	Network, Address string
	// Interval is the time between two messages, at least a second.
	Interval time.Duration
	// Dog writes tags as DogStatsD has them, after |#. Without it they are parts of the names,
	// .__name=value.
	Dog bool
	// Tags are put in the order of their names.
	Tags []Tag
	// Read returns what was counted by now.
	Read func() Snapshot
	// OnFailure is told of what could not be sent; nil: nobody is.
	OnFailure func(error)
}

const (
	// maxDatagram bounds a message by UDP: what one frame of Ethernet takes.
	maxDatagram = 1432
	// sendTimeout bounds a connection, and what is sent at one time.
	sendTimeout = 2 * time.Second
)

// Sender sends. Make one with New.
type Sender struct {
	options Options
	suffix  string // of names
	tags    string // after the value
	conn    net.Conn
	// sent is what was sent of each name and length.
	sent map[series]uint64
}

type series struct {
	name   string
	length time.Duration
}

// New returns a Sender. What was counted before its first message is part of that.
func New(o Options) *Sender {
	s := &Sender{options: o, sent: map[series]uint64{}}
	tags := slices.SortedFunc(slices.Values(o.Tags), func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	for i, t := range tags {
		switch {
		case !o.Dog:
			s.suffix += ".__" + t.Name + "=" + t.Value
		case i == 0:
			s.tags = "|#" + t.Name + ":" + t.Value
		default:
			s.tags += "," + t.Name + ":" + t.Value
		}
	}
	return s
}

// Run sends every Options.Interval until ctx ends, and then once more.
func (s *Sender) Run(ctx context.Context) {
	for range sleep.Every(ctx, s.options.Interval) {
		s.Send()
	}
	s.Send()
	s.drop()
}

// Send sends what was counted since the last time that something was sent.
func (s *Sender) Send() {
	lines, now := s.lines(s.options.Read())
	if len(lines) == 0 {
		return
	}
	if err := s.write(lines); err != nil {
		s.drop()
		if s.options.OnFailure != nil {
			s.options.OnFailure(fmt.Errorf("send to statsd at %s://%s: %w", s.options.Network, s.options.Address, err))
		}
		return // all of it is sent the next time
	}
	s.sent = now
}

// lines returns a line for each series that has grown, and what will have been sent then.
func (s *Sender) lines(snapshot Snapshot) (lines []string, now map[series]uint64) {
	now = make(map[series]uint64, len(snapshot.Counts)+len(snapshot.Times))
	add := func(of series, n uint64, value func(since uint64) string) {
		now[of] += n
		since := now[of] - s.sent[of]
		if now[of] < s.sent[of] {
			since = now[of] // it has another start
		}
		if since > 0 {
			lines = append(lines, of.name+s.suffix+":"+value(since)+s.tags+"\n")
		}
	}
	for _, c := range snapshot.Counts {
		add(series{c.Name, 0}, c.N, func(since uint64) string { return strconv.FormatUint(since, 10) + "|c" })
	}
	for _, t := range snapshot.Times {
		add(series{t.Name, t.Length}, t.N, func(since uint64) string {
			// One time stands for so many.
			value := strconv.FormatFloat(t.Length.Seconds()*1e3, 'f', -1, 64) + "|ms"
			if since > 1 {
				value += "|@" + strconv.FormatFloat(1/float64(since), 'g', -1, 64)
			}
			return value
		})
	}
	return lines, now
}

// write sends lines, as many to a message as it takes.
func (s *Sender) write(lines []string) error {
	if s.conn == nil {
		conn, err := net.DialTimeout(s.options.Network, s.options.Address, sendTimeout)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	var message []byte
	for _, line := range lines {
		if len(message)+len(line) > maxDatagram && len(message) > 0 {
			if _, err := s.conn.Write(message); err != nil {
				return err
			}
			message = message[:0]
		}
		message = append(message, line...)
	}
	_, err := s.conn.Write(message)
	return err
}

func (s *Sender) drop() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// ParseURL returns the network and address of tcp://host:port or udp://host:port.
func ParseURL(text string) (network, address string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "tcp" && u.Scheme != "udp" || u.Hostname() == "" || u.Port() == "" || u.User != nil || u.RawQuery != "" || u.Path != "" && u.Path != "/" {
		return "", "", errors.New("not the address of a statsd server; hint: udp://host:8125 or tcp://host:8125")
	}
	return u.Scheme, u.Host, nil
}

// ParseTags returns tags from name:value,name:value.
func ParseTags(text string) (tags []Tag, err error) {
	if text == "" {
		return nil, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), ":")
		if !ok || name == "" || value == "" || strings.ContainsAny(pair, "|#@\n=") {
			return nil, fmt.Errorf("%.60q is no tag; hint: name:value,name:value, without | # @ and =", pair)
		}
		tags = append(tags, Tag{name, value})
	}
	return tags, nil
}
