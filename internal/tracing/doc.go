// Package tracing makes spans of decisions and sends them to a collector.
package tracing
