package limit

// Leaky bucket as a meter.
//
// A bucket with a hole leaks Quota hits per Period; a hit is poured in if the
// bucket is empty enough to hold it, and denied otherwise (J. Turner, 1986; the
// continuous-state leaky bucket of ITU-T I.371). Here the bucket holds one hit:
//
//	level    = max(0, level - elapsed*Quota/Period)
//	allowed  iff  level + hits <= 1
//
// so hits pass evenly spaced, at least Period/Quota apart, and never two at
// once. For a meter with a deeper bucket use token_bucket, which is its mirror
// image; for one that delays hits instead of denying them, leaky_queue.
//
// The level is (TAT-now)*Quota/Period; state and arithmetic are those of tat.go
// with a Burst of 1.
