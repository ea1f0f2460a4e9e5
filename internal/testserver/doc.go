// Package testserver starts real servers for tests: a redis-server with the
// options that a test names, several under Sentinel or in a Cluster, on addresses
// that are free, in folders of the test, stopped when the test ends. A Proxy
// stands between a client and any of them and disturbs what passes.
// A Kafka of one node keeps what it was given. A Prometheus scrapes what the test runs and answers queries about it.
//
// A server whose binary is missing skips the test, and fails it instead where
// the servers are known to be installed: when CI is set in the environment, or
// HEADGATE_TEST_SERVERS=required. With HEADGATE_TEST_SERVERS=none every test that would
// start one is skipped.
package testserver
