package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/internal/h1load"
)

// checkTable is the table of the check API beside gRPC.
const checkTable = "one check of one descriptor"

// batchSize is how many checks a body of the batched row has.
const batchSize = 16

// checkJSON asks /v1/check, one check to a body; namedJSON gives each an id of its own, and
// batchJSON asks a body of several.
var (
	checkJSON = protocol{path: "/v1/check", http: true, messages: workload.bodies}
	namedJSON = protocol{path: "/v1/check", http: true, messages: workload.named}
	batchJSON = protocol{path: "/v1/check", http: true, messages: workload.batches}
)

// bodies are messages in the words of the check API.
func (w workload) bodies(keys int) ([][]byte, error) {
	all := make([][]byte, keys)
	for i, descriptors := range w.descriptorsOf(keys) {
		body := fmt.Appendf(nil, `{"domain":%q,"descriptors":[`, domain)
		for n, d := range descriptors {
			if n > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"entries":[{"key":%q,"value":%q}]}`, d.key, d.value)
		}
		all[i] = append(body, "]}"...)
	}
	return all, nil
}

// named are bodies with an id.
func (w workload) named(keys int) ([][]byte, error) {
	all, err := w.bodies(keys)
	for i, body := range all {
		all[i] = fmt.Appendf(body[:len(body)-1], `,"id":%q}`, h1load.ID)
	}
	return all, err
}

// batches are bodies of batchSize checks each.
func (w workload) batches(keys int) ([][]byte, error) {
	single, err := w.bodies(keys)
	var all [][]byte
	for from := 0; from+batchSize <= len(single); from += batchSize {
		body := append([]byte(`{"checks":[`), bytes.Join(single[from:from+batchSize], []byte{','})...)
		all = append(all, append(body, "]}"...))
	}
	return all, err
}

// form is a way to ask. All have as many checks under way.
type form struct {
	name                 string
	protocol             protocol
	connections, streams int
}

var forms = []form{
	{"gRPC, 64 connections", envoy, 64, 1},
	{"gRPC, 4 connections of 16 calls", envoy, 4, 16},
	{"JSON, 64 connections", checkJSON, 64, 1},
	{"JSON with ids, 64 connections", namedJSON, 64, 1},
	{"JSON, 4 connections, 16 pipelined", checkJSON, 4, 16},
	{"JSON, 4 connections, batches of 16", batchJSON, 4, 1},
}

// alike is the row of gRPC with as many connections as the row of this name.
func alike(name string) string {
	where, how, _ := strings.Cut(name, ": ")
	if strings.Contains(how, forms[0].name[len("gRPC, "):]) {
		return where + ": " + forms[0].name
	}
	return where + ": " + forms[1].name
}

// checkSystems are all forms on Headgate in memory and with Redis.
func checkSystems() (systems []system) {
	for _, where := range []struct {
		name string
		h    headgate
	}{
		{"memory", headgate{}}, {"Redis", headgate{store: oneRedis}},
		{"memory, grpc-go", headgate{flags: grpcGo}}, {"Redis, grpc-go", headgate{store: oneRedis, flags: grpcGo}},
	} {
		for _, f := range forms {
			if len(where.h.flags) > 0 && f.protocol.http {
				continue // the transport is that of gRPC alone
			}
			systems = append(systems, system{
				name: where.name + ": " + f.name, protocol: f.protocol, workloads: []workload{one}, start: where.h.start,
				axis: checkTable, connections: f.connections, streams: f.streams,
			})
		}
	}
	return systems
}
