// Package urlrules gets rule documents from addresses of the web: of HTTPS, or objects of S3 and
// of what speaks like it. It asks now and then, and by the entity tag of what it has, so that a
// document which has not changed is not sent again.
//
// All documents come into force, or none does: one that cannot be had leaves those before where
// they are. Whoever has the documents decides whether they come into force. No error holds a
// query, a token or a key.
package urlrules
