// Package quotas is how people write and read accounts of tenants: the JSON of the
// admin API, of import and of export, and the ways to name a subject. It stands
// between what is typed and package sqltenant.
package quotas
