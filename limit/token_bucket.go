package limit

// Token bucket.
//
// A bucket holds at most Burst tokens, starts full, and refills evenly by Quota
// tokens per Period; a hit takes a token, and hits for which there are not
// enough tokens are denied and take none:
//
//	tokens   = min(Burst, tokens + elapsed*Quota/Period)
//	allowed  iff  hits <= tokens
//
// (J. Turner, "New directions in communications", 1986; RFC 2698 polices with
// two of them.) Burst and refill are independent: Burst may be smaller than
// Quota, which spaces hits more evenly, or larger.
//
// Tokens are not stored: the instant at which the bucket is full again says the
// same without any rounding, because the tokens that are missing at now are
// (TAT-now)*Quota/Period. So the state and the arithmetic are those of tat.go.
//
// Limit is Burst; Remaining is the number of whole tokens; RetryAfter is the
// time until there are as many tokens as hits; ResetAfter until it is full.
