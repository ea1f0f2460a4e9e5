// Package overload decides which requests are not worked on when there are too
// many, so that the others are. It knows nothing of HTTP, stores or rules.
//
// # Priorities
//
// A request has a Priority, P0 critical to P3 test traffic; a Classifier gives
// it by the word of a rule, the path, the method and a header, in this order. In
// both shedders no request is shed while one of lower priority would be admitted
// at the same instant.
//
// # The worker shedder
//
// A Shedder bounds what this process has in flight: by hard caps, one for
// critical requests and one for the others, and below the latter by a limit that
// adapts. Once per Options.Interval, 100 ms,
//
//	fine     = max(Tolerance * base, base + QueueTarget)
//	gradient = min(1, fine / latency), at least 1/2
//	limit   += 1/2 * (gradient * limit + sqrt(limit) - limit)
//
// where latency is the geometric mean of the interval, smoothed, and base the
// lowest one within BaseWindow. The gradient also falls where fronts know that
// requests waited longer than QueueTarget, and where more than 5 % of the
// requests ended as Overloaded. A limit of which less than half is used stays.
//
// This is the gradient of Netflix's concurrency-limits (Gradient2Limit) and of
// Envoy's adaptive concurrency filter, whose headroom is the square root, too.
// It differs in the base. A long average of the latency, as in Gradient2, learns
// the overload; a minimum never learns that the server has become slower. So:
//
//   - While the server is loaded, the limit is lowered twice per BaseWindow for
//     three intervals to 3/4 * limit * base/latency, which by Little's law is
//     just below what keeps it busy: the queue drains and the base shows. Envoy
//     does so with a small fixed limit, BBR with the window of a connection. P1
//     is spared unless it is what overloads the server.
//   - Where the limit has fallen by half, or to its floor, and latency did not
//     follow, the queue is not ours: the base is forgotten. Uber's Cinnamon has
//     the same idea, as the covariance of throughput and concurrency.
//
// P1 may fill the limit, P2 0.9 and P3 0.8 of it. When a priority was shed
// (more than 1 % in an interval), the shares of all below it fall by 0.1; they
// rise by 0.04 while less than 0.8 of the part above them is filled, and stay in
// between. P0 is admitted up to its own cap and counts against the limit of the
// others.
//
// # The fleet shedder
//
// A Fleet keeps a share of the whole fleet's capacity for critical traffic. Once
// per FleetOptions.Interval, 1 s, it is told what share u of the capacity is in
// use. What this node admits in an interval, A, is then worth u, and
// A * t/u is its part of a share t of the capacity. It deals that out to what
// arrives, in the order of priority: P1 gets what is left up to t = 0.9, P2 up to
// 0.8 and P3 up to 0.7, and together no more than 1 - Reserve. Which share of a
// priority that admits is one number, the level, that moves half the way, and by
// at most ShedStep up and RestoreStep down. So there is no cliff at a threshold:
// the fleet comes to rest at it, while that priority is shed in part.
//
// While the usage is unknown, nothing is shed.
//
// # Fronts
//
// A Gate asks both shedders, and counts. Packages httpshed and grpcshed put one
// before handlers; package fleetusage counts the usage of a fleet in a store.
//
// # What it does not promise
//
// The worker shedder looks at all requests together. When the mix of fast and
// slow ones changes for good while more than half of the limit is used, it sheds
// for some seconds until the base is forgotten. Latencies of streams and the
// like must be reported as Ignored. MaxCritical should be no more than the
// process serves within its clients' timeout, for critical traffic meets no
// other bound.
//
// Time is an argument: the package reads no clock and starts no goroutine.
package overload
