// Package simulate asks how exact the algorithms are: it sends published models of traffic
// through package limit, in virtual time, and compares each decision with an exact log.
//
// A workload says when one source asks, an algorithm decides, and the judge counts what the
// algorithm has let pass in the period before each request. A request that passed although
// the quota was used up is wrongly allowed. In the open loop, in which published figures are
// given, denied requests count as well, and one that was denied although there was room is
// wrongly denied.
//
// Nothing here reads a clock or draws from anything but the seed, so the same options give the
// same figures.
package simulate
