// Package streamfront decides many checks over one call of gRPC: the service
// headgate.v1.CheckStream, whose messages are described in proto/headgate/v1/stream.proto.
//
// It frames, orders and bounds. What a check means is Envoy's vocabulary, and package rls
// decides the checks of a message together, by rls.Rounds.
//
//	reader    reads a message ahead, and no further than there is room for checks in flight
//	pages     the checks of one message, each decided in a goroutine of its own
//	outbox    answers on their way; what is made while one message is sent goes with the next
//
// Room is what holds a client to its pace: a message takes it when it is read, and gives it back
// when the answers have been written.
package streamfront
