package replay_test

import (
	"io"
	"strings"

	"github.com/headgate/headgate/internal/replay"
)

// textInput is a file that holds text.
func textInput(name, text string, decoder func() (replay.Decoder, error)) replay.Input {
	return replay.Input{
		Name: name, Again: true, Decoder: decoder,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
	}
}

func events(values *replay.Values) func() (replay.Decoder, error) {
	return func() (replay.Decoder, error) { return replay.Events(values), nil }
}

func access(a *replay.Access, format string) func() (replay.Decoder, error) {
	return func() (replay.Decoder, error) { return a.Decoder(format) }
}
