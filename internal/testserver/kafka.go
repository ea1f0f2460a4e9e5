package testserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	// kafkaCluster is the ID that the storage of a test's Kafka is made for.
	kafkaCluster = "aGVhZGdhdGUtdGVzdHMAAA"
	// kafkaReady is how often readyTimeout a Java program may take to answer.
	kafkaReady = 3
	// kafkaPatience bounds one question to a broker.
	kafkaPatience = 10 * time.Second
)

// javaFlags have a small program start fast.
var javaFlags = []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"}

// KafkaServer is a running Apache Kafka of one node, broker and controller. What it was
// given survives Kill and Restart.
type KafkaServer struct {
	// Addr is HOST:PORT of the broker.
	Addr string

	t               testing.TB
	java, classPath string
	dir             string
	secure          *Certificates // nil: neither TLS nor users
	proc            *Process
}

// KafkaUser and KafkaPassword are of the one user of a SecureKafka, who logs in by PLAIN.
const KafkaUser, KafkaPassword = "headgate", "not-a-real-secret"

// SecureKafka is Kafka for a broker that speaks TLS, wants certificates of its clients and
// has a user.
func SecureKafka(t testing.TB, c *Certificates) *KafkaServer {
	t.Helper()
	return startKafka(t, c)
}

// Kafka starts a Kafka without topics, waits until it answers, and kills it when the test
// ends.
func Kafka(t testing.TB) *KafkaServer {
	t.Helper()
	return startKafka(t, nil)
}

func startKafka(t testing.TB, c *Certificates) *KafkaServer {
	t.Helper()
	s := &KafkaServer{t: t, secure: c, java: Binary(t, "java"), classPath: kafkaJars(t)}
	dir := t.TempDir()
	t.Cleanup(s.Kill) // after the folder, so that it runs before that is removed
	var err error
	for i := range portAttempts {
		s.dir = filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s.configure()
		if err = s.start(); err == nil {
			return s
		}
		s.Kill()
	}
	t.Fatalf("start Kafka: %v", err)
	return nil
}

// kafkaJars returns the class path of Kafka.
func kafkaJars(t testing.TB) string {
	t.Helper()
	lib := filepath.Join(moduleRoot(), ".tools", "kafka", "lib")
	if jars, err := filepath.Glob(filepath.Join(lib, "kafka_*.jar")); err != nil || len(jars) == 0 {
		Unavailable(t, "Kafka is not in .tools/kafka/lib; hint: run `make deps`")
	}
	return filepath.Join(lib, "*")
}

// configure chooses ports and makes the storage.
func (s *KafkaServer) configure() {
	s.t.Helper()
	port, controller := FreePort(s.t), FreePort(s.t)
	s.Addr = fmt.Sprintf("127.0.0.1:%d", port)
	properties := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=%[4]s://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=%[4]s://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
`, port, controller, filepath.Join(s.dir, "data"), s.protocol())
	if s.secure != nil {
		properties += s.securely()
	}
	if err := os.WriteFile(s.properties(), []byte(properties), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.command("kafka.tools.StorageTool", "format", "--cluster-id", kafkaCluster, "--config", s.properties())
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("make the storage of Kafka: %v: %s", err, out)
	}
}

// protocol is that of the listener for clients.
func (s *KafkaServer) protocol() string {
	if s.secure != nil {
		return "SASL_SSL"
	}
	return "PLAINTEXT"
}

// securely returns what a broker with certificates and a user is told besides.
func (s *KafkaServer) securely() string {
	s.t.Helper()
	var pair []byte
	for _, path := range []string{s.secure.KeyFile, s.secure.CertFile} {
		text, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		pair = append(pair, text...)
	}
	store := filepath.Join(s.dir, "server.pem")
	if err := os.WriteFile(store, pair, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf(`listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
security.inter.broker.protocol=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="%[1]s" password="%[2]s" user_%[1]s="%[2]s";
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location=%[3]s
ssl.truststore.type=PEM
ssl.truststore.location=%[4]s
`, KafkaUser, KafkaPassword, store, s.secure.CAFile)
}

func (s *KafkaServer) properties() string { return filepath.Join(s.dir, "server.properties") }

// command runs a program of Kafka's.
func (s *KafkaServer) command(class string, args ...string) *exec.Cmd {
	cmd := exec.Command(s.java, append(append(javaFlags[:len(javaFlags):len(javaFlags)], "-cp", s.classPath, class), args...)...)
	cmd.Dir = s.dir
	return cmd
}

func (s *KafkaServer) start() error {
	proc, err := StartProcess(s.command("kafka.Kafka", s.properties()))
	if err != nil {
		return err
	}
	s.proc = proc
	for range kafkaReady {
		if err = proc.Poll(s.ping); err == nil {
			return nil
		}
		select {
		case <-proc.Ended():
			return err
		default:
		}
	}
	return err
}

// ping asks whether the broker answers, and leads.
func (s *KafkaServer) ping() error {
	return s.ask(func(ctx context.Context, client *kgo.Client) error {
		answer, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
		if err == nil && len(answer.Brokers) == 0 {
			err = kerr.BrokerNotAvailable
		}
		return err
	})
}

// ask asks the broker something.
func (s *KafkaServer) ask(question func(context.Context, *kgo.Client) error) error {
	options := []kgo.Opt{kgo.SeedBrokers(s.Addr), kgo.RequestRetries(0)}
	if s.secure != nil {
		asked := s.secure.ClientWith(s.t, s.secure.CertFile, s.secure.KeyFile)
		options = append(options, kgo.DialTLSConfig(asked), kgo.SASL(plain.Auth{User: KafkaUser, Pass: KafkaPassword}.AsMechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), kafkaPatience)
	defer cancel()
	return question(ctx, client)
}

// CreateTopic makes a topic.
func (s *KafkaServer) CreateTopic(name string, partitions int32) {
	s.t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics, request.TimeoutMillis = append(request.Topics, topic), int32(kafkaPatience/time.Millisecond)
	err := s.ask(func(ctx context.Context, client *kgo.Client) error {
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	})
	if err != nil {
		s.t.Fatalf("create topic %s: %v", name, err)
	}
}

// DeleteTopic takes a topic away, and waits until the broker does not know it any more.
func (s *KafkaServer) DeleteTopic(name string) {
	s.t.Helper()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &name
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.Topics, request.TopicNames = append(request.Topics, topic), []string{name}
	request.TimeoutMillis = int32(kafkaPatience / time.Millisecond)
	err := s.ask(func(ctx context.Context, client *kgo.Client) error {
		answer, err := request.RequestWith(ctx, client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	})
	if err != nil {
		s.t.Fatalf("delete topic %s: %v", name, err)
	}
}

// Kill ends the server with SIGKILL and waits until it is gone. It may be called more
// than once.
func (s *KafkaServer) Kill() {
	if s.proc != nil {
		s.proc.Kill()
		s.proc = nil
	}
}

// Restart starts a killed server again on the same addresses with the same data, and
// waits until it answers.
func (s *KafkaServer) Restart() { restart(s.t, "Kafka", s.Kill, s.start) }
