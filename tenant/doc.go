// Package tenant knows what each customer of a platform may use: tiers with default
// quotas, overrides for one customer, and which of them is in force at an instant.
// It has no clock and no database; package sqltenant keeps accounts in one.
//
// # Resolution
//
// A tenant is named by one entry of a request's descriptor, its Subject, such as
// api_key:jEZV... or tenant:acme. What follows in the descriptor says what the
// quota is for. Of
//
//	api_key:k, endpoint:POST /v1/orders
//
// the subject is api_key:k and the quota of "endpoint:POST /v1/orders" is the first
// of these that there is:
//
//  1. an override of k for that descriptor
//  2. what the tier of k says for that descriptor
//
// and the default quota, which counts all that the subject does, is
//
//  3. an override of k for Default
//  4. the Default of the tier of k
//
// Where there is none, the rule's own limit counts. A subject without an account
// has the fallback tier, which is "free" unless told otherwise.
//
// Overrides and tiers are in force within a Term. Of several for one descriptor the
// one that began last counts; when it ends the previous one is back.
//
// # Beyond quotas
//
// What a quota denies may be taken from the burst Pool of the tier, which refills, and
// from a TopUp of the subject for that descriptor, whose hits are used once.
//
// # Snapshots
//
// A Snapshot is immutable. Resolve reads it without a lock, an allocation or a
// query, and With returns a new one that shares all but the changed parts, so that
// a change in one of a million accounts costs some thousand of them.
package tenant
