// Package audit keeps decisions as events: the latest in memory, all of them in rotating
// files and in Kafka.
//
// One request is one event. What was denied, would have been (shadow mode), or could not
// be decided by the store always is one; of all others a sample. The verdict that
// speaks for the request (headgate.Response.Speaker) speaks in its event.
//
//	Record -> ring -> Run -> memory
//	                      -> events -> followers
//	                                -> a queue for each sink -> files, Kafka
//
// Record copies what it needs into a record and leaves it in a ring that never makes
// anybody wait. Whoever runs Run keeps the latest records in memory, where they become events when
// somebody looks for them, and makes events of all where there are followers or sinks. Sinks
// write them in goroutines of their own. Each step is bounded and counts what it could not take, so
// that the counts of Recorder.Stats always add up.
package audit
