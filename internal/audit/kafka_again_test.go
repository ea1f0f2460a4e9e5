package audit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headgate/headgate/internal/eventually"
)

// refusing has a cluster refuse all records while the switch is on.
func refusing(c *kfake.Cluster, on *atomic.Bool, code int16) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !on.Load() {
			return nil, nil, false
		}
		request := r.(*kmsg.ProduceRequest)
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range request.Topics {
			one := kmsg.NewProduceResponseTopic()
			one.Topic, one.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, code
				one.Partitions = append(one.Partitions, p)
			}
			answer.Topics = append(answer.Topics, one)
		}
		return answer, nil, true
	})
}

// What a broker refuses for a while waits, and is written once and in order when it is
// taken.
func TestKafkaRefusalThatPasses(t *testing.T) {
	c, refuse := fake(t), new(atomic.Bool)
	refuse.Store(true)
	refusing(c, refuse, kerr.TopicAuthorizationFailed.Code)
	s := connected(t, c, "", "timeout=1h", SinkOptions{})
	var want []string
	for i := range 5 { // some come while others were refused
		some := ids(fmt.Sprintf("%c", 'a'+i), 4)
		want = append(want, some...)
		s.Write(batch(some...))
		eventually.True(t, "the refusal is seen", func() bool {
			_, _, err := s.Counts()
			return err != nil && strings.Contains(err.Error(), kerr.TopicAuthorizationFailed.Message)
		})
	}
	if w, failed, _ := s.Counts(); w != 0 || failed != 0 {
		t.Errorf("%d written and %d failed while they are refused", w, failed)
	}
	refuse.Store(false)
	written(t, s, uint64(len(want)))
	ends(t, s)
	if _, failed, err := s.Counts(); failed != 0 || err != nil {
		t.Errorf("%d failed: %v", failed, err)
	}
	inOrder(t, c, len(want))
}

// inOrder fails t unless a topic has n records, each once, and each partition has its own
// in order.
func inOrder(t *testing.T, c *kfake.Cluster, n int) {
	t.Helper()
	byPartition, all := map[int32][]string{}, consume(t, c, n)
	for _, r := range all {
		byPartition[r.Partition] = append(byPartition[r.Partition], idOf(t, r))
	}
	for _, got := range byPartition {
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) < len(got) {
			t.Errorf("out of order, or twice: %v", got)
		}
	}
	if len(all) != n {
		t.Errorf("%d records, want %d", len(all), n)
	}
}

// Of two brokers one refuses at once and one when other records wait already: these do not
// overtake what the slow one refuses.
func TestKafkaRefusalOfASlowBroker(t *testing.T) {
	c, refuse := fake(t), new(atomic.Bool)
	for partition := range int32(4) {
		if err := c.MoveTopicPartition(topic, partition, partition%2); err != nil {
			t.Fatal(err)
		}
	}
	slow, first := make(chan struct{}), new(atomic.Int32)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if first.CompareAndSwap(0, c.CurrentNode()+1); first.Load() != c.CurrentNode()+1 {
			c.SleepControl(func() { <-slow })
		}
		return nil, nil, false
	})
	refuse.Store(true)
	refusing(c, refuse, kerr.TopicAuthorizationFailed.Code)
	s := connected(t, c, "", "timeout=1h", SinkOptions{})
	s.Write(batch(ids("a", 16)...)) // some for each broker
	held := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.refused.len()
	}
	eventually.True(t, "the fast broker has refused", func() bool { return held() > 0 })
	before := held()
	s.Write(batch(ids("b", 16)...))
	eventually.True(t, "what follows waits", func() bool { return held() >= before+16 })
	if held() == 32 {
		t.Fatal("no broker was slow")
	}
	close(slow)
	eventually.True(t, "both have refused", func() bool { return held() == 32 })
	refuse.Store(false)
	written(t, s, 32)
	ends(t, s)
	inOrder(t, c, 32)
}

// writesFive writes five events to a sink that has written none, again where a busy machine
// took longer than its timeout.
func writesFive(t *testing.T, s *kafka) {
	t.Helper()
	var before uint64
	eventually.True(t, "five are written", func() bool {
		s.mu.Lock()
		waiting, now := s.waiting, s.written
		s.mu.Unlock()
		if waiting > 0 || now == before+5 {
			return waiting == 0
		}
		before = now
		s.Write(batch(ids("b", 5)...))
		return false
	})
}

// A refusal that does not pass ends with the timeout, one that is of the record itself at
// once.
func TestKafkaRefusalThatStays(t *testing.T) {
	for settings, refusal := range map[string]*kerr.Error{"timeout=1s": kerr.TopicAuthorizationFailed, "timeout=1h": kerr.InvalidRecord} {
		t.Run(refusal.Message, func(t *testing.T) {
			c, refuse := fake(t), new(atomic.Bool)
			refuse.Store(true)
			refusing(c, refuse, refusal.Code)
			s := connected(t, c, "", settings, SinkOptions{})
			s.Write(batch(ids("a", 5)...))
			eventually.True(t, "five have failed", func() bool {
				_, failed, err := s.Counts()
				return failed == 5 && err != nil
			})
			refuse.Store(false)
			writesFive(t, s)
			ends(t, s)
			if _, failed, _ := s.Counts(); failed != 5 && settings == "timeout=1h" {
				t.Errorf("%d failed", failed)
			}
		})
	}
}

// That there is the topic does not tell that a broker takes what it has refused: the refusal
// is told until a record is written.
func TestKafkaRefusalIsToldWhileTheTopicIsThere(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.InvalidRecord, kerr.TopicAuthorizationFailed} {
		t.Run(refusal.Message, func(t *testing.T) {
			c, refuse := fake(t), new(atomic.Bool)
			refuse.Store(true)
			refusing(c, refuse, refusal.Code)
			s := connected(t, c, "", "timeout=1h", SinkOptions{})
			s.Write(batch(ids("a", 5)...))
			eventually.True(t, "five are refused", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.failed == 5 || s.refused.len() == 5
			})
			s.note(s.askTopic(t.Context()))
			if _, _, err := s.Counts(); !errors.Is(err, refusal) {
				t.Errorf("after a look at the topic: %v, want %v", err, refusal)
			}
			s.note(io.ErrUnexpectedEOF)
			s.note(s.askTopic(t.Context()))
			if _, _, err := s.Counts(); !errors.Is(err, refusal) {
				t.Errorf("after a connection broke: %v, want %v", err, refusal)
			}
			refuse.Store(false)
			s.Write(batch(ids("b", 5)...))
			eventually.True(t, "nothing is wrong", func() bool {
				_, _, err := s.Counts()
				return err == nil
			})
			ends(t, s)
		})
	}
}

// What the topic itself tells is over when it tells so no more: nobody waits for a record.
func TestKafkaRefusalOfTheTopicEndsWithIt(t *testing.T) {
	c, refuse := fake(t), new(atomic.Bool)
	s := connected(t, c, "", "timeout=1h", SinkOptions{})
	defer ends(t, s)
	refuse.Store(true)
	refusing(c, refuse, kerr.InvalidRecord.Code)
	s.Write(batch(ids("a", 5)...))
	eventually.True(t, "five have failed", func() bool {
		_, failed, err := s.Counts()
		return failed == 5 && errors.Is(err, kerr.InvalidRecord)
	})
	s.note(fmt.Errorf("topic %s: %w", topic, kerr.InvalidRecord))
	s.note(s.askTopic(t.Context()))
	if _, _, err := s.Counts(); err != nil {
		t.Errorf("the topic is well: %v", err)
	}
}
