package audit

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/internal/view"
)

const topic = "headgate.events"

func TestParseKafka(t *testing.T) {
	for url, want := range map[string]kafkaConfig{
		"kafka://b1:9092,b2:9093/events": {brokers: []string{"b1:9092", "b2:9093"}, topic: "events", acks: "all", compress: "zstd", timeout: 30 * time.Second},
		"kafka://b1/a.b_c-1?acks=leader&compression=none&timeout=5s": {
			brokers: []string{"b1:9092"}, topic: "a.b_c-1", acks: "leader", compress: "none", timeout: 5 * time.Second},
		"kafka://me:p%40ss%2Fword@[::1]:9092/t?sasl=scram-sha-512": {
			brokers: []string{"[::1]:9092"}, topic: "t", acks: "all", compress: "zstd", timeout: 30 * time.Second,
			user: "me", password: "p@ss/word", sasl: "scram-sha-512"},
	} {
		got, err := parseKafka(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if diff := cmp.Diff(want, got, cmp.AllowUnexported(kafkaConfig{})); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
}

// Nothing of what stands before the brokers is in any error.
func TestKafkaErrorsAreSafe(t *testing.T) {
	for url, want := range map[string]string{
		"kafka://me:s3cret@b1":                                  "no topic",
		"kafka://me:s3cret@b1/a/b":                              "no topic",
		"kafka://me:s3cret@b1/..":                               "no topic",
		"kafka://me:s3cret@/t":                                  "no broker",
		"kafka://me:s3cret@b1:0/t":                              "no broker",
		"kafka://me:s3cret@b1,,b2/t":                            "no broker",
		"kafka://me:s3cret@b1:99999/t":                          "no broker",
		"kafka://me:s3cret@b1/t":                                "sasl",
		"kafka://b1/t?sasl=plain":                               "no user",
		"kafka://me@b1/t?sasl=plain":                            "no password",
		"kafka://me:s3cret@b1/t?sasl=gssapi":                    "scram-sha-256",
		"kafka://me:s3cret@b1/t?sasl=plain&ca=/x.pem":           "tls=true",
		"kafka://me:s3cret@b1/t?sasl=plain&tls=true&ca=/no.pem": "/no.pem",
		"kafka://me:s3cret@b1/t?sasl=plain&acks=2":              "all, leader, none",
		"kafka://me:s3cret@b1/t?sasl=plain&timeout=1ms":         "timeout",
		"kafka://me:s3cret@b1/t?sasl=plain&linger=5ms":          "linger",
		"kafka://me:s3cret/@b1/t?sasl=plain":                    "URL",
		"kafka://me:s3cret%@b1/t?sasl=plain":                    "URL",
		"kafka://me:s3cret@b1/t?sasl=plain&tls=true&tls=":       "more than once",
		"kafka://me:s3cret@b1/t?sasl=plain;x":                   "query",
		"kafka://me:s3cret@b1/t#?sasl=plain":                    "#",
		"redis://me:s3cret@b1/t":                                "kafka://",
	} {
		if _, err := OpenKafka(url, SinkOptions{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q in it", url, err, want)
		}
	}
}

// fake starts brokers that live in this process.
func fake(t testing.TB, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(4, topic)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// connected opens the sink of a topic, which asks brokers anew sooner than it else would.
func connected(t testing.TB, c *kfake.Cluster, user, settings string, o SinkOptions) *kafka {
	t.Helper()
	config, err := parseKafka("kafka://" + user + strings.Join(c.ListenAddrs(), ",") + "/" + topic + "?" + settings)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openKafka(config, o, kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// consume returns n records of the topic, by partition and in their order.
func consume(t testing.TB, c *kfake.Cluster, n int, options ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d records of %d: %v", len(records), n, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

//promise:observability
func TestKafka(t *testing.T) {
	for _, settings := range []string{"", "acks=leader&compression=lz4", "acks=none&compression=none", "compression=gzip", "compression=snappy"} {
		t.Run(settings, func(t *testing.T) {
			begun := time.Now().Truncate(time.Millisecond)
			c := fake(t)
			s := connected(t, c, "", settings, SinkOptions{})
			b := newBench(t, Options{Sample: 1, PlainKeys: true, Sinks: []Sink{s}})
			want := map[string][]string{}
			for i := range 200 {
				key := fmt.Sprintf("everyone:k%d", i%10)
				want[key] = append(want[key], b.ask(key).ID.String())
			}
			b.settle()
			b.close()
			if a := b.Stats(); a.Sinks[0].Written != 200 || a.Sinks[0].Failed != 0 || a.Sinks[0].Error != "" || !adds(t, a) {
				t.Errorf("%+v", a)
			}
			got, partitions := map[string][]string{}, map[string]int32{}
			for _, r := range consume(t, c, 200) {
				key := string(r.Key)
				if p, ok := partitions[key]; ok && p != r.Partition {
					t.Errorf("%s is in partitions %d and %d", key, p, r.Partition)
				}
				partitions[key] = r.Partition
				e, ok := b.Event(idOf(t, r))
				if !ok || e.Key != key || e.TS != noon.UnixMilli() || r.Timestamp.Before(begun) {
					t.Errorf("%s at %v: %+v", key, r.Timestamp, e)
				}
				if len(r.Headers) != 1 || r.Headers[0].Key != "schema" || string(r.Headers[0].Value) != "1" {
					t.Errorf("headers %v", r.Headers)
				}
				got[key] = append(got[key], e.EventID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A sink that is closed while a broker is being dialled has no error: nothing was lost.
func TestKafkaClosedWhileItConnects(t *testing.T) {
	for _, ends := range []error{context.Canceled, kgo.ErrClientClosed} {
		dials := make(chan struct{}, 100)
		config, err := parseKafka("kafka://127.0.0.1:1/" + topic)
		if err != nil {
			t.Fatal(err)
		}
		s, err := openKafka(config, SinkOptions{}, kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials <- struct{}{}
			<-ctx.Done()
			return nil, ends
		}))
		if err != nil {
			t.Fatal(err)
		}
		<-dials
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if w, failed, err := s.Counts(); w != 0 || failed != 0 || err != nil {
			t.Errorf("%d written, %d failed, %v", w, failed, err)
		}
	}
}

// idOf returns the ID of the event in a record.
func idOf(t testing.TB, r *kgo.Record) string {
	t.Helper()
	var e view.Event
	if err := json.Unmarshal(r.Value, &e); err != nil {
		t.Fatalf("%v: %q", err, r.Value)
	}
	return e.EventID
}

// Hashed keys are the keys of records too.
func TestKafkaKeys(t *testing.T) {
	c := fake(t)
	s := connected(t, c, "", "", SinkOptions{})
	b := newBench(t, Options{Sample: 1, Sinks: []Sink{s}})
	b.ask("everyone:somebody")
	b.settle()
	b.close()
	r := consume(t, c, 1)[0]
	if want := testHasher(t).Hash("d", "everyone:somebody"); string(r.Key) != want || strings.Contains(string(r.Value), "somebody") || !strings.Contains(string(r.Value), want) {
		t.Errorf("%q: %s", r.Key, r.Value)
	}
}

// A limit that counts all requests has a key of no bytes, which is one.
func TestKafkaKeyOfNoBytes(t *testing.T) {
	c := fake(t)
	s := connected(t, c, "", "", SinkOptions{})
	many := batch(ids("a", 50)...)
	for i := range many.Events {
		many.Events[i].Key = ""
		s.Write(Batch{Lines: many.Lines[:many.Events[i].End], Events: many.Events[:i+1]})
	}
	ends(t, s)
	records := consume(t, c, 50*51/2)
	for _, r := range records {
		if r.Key == nil || r.Partition != records[0].Partition {
			t.Fatalf("key %v in partition %d and %d", r.Key, r.Partition, records[0].Partition)
		}
	}
}

func TestKafkaTopicThatIsMissing(t *testing.T) {
	c := fake(t)
	if err := c.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	s := connected(t, c, "", "timeout=1s", SinkOptions{})
	eventually.True(t, "the error is seen", func() bool {
		_, _, err := s.Counts()
		return err != nil && strings.Contains(err.Error(), topic) && strings.Contains(err.Error(), kerr.UnknownTopicOrPartition.Message)
	})
	s.Write(batch(ids("a", 5)...))
	eventually.True(t, "five have failed", func() bool {
		_, failed, err := s.Counts()
		return failed == 5 && err != nil
	})
	if err := c.CreateTopic(topic, 4, nil); err != nil {
		t.Fatal(err)
	}
	writesFive(t, s)
	if _, _, err := s.Counts(); err != nil {
		t.Error(err)
	}
	ends(t, s)
}

func TestKafkaLogin(t *testing.T) {
	certificates := testserver.NewCertificates(t)
	pair, err := tls.LoadX509KeyPair(certificates.CertFile, certificates.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for mechanism, name := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			c := fake(t, kfake.EnableSASL(), kfake.Superuser(name, "me", "s3cret"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
			settings := "tls=true&ca=" + certificates.CAFile + "&sasl=" + mechanism
			s := connected(t, c, "me:s3cret@", settings, SinkOptions{})
			s.Write(batch("a"))
			written(t, s, 1)
			if strings.Contains(s.Name(), "me") || !strings.HasPrefix(s.Name(), "kafka://127.0.0.1:") {
				t.Errorf("called %s", s.Name())
			}
			ends(t, s)

			s = connected(t, c, "me:wr0ng@", settings+"&timeout=1s", SinkOptions{})
			s.Write(batch("b"))
			eventually.True(t, "failed", func() bool {
				_, failed, err := s.Counts()
				return failed == 1 && err != nil
			})
			if _, _, err := s.Counts(); strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("%v", err)
			}
			ends(t, s)

			s = connected(t, c, "me:s3cret@", strings.Replace(settings, "&ca="+certificates.CAFile, "", 1), SinkOptions{})
			eventually.True(t, "a certificate that nobody vouches for", func() bool {
				_, _, err := s.Counts()
				return err != nil && strings.Contains(err.Error(), "certificate")
			})
			ends(t, s)
		})
	}
}

// Nobody is there at the start, then somebody is.
func TestKafkaStartsLater(t *testing.T) {
	port := testserver.FreePort(t)
	config, err := parseKafka(fmt.Sprintf("kafka://127.0.0.1:%d/%s", port, topic))
	if err != nil {
		t.Fatal(err)
	}
	s, err := openKafka(config, SinkOptions{}, kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	s.Write(batch(ids("a", 5)...))
	eventually.True(t, "the error is seen", func() bool {
		_, _, err := s.Counts()
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	c := fake(t, kfake.NumBrokers(1), kfake.Ports(port))
	written(t, s, 5)
	ends(t, s)
	if got := len(consume(t, c, 5)); got != 5 {
		t.Errorf("%d records", got)
	}
}

// Brokers that take records and do not answer: what does not fit fails at once, the rest
// waits; Close gives up within its time and counts.
func TestKafkaThatHangs(t *testing.T) {
	c := fake(t)
	release := make(chan struct{})
	defer close(release)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	s := connected(t, c, "", "timeout=1s", SinkOptions{Buffer: 50})
	for part := range slices.Chunk(ids("a", 120), 10) {
		s.Write(batch(part...))
	}
	eventually.True(t, "what is too much fails", func() bool {
		_, failed, _ := s.Counts()
		return failed >= 70
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ended); err == nil || !strings.Contains(err.Error(), "events were not written") {
		t.Errorf("%v", err)
	}
	if w, failed, _ := s.Counts(); w != 0 || failed != 120 {
		t.Errorf("%d written, %d failed", w, failed)
	}
	s.Write(batch("late"))
	if _, failed, _ := s.Counts(); failed != 121 {
		t.Errorf("%d failed", failed)
	}
}

// A broker that takes connections and never says anything: Close does not wait for an
// answer to what was asked, whether events wait or not.
func TestKafkaThatIsSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s, err := OpenKafka("kafka://"+listener.Addr().String()+"/"+topic, SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it waits for an answer now
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ended) }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(askEvery / 2): // the question alone lasts longer than that
		t.Error("Close waits for the broker")
	}
}

func BenchmarkKafka(b *testing.B) {
	c := fake(b)
	benchmarkEvents(b, Options{Sample: 1, Sinks: []Sink{connected(b, c, "", "", SinkOptions{})}})
}
