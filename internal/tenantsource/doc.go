// Package tenantsource keeps in force what tenants may use: tiers of a file, and what the
// database of tenants says of accounts, tiers, switches and rules. It also keeps what was
// read in a file for the next start, and tells the database of candidate limits that this
// node has rolled back.
package tenantsource
