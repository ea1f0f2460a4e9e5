package audit

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// topicLines returns the lines of all partitions, by partition.
func topicLines(t *testing.T, url string, since time.Time) (lines []string) {
	t.Helper()
	list, err := Partitions(t.Context(), url, since)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		r, err := list[i].Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(r)
		for scanner.Scan() {
			lines = append(lines, scanner.Text())
		}
		if err := scanner.Err(); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// What a topic holds is read from its beginning, or from a time, to where it ended when that began:
// each record once, those of a partition in their order.
func TestTopicIsReadToItsEnd(t *testing.T) {
	c := fake(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	begin := noon.Truncate(time.Millisecond)
	const n = 300
	produce := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			// In turns, so that each partition has some of them.
			key := fmt.Appendf(nil, "%d", i%16)
			record := &kgo.Record{Key: key, Value: fmt.Appendf(nil, "%04d", i), Timestamp: begin.Add(time.Duration(i) * time.Second)}
			if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	url := "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/" + topic
	if lines := topicLines(t, url, time.Time{}); len(lines) != 0 {
		t.Errorf("%q of an empty topic", lines)
	}
	produce(0, n)
	lines := topicLines(t, url, time.Time{})
	sorted := slices.Clone(lines)
	slices.Sort(sorted)
	if len(lines) != n || sorted[0] != "0000" || sorted[n-1] != fmt.Sprintf("%04d", n-1) || len(slices.Compact(sorted)) != n {
		t.Errorf("%d lines: %q", len(lines), sorted)
	}
	breaks := 0
	for i := 1; i < len(lines); i++ {
		if lines[i] < lines[i-1] {
			breaks++
		}
	}
	if breaks > 3 {
		t.Errorf("%d times out of order in 4 partitions", breaks)
	}

	list, err := Partitions(t.Context(), url, begin.Add(200*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	produce(n, n+10) // comes after it was asked what there is
	late := 0
	for i := range list {
		r, err := list[i].Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for scanner := bufio.NewScanner(r); scanner.Scan(); late++ {
			if line := scanner.Text(); line < "0200" || line >= "0300" {
				t.Errorf("%s was read", line)
			}
		}
		r.Close()
	}
	if late != n-200 {
		t.Errorf("%d lines from that time on, want %d", late, n-200)
	}
	if lines := topicLines(t, url, begin.Add(time.Hour)); len(lines) != 0 {
		t.Errorf("%q of a time that is to come", lines)
	}
}

func TestReadingATopicThatIsNotThere(t *testing.T) {
	c := fake(t)
	for url, want := range map[string]string{
		"kafka://" + c.ListenAddrs()[0] + "/none":                      "read topic none",
		"kafka://me:s3cret@" + c.ListenAddrs()[0] + "/" + topic + "?x": "x",
	} {
		if _, err := Partitions(t.Context(), url, time.Time{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
