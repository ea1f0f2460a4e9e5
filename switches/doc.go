// Package switches says what operators have turned off, into shadow or on while
// everything runs: one rule, one tenant, or all. It is pure: switches come from
// elsewhere, and Set.Of answers for one rule and one request without allocating.
package switches
