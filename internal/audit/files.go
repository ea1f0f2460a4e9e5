package audit

import "errors"

// OpenFiles returns the sink of a directory.
func OpenFiles(url string, o SinkOptions) (Sink, error) { return nil, errors.New("not yet") }

// OpenKafka returns the sink of a topic.
func OpenKafka(url string, o SinkOptions) (Sink, error) { return nil, errors.New("not yet") }
