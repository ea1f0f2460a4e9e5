// Package streampb has the messages of streams of checks. Its code is made of
// proto/headgate/v1/stream.proto, which describes them; package stream is a client.
package streampb
