// Package replay asks rules about requests that were recorded: who would have been denied by them
// that was not, and the other way round.
//
//	inputs -> lines -> Records in the order of their times -> the limiter, in virtual time -> Report
//
// The limiter is the one that decides real requests, with all limits of a request at once, over a
// store in memory whose clock is that of the records. Records come from audit events and access
// logs, any number of them merged; see Events and Access.
//
// What is replayed is what was asked. Nobody knows what clients would have done had they been
// answered otherwise: whether they had asked again, or given up. Nor is known when requests ended,
// so that limits on requests in flight find a free slot each time.
package replay
