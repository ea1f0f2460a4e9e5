// Package audit keeps decisions as events: in memory, in rotating files, in Kafka.
package audit
