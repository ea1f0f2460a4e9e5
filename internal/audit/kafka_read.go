package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// readWait is how long a broker may take to answer, or to send what is there.
	readWait = 30 * time.Second
	// readBytes bounds what is fetched of a partition at once.
	readBytes = 1 << 20
)

// latest asks for the end of a partition in place of a time (KIP-79).
const latest = -1

// Partition is what a partition of a topic has had at one time: its events are in the order in
// which they were handed over.
type Partition struct {
	config kafkaConfig
	number int32
	// Those from start until just before end are read.
	start, end int64
}

// Partitions returns the partitions of the topic that a URL names, as OpenKafka takes it, with what
// they have now of what was handed over at since or later; the zero time is the beginning.
func Partitions(ctx context.Context, url string, since time.Time) ([]Partition, error) {
	c, err := parseKafka(url)
	if err != nil {
		return nil, fmt.Errorf("events in Kafka: %w", err)
	}
	client, err := kgo.NewClient(c.readOptions()...)
	if err != nil {
		return nil, fmt.Errorf("events in Kafka: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	list, err := c.partitions(ctx, client, since)
	if err != nil {
		return nil, fmt.Errorf("read topic %s: %w", c.topic, err)
	}
	return list, nil
}

// readOptions are those of a client that reads.
func (c *kafkaConfig) readOptions(more ...kgo.Opt) []kgo.Opt {
	return append(append([]kgo.Opt{kgo.ClientID("headgate")}, c.access()...), more...)
}

func (c *kafkaConfig) partitions(ctx context.Context, client *kgo.Client, since time.Time) ([]Partition, error) {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &c.topic
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	var list []Partition
	for i := range answer.Topics {
		if err := kerr.ErrorForCode(answer.Topics[i].ErrorCode); err != nil {
			return nil, err
		}
		for _, p := range answer.Topics[i].Partitions {
			list = append(list, Partition{config: *c, number: p.Partition})
		}
	}
	ends, err := c.offsets(ctx, client, list, latest)
	if err != nil {
		return nil, err
	}
	const earliest = -2
	from := int64(earliest)
	if !since.IsZero() {
		from = since.UnixMilli()
	}
	starts, err := c.offsets(ctx, client, list, from)
	if err != nil {
		return nil, err
	}
	for i := range list {
		p := &list[i]
		if p.start, p.end = starts[p.number], ends[p.number]; p.start < 0 {
			p.start = p.end // nothing is so late
		}
	}
	return list, nil
}

// offsets asks where in its partitions a time is, in milliseconds; -1 where nothing is so late.
func (c *kafkaConfig) offsets(ctx context.Context, client *kgo.Client, list []Partition, at int64) (map[int32]int64, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = c.topic
	for i := range list {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = list[i].number, at
		topic.Partitions = append(topic.Partitions, p)
	}
	request.Topics = append(request.Topics, topic)
	offsets := make(map[int32]int64, len(list))
	for _, shard := range client.RequestSharded(ctx, request) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
				}
				offsets[p.Partition] = p.Offset
			}
		}
	}
	if len(offsets) != len(list) {
		return nil, fmt.Errorf("the brokers know %d of %d partitions", len(offsets), len(list))
	}
	return offsets, nil
}

// Name is the partition to people, without secrets.
func (p *Partition) Name() string { return fmt.Sprintf("%s[%d]", p.config.topic, p.number) }

// Open returns the events, one a line. Reads end with an error when ctx does, or when the brokers
// send nothing for 30 seconds though there is more.
func (p *Partition) Open(ctx context.Context) (io.ReadCloser, error) {
	client, err := kgo.NewClient(p.config.readOptions(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.config.topic: {p.number: kgo.NewOffset().At(p.start)}}),
		kgo.FetchMaxPartitionBytes(readBytes), kgo.FetchMaxBytes(readBytes), kgo.MaxConcurrentFetches(1),
	)...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.Name(), err)
	}
	return &partitionReader{ctx: ctx, partition: p, client: client, next: p.start}, nil
}

// partitionReader reads the values of records as lines.
type partitionReader struct {
	ctx       context.Context // of the whole reading: io.Reader has none
	partition *Partition
	client    *kgo.Client
	next      int64 // offset
	lines     []byte
	unread    []byte // the rest of lines
}

// Read implements io.Reader.
func (r *partitionReader) Read(into []byte) (int, error) {
	for len(r.unread) == 0 {
		if r.next >= r.partition.end {
			return 0, io.EOF
		}
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(into, r.unread)
	r.unread = r.unread[n:]
	return n, nil
}

// fetch gets more lines. Records of aborted transactions and those that were compacted away are
// passed over.
func (r *partitionReader) fetch() error {
	ctx, cancel := context.WithTimeout(r.ctx, readWait)
	defer cancel()
	fetches := r.client.PollFetches(ctx)
	if err := fetches.Err0(); errors.Is(err, context.DeadlineExceeded) && r.ctx.Err() == nil {
		return fmt.Errorf("the brokers sent nothing for %v, though there are records from %d to %d", readWait, r.next, r.partition.end)
	} else if err != nil {
		return err
	}
	for _, e := range fetches.Errors() { // the first one
		return e.Err
	}
	r.lines = r.lines[:0]
	fetches.EachRecord(func(record *kgo.Record) {
		if r.next = record.Offset + 1; record.Offset < r.partition.end {
			r.lines = append(append(r.lines, record.Value...), '\n')
		}
	})
	r.unread = r.lines
	return nil
}

// Close implements io.Closer.
func (r *partitionReader) Close() error {
	r.client.Close()
	return nil
}
