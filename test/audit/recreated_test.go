package audit

import (
	"context"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// A topic is deleted and made again while events come: what is decided after that is
// written to it, by the same process, and nothing has failed.
func TestTopicDeletedAndMadeAgain(t *testing.T) {
	server := testserver.Kafka(t)
	const topic = "events"
	server.CreateTopic(topic, partitions)
	sink, err := audit.OpenKafka("kafka://"+server.Addr+"/"+topic+"?timeout=10m", audit.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recorder := audit.New(audit.Options{Node: "n", Sample: 1, PlainKeys: true, Sinks: []audit.Sink{sink}})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { recorder.Run(ctx) })
	d := newDecider(t, recorder)
	d.decide()
	eventually.True(t, "the first events are written", func() bool { return recorder.Stats().Sinks[0].Written == ticks*perTick })

	server.DeleteTopic(topic)
	server.CreateTopic(topic, partitions)
	d.decided = map[string][]string{}
	d.decide()
	eventually.True(t, "the events after that are written", func() bool { return recorder.Stats().Sinks[0].Written == 2*ticks*perTick })

	stop()
	running.Wait()
	if s := closed(t, recorder).Sinks[0]; s.Failed != 0 || s.Error != "" {
		t.Errorf("%+v", s)
	}
	got := consume(t, server.Addr, topic, 1)
	t.Logf("%d events were decided after the topic was deleted; it has %d records", ticks*perTick, got.records)
	// Some may have come into the topic that was deleted. The last one of each key is in
	// the new one.
	for key, want := range d.decided {
		if list := got.events[key]; len(list) == 0 || list[len(list)-1] != want[len(want)-1] {
			t.Errorf("%s: %d events in the topic, the last decided is not the last there", key, len(list))
		}
	}
}
