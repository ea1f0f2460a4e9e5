package audit

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
)

// A broker with a private authority that wants a certificate and a password gets both from
// files. What it refuses is told, and without the password.
func TestKafkaWithCertificates(t *testing.T) {
	certs := testserver.NewCertificates(t)
	server := testserver.SecureKafka(t, certs)
	server.CreateTopic("events", 1)
	cert, key := certs.Issue(t, testserver.Leaf{CommonName: "headgate"})
	word := filepath.Join(t.TempDir(), "word")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(word, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(pairs ...string) audit.Sink {
		t.Helper()
		values := url.Values{"tls": {"true"}, "sasl": {"plain"}, "password_file": {word}, "timeout": {"1m"}}
		for i := 0; i+1 < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		s, err := audit.OpenKafka("kafka://"+testserver.KafkaUser+"@"+server.Addr+"/events?"+values.Encode(), audit.SinkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(t.Context()) }) // which has ended by then
		return s
	}
	fails := func(text string, s audit.Sink) {
		t.Helper()
		var last error
		eventually.True(t, "an error with "+text, func() bool {
			_, _, last = s.Counts()
			return last != nil && strings.Contains(last.Error(), text)
		})
		if strings.Contains(last.Error(), "secret") {
			t.Error(last)
		}
	}
	write(testserver.KafkaPassword)
	fails("ca=FILE", open("cert", cert, "key", key))
	fails("server_name=NAME", open("ca", certs.CAFile, "cert", cert, "key", key, "server_name", "kafka.example.com"))
	write("another-secret")
	s := open("ca", certs.CAFile, "cert", cert, "key", key)
	fails("uthentication", s)
	// The password of the file is the right one now, and nobody says so to the sink.
	write(testserver.KafkaPassword)
	s.Write(audit.Batch{Lines: []byte("{}\n"), Events: []audit.Line{{Key: "k", End: 3}}})
	eventually.True(t, "an event is written", func() bool {
		written, _, err := s.Counts()
		return written == 1 && err == nil
	})
}
