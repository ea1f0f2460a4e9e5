// Package headgate is a distributed rate limiter.
package headgate
