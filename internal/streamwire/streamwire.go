// Package streamwire has the field numbers of the messages of a stream of checks, which both of its ends
// encode and decode by hand (proto/headgate/v1/stream.proto).
package streamwire

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of stream.proto, and of google.protobuf.Duration.
const (
	RequestChecks  protowire.Number = 1
	RequestInOrder protowire.Number = 2

	CheckNumber  protowire.Number = 1
	CheckTimeout protowire.Number = 2
	CheckRequest protowire.Number = 3

	DurationSeconds protowire.Number = 1
	DurationNanos   protowire.Number = 2

	ResponseAnswers protowire.Number = 1

	AnswerNumber   protowire.Number = 1
	AnswerResponse protowire.Number = 2
	AnswerFailure  protowire.Number = 3

	FailureCode    protowire.Number = 1
	FailureMessage protowire.Number = 2
)
