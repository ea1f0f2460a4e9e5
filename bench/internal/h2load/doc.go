// Package h2load asks a gRPC server one unary call after another over a few
// connections with many streams each, and measures how long answers take.
//
// Run is a closed loop: each stream asks again as soon as it is answered, so
// that the server is always saturated and latencies speak of the queue as much
// as of the server. RunPaced is an open loop: requests are due at set times, and
// latencies count from then, so that a server that is slow for a moment is
// charged with everyone who waits.
//
// The client writes HTTP/2 frames itself and does what is needed for this one
// use and no more: an ordinary gRPC client costs as much CPU as a server, and
// here both share the processors.
package h2load
