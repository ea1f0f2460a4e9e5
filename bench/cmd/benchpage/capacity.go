package main

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/internal/figures"
)

// load is the size that the page on capacity works out.
const (
	loadRate = 500_000    // decisions per second
	loadKeys = 10_000_000 // active keys
	// busy is the share of the time for which a processor may be busy.
	busy = 0.7
)

// priced is a row of the table of costs.
type priced struct {
	asked, counted         string
	section, table, system string
	server, redis          string // names of the values; "" for none
}

var pricedRows = []priced{
	{"gRPC, one descriptor", "memory", "grpc", oneDescriptor, inMemory, "server_us", ""},
	{"gRPC, one descriptor", "Redis", "grpc", oneDescriptor, inRedis, "server_us", "redis_us"},
	{"gRPC, three descriptors", "memory", "grpc", threeDescriptors, inMemory, "server_us", ""},
	{"gRPC, three descriptors", "Redis", "grpc", threeDescriptors, inRedis, "server_us", "redis_us"},
	{"gRPC, over the limit", "Redis", "grpc", overLimit, inRedis, "server_us", "redis_us"},
	{"grpc-go, one descriptor", "memory", "grpc", oneDescriptor, grpcGoInMemory, "server_us", ""},
	{"grpc-go, one descriptor", "Redis", "grpc", oneDescriptor, grpcGoInRedis, "server_us", "redis_us"},
	{"grpc-go, three descriptors", "Redis", "grpc", threeDescriptors, grpcGoInRedis, "server_us", "redis_us"},
	{"grpc-go, over the limit", "Redis", "grpc", overLimit, grpcGoInRedis, "server_us", "redis_us"},
	{"JSON over HTTP/1.1", "memory", "check", checkTable, "memory: JSON, 64 connections", "server_us", ""},
	{"JSON over HTTP/1.1", "Redis", "check", checkTable, "Redis: JSON, 64 connections", "server_us", "redis_us"},
	{"JSON over HTTP/1.1, with an id", "memory", "check", checkTable, "memory: JSON with ids, 64 connections", "server_us", ""},
	{"JSON over HTTP/1.1, with an id", "Redis", "check", checkTable, "Redis: JSON with ids, 64 connections", "server_us", "redis_us"},
	{"proxy, the whole request passed on", "memory", "proxy", "reverse proxy", "headgate proxy, one limit in memory", "cpu_us", ""},
	{"proxy, the whole request passed on", "Redis", "proxy", "reverse proxy", "headgate proxy, one limit in Redis", "cpu_us", ""},
}

// sized is a row of the table of memory.
type sized struct{ what, section, table, system, value string }

var sizedRows = []sized{
	{"active key in Redis, one descriptor", "grpc", oneDescriptor, inRedis, "key_bytes"},
	{"active key in the memory store, GCRA", "process", "Heap, keys=1000000", "headgate/gcra", "heap-B/key"},
	{"active key in the memory store, token bucket", "process", "Heap, keys=1000000", "headgate/token_bucket", "heap-B/key"},
	{"active key in the memory store, sliding window", "process", "Heap, keys=1000000", "headgate/sliding_window", "heap-B/key"},
	{"the same, sub-windows", "process", "Heap, keys=1000000", "headgate/sub_windows", "heap-B/key"},
	{"the same, sliding log of the benchmark", "process", "Heap, keys=1000000", "headgate/sliding_log", "heap-B/key"},
}

// capacityPart is the generated part of docs/capacity.md.
func capacityPart(set figures.Set, report string) (string, error) {
	head, _, err := headOf(report)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\nThe run:\n\n```text\n" + strings.Join(head, "\n") + "\n```\n\n")
	b.WriteString("| asked over | counted in | Headgate, us | Redis, us |\n|---|---|---|---|\n")
	for _, r := range pricedRows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.asked, r.counted, cellAt(set, r, r.server, "%.1f"), cellAt(set, r, r.redis, "%.1f"))
	}
	b.WriteString("\nAnd the memory, in bytes:\n\n| what | bytes for each |\n|---|---|\n")
	for _, r := range sizedRows {
		format := "%.1f"
		if r.section == "grpc" {
			format = "%.0f"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", r.what, cellAt(set, priced{section: r.section, table: r.table, system: r.system}, r.value, format))
	}
	b.WriteString("\nWhat a processor decides in a second, and what 500,000 decisions a second with 10 million active keys need, at 70 % of their time:\n\n```text\n")
	for _, r := range pricedRows {
		appendNeed(&b, set, r)
	}
	b.WriteString("```\n\n")
	return b.String(), nil
}

// cellAt is a figure for a table: "not measured" where it is not there, and empty
// where none is meant.
func cellAt(set figures.Set, r priced, value, format string) string {
	if value == "" {
		return ""
	}
	v, err := set.At(figures.Place{Section: r.section, Table: r.table, System: r.system, Value: value})
	if err != nil {
		return notMeasured
	}
	return fmt.Sprintf(format, v)
}

// appendNeed writes what one row of the table means for the load, if it is of a
// gRPC call with Redis: only such a fleet counts together.
func appendNeed(b *strings.Builder, set figures.Set, r priced) {
	if r.section != "grpc" || r.redis == "" {
		return
	}
	of := func(value string) (float64, bool) {
		v, err := set.At(figures.Place{Section: r.section, Table: r.table, System: r.system, Value: value})
		return v, err == nil && v > 0
	}
	server, ok1 := of(r.server)
	redis, ok2 := of(r.redis)
	if !ok1 || !ok2 {
		fmt.Fprintf(b, "%s: %s\n", r.asked, notMeasured)
		return
	}
	fmt.Fprintf(b, "%s: %.0f decisions/s for each processor of Headgate, %.0f for each of Redis;\n", r.asked, 1e6/server, 1e6/redis)
	fmt.Fprintf(b, "    Headgate %d x %.1f us / 1,000,000 / %.1f = %.1f processors, Redis %d x %.1f us / 1,000,000 / %.1f = %.1f",
		loadRate, server, busy, loadRate*server/1e6/busy, loadRate, redis, busy, loadRate*redis/1e6/busy)
	if bytes, ok := of("key_bytes"); ok {
		fmt.Fprintf(b, ", %d x %.0f B = %.1f GB", loadKeys, bytes, loadKeys*bytes/1e9)
	}
	b.WriteString("\n")
}
