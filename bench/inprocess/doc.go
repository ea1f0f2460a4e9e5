// Package inprocess measures decisions inside one process: Headgate's memory
// store and Limiter beside other Go libraries, in one run of go test -bench.
//
// All systems get the same keys, drawn the same way, and limits so generous
// that hits pass, unless the name of a row says otherwise. What a row costs
// includes reading the clock. The row "loop" is the cost of drawing a key and
// of an indirect call: it is in every other row too.
package inprocess
