package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/internal/credentials"
	"github.com/headgate/headgate/internal/sleep"
	"github.com/headgate/headgate/internal/view"
)

const (
	kafkaPort = "9092"
	// schemaHeader is the header of records that says the version of the events.
	schemaHeader = "schema"
	maxTopic     = 249

	minDelivery, maxDelivery = time.Second, time.Hour
	// askEvery is how often a topic that failed is looked after.
	askEvery = 30 * time.Second
	// clientSlack is how many records more than Buffer the client has room for: it lets
	// go of a record a moment after it has told so.
	clientSlack = 4096
	// closeGrace is how long Close waits, beyond its context, for the client to give up
	// what it has.
	closeGrace = time.Second
)

// kafkaConfig is what the URL of a topic says.
type kafkaConfig struct {
	brokers  []string
	topic    string
	user     string
	password string
	// passwordFile is read for each new connection, in place of password; "" is none.
	passwordFile string
	acks         string
	sasl         string
	compress     string
	secure       *credentials.TLS    // nil: no TLS
	timeout      time.Duration       // until a record that is not written has failed
	via          func(Dialer) Dialer // see SinkOptions
}

// parseKafka reads the URL of a topic. Its errors hold no part of what stands before the
// brokers.
func parseKafka(raw string) (kafkaConfig, error) {
	c := kafkaConfig{acks: "all", compress: "zstd", timeout: 30 * time.Second}
	place, s, err := parsePlace(raw, "kafka")
	if err != nil {
		return c, err
	}
	if c.brokers, err = brokersOf(place.Host); err != nil {
		return c, err
	}
	if c.topic = strings.TrimPrefix(place.Path, "/"); !isTopic(c.topic) {
		return c, fmt.Errorf("the URL names no topic, or none that may be; hint: kafka://host:9092/topic, with letters, digits, '.', '_' and '-', at most %d", maxTopic)
	}
	s.choice("acks", &c.acks, "all", "leader", "none")
	s.choice("compression", &c.compress, "zstd", "lz4", "snappy", "gzip", "none")
	s.choice("sasl", &c.sasl, "plain", "scram-sha-256", "scram-sha-512")
	s.duration("timeout", &c.timeout, minDelivery, maxDelivery)
	c.readAccess(place.User, s)
	return c, s.check()
}

// brokersOf reads host:port,host:port.
func brokersOf(text string) ([]string, error) {
	var brokers []string
	for broker := range strings.SplitSeq(text, ",") {
		host, port, err := net.SplitHostPort(broker)
		if err != nil {
			host, port, err = net.SplitHostPort(broker + ":" + kafkaPort)
		}
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
			return nil, errors.New("the URL names no broker, or not as host:port; hint: kafka://host:9092,host:9092/topic")
		}
		brokers = append(brokers, net.JoinHostPort(host, port))
	}
	return brokers, nil
}

// isTopic reports whether Kafka lets a topic be called so.
func isTopic(name string) bool {
	return name != "" && len(name) <= maxTopic && name != "." && name != ".." && ascii.Only(name, "._-")
}

// options are those of the client.
func (c *kafkaConfig) options(buffer int) []kgo.Opt {
	options := []kgo.Opt{
		kgo.ClientID("headgate"),
		kgo.DefaultProduceTopic(c.topic),
		kgo.MaxBufferedRecords(buffer + clientSlack),
		kgo.RecordDeliveryTimeout(c.timeout),
		kgo.UnknownTopicRetries(-1), // RecordDeliveryTimeout is the bound
	}
	switch c.acks {
	case "leader":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "none":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	}
	codec := map[string]kgo.CompressionCodec{
		"zstd": kgo.ZstdCompression(), "lz4": kgo.Lz4Compression(), "snappy": kgo.SnappyCompression(),
		"gzip": kgo.GzipCompression(), "none": kgo.NoCompression(),
	}[c.compress]
	options = append(options, kgo.ProducerBatchCompression(codec, kgo.NoCompression()))
	return append(options, c.access()...)
}

// access are the options by which a client reaches the brokers.
func (c *kafkaConfig) access() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(c.brokers...)}
	switch {
	case c.secure != nil:
		options = append(options, kgo.Dialer(c.dialTLS))
	case c.via != nil:
		options = append(options, kgo.Dialer(c.dialPlain))
	}
	if m := c.mechanism(); m != nil {
		options = append(options, kgo.SASL(m))
	}
	return options
}

// OpenKafka returns the sink of the topic that a URL names, as docs/audit.md has it:
//
//	kafka://user:password@host:9092,host:9092/topic?acks=all&tls=true&ca=FILE&cert=FILE&key=FILE&sasl=scram-sha-256&password_file=FILE&compression=zstd&timeout=30s
//
// An error names what is wrong with the URL, or with a file of it. That no broker
// answers, or that there is no such topic, is none: events wait, up to o.Buffer of them
// and 64 MiB, until timeout.
func OpenKafka(url string, o SinkOptions) (Sink, error) {
	c, err := parseKafka(url)
	if err != nil {
		return nil, fmt.Errorf("events in Kafka: %w", err)
	}
	c.via = o.Via
	return openKafka(c, o)
}

func openKafka(c kafkaConfig, o SinkOptions, more ...kgo.Opt) (*kafka, error) {
	o.Buffer = cmp.Or(o.Buffer, defaultBuffer)
	s := &kafka{
		name:  "kafka://" + strings.Join(c.brokers, ",") + "/" + c.topic,
		topic: c.topic, buffer: o.Buffer, timeout: c.timeout,
	}
	client, err := kgo.NewClient(append(c.options(o.Buffer), append(more, kgo.WithHooks(connects{s}))...)...)
	if err != nil {
		return nil, fmt.Errorf("events in Kafka: %w", err)
	}
	s.client = client
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	s.asking.Go(func() { s.ask(ctx) })
	s.asking.Go(func() { s.sendAgain(ctx) })
	return s, nil
}

// kafka is the Sink of a topic.
type kafka struct {
	name, topic string
	buffer      int
	timeout     time.Duration
	client      *kgo.Client
	asking      sync.WaitGroup
	end         context.CancelFunc // of asking
	// sending is held while records go to the client, so that they do in order. It is
	// taken before mu.
	sending sync.Mutex

	mu              sync.Mutex
	waiting, bytes  int // of what the client has, and of what was refused
	written, failed uint64
	// err is why nothing can be written, as far as records, connections and the topic tell.
	err error
	// refusal is what a broker said of the last record. A record that is written ends it:
	// that there is the topic does not tell that a broker takes what it refused.
	refusal   error
	flushed   bool // all is done but to end the client
	refused   refused
	abandoned bool // Close has counted what waited
}

// Name implements Sink.
func (s *kafka) Name() string { return s.name }

// Counts implements Sink.
func (s *kafka) Counts() (written, failed uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.failed, cmp.Or(s.err, s.refusal)
}

// Write implements Sink.
func (s *kafka) Write(b Batch) {
	records := make([]kgo.Record, s.admit(&b))
	headers := []kgo.RecordHeader{{Key: schemaHeader, Value: strconv.AppendInt(nil, view.EventSchema, 10)}}
	for i := range records {
		r := &records[i]
		// A key of no bytes still is one: its events stay in order too. The time of a
		// record is that of its handing over, because its timeout is counted from then.
		*r = kgo.Record{Key: []byte(b.Events[i].Key), Value: b.line(i), Headers: headers, Timestamp: time.Now().Truncate(time.Millisecond)}
		s.send(r)
	}
}

// send hands a record to the client, which does not wait, or has it wait behind those
// that were refused.
func (s *kafka) send(r *kgo.Record) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	behind := s.refused.len() > 0
	if behind {
		s.refused.behind = append(s.refused.behind, r)
	}
	s.mu.Unlock()
	if !behind {
		s.client.TryProduce(context.Background(), r, s.produced)
	}
}

// admit takes as many events of b as may wait and counts the rest as failed.
func (s *kafka) admit(b *Batch) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(b.Events), s.buffer-s.waiting)
	for n > 0 && s.bytes+b.Events[n-1].End > maxWaitingBytes {
		n--
	}
	if s.abandoned {
		n = 0
	}
	s.failed += uint64(len(b.Events) - n)
	s.waiting += n
	if n > 0 {
		s.bytes += b.Events[n-1].End - n // without line ends
	}
	return n
}

// produced counts what became of a record.
func (s *kafka) produced(r *kgo.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.abandoned {
		return
	}
	if s.err, s.refusal = err, nil; refuses(err) {
		s.err, s.refusal = nil, err
	}
	if err != nil && s.hold(r, err) {
		return
	}
	s.waiting--
	s.bytes -= len(r.Value)
	if err != nil {
		s.failed++
	} else {
		s.written++
	}
}

// note remembers why nothing can be written, or that something can. What is cut off when
// the sink closes says neither: only its own end has done that.
func (s *kafka) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flushed || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	if s.err = err; errors.Is(err, s.refusal) {
		s.refusal = nil // the topic tells of it, and so of its end
	}
}

// connects is told of connections.
type connects struct{ s *kafka }

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c connects) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		c.s.note(err)
	}
}

// ask asks for the topic at first, and then while something is wrong, so that an operator
// need not wait for an event to fail, or to be written. It ends with ctx.
func (s *kafka) ask(ctx context.Context) {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		err := s.askTopic(ctx)
		if ctx.Err() != nil {
			return
		}
		s.note(err)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if _, _, err := s.Counts(); err != nil {
				break
			}
		}
	}
}

// askTopic asks a broker whether there is the topic.
func (s *kafka) askTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &s.topic
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, s.client)
	if err != nil {
		return err
	}
	for i := range answer.Topics {
		if err := kerr.ErrorForCode(answer.Topics[i].ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", s.topic, err)
		}
	}
	return nil
}

// flush waits until the client has nothing any more and nothing is refused, or ctx ends.
func (s *kafka) flush(ctx context.Context) {
	for s.client.Flush(ctx) == nil {
		s.mu.Lock()
		waits := s.waiting > 0
		s.mu.Unlock()
		if !waits {
			return
		}
		if sleep.For(ctx, againEvery) != nil {
			return
		}
		s.again(time.Now())
	}
}

// Close implements Sink.
func (s *kafka) Close(ctx context.Context) error {
	s.end()
	_, before, _ := s.Counts()
	s.flush(ctx) // what could not be flushed is in the counts
	s.mu.Lock()
	s.flushed = true
	wrong := cmp.Or(s.err, s.refusal) // from now on errors only say that the client is closed
	s.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		s.client.Close() // fails what it still has, and ends what a silent broker is asked
		s.asking.Wait()
		close(closed)
	}()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-closed:
	case <-grace.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed += uint64(s.waiting)
	s.abandoned, s.waiting, s.bytes, s.refused = true, 0, 0, refused{}
	if lost := s.failed - before; lost > 0 {
		return fmt.Errorf("audit: %d events were not written to %s: %w", lost, s.name, cmp.Or(wrong, ctx.Err(), s.err))
	}
	return nil
}
