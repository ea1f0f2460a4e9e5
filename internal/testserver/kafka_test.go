package testserver

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestKafkaKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	s := Kafka(t)
	s.CreateTopic("t", 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addr), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	if err := client.ProduceSync(ctx, kgo.StringRecord("kept")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Restart()
	for {
		records := client.PollFetches(ctx).Records()
		if len(records) > 0 {
			if got := string(records[0].Value); got != "kept" {
				t.Errorf("%q", got)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatal("nothing is kept")
		}
	}
}
