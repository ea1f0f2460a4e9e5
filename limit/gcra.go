package limit

// Generic cell rate algorithm.
//
// ITU-T I.371 and the ATM Forum's traffic management specification define it as
// the virtual scheduling algorithm: cells should arrive T = Period/Quota apart,
// and one may be early by the tolerance. The theoretical arrival time (TAT) is
// when the next cell is due. With the tolerance for a burst of Burst hits from
// idle, and hits cells at once (tat.go has the exact arithmetic):
//
//	TAT'     = max(now, TAT) + hits*T
//	allowed  iff  TAT' - now <= Burst*T
//
// The comparison is with the new TAT, so that exactly Burst hits pass at one
// instant and never Burst+1, at any rate. Any interval of length t admits at
// most Burst + t*Quota/Period.
//
// Limit is Burst. Redis-cell's max_burst is Burst-1.
