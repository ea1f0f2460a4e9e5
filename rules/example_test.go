package rules_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
)

const orders = `domain: api
match: path
descriptors:
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 100, name: default}
    descriptors:
      - key: endpoint
        value: POST /orders
        rate_limit: {unit: minute, requests_per_unit: 20, name: writes}
`

func ExampleLoad() {
	set, err := rules.Load([]rules.File{{Name: "api.yaml", Data: []byte(orders)}}, rules.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := []descriptor.Entry{{Key: "api_key", Value: "abc"}, {Key: "endpoint", Value: "POST /orders"}}
	for _, m := range set.Domain("api").AppendMatches(nil, request, time.Now) {
		fmt.Printf("%s: %s\n", m.Rule.ID, m.Rule.Summary())
	}
	// Output:
	// default: 100 per 1m sliding_window; match path; all_or_nothing; fails open
	// writes: 20 per 1m sliding_window; match path; all_or_nothing; fails open
}

func ExampleLoad_error() {
	_, err := rules.Load([]rules.File{{Name: "api.yaml", Data: []byte("domain: api\ndescriptor: []\n")}}, rules.Options{})
	fmt.Println(err)
	// Output: api.yaml:2:1: config error, unknown key 'descriptor'; hint: did you mean 'descriptors'?
}

func ExampleExplain() {
	set, err := rules.Load([]rules.File{{Name: "api.yaml", Data: []byte(orders)}}, rules.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := []descriptor.Entry{{Key: "api_key", Value: "abc"}, {Key: "endpoint", Value: "GET /orders"}}
	fmt.Print(rules.Explain(set, "api", request, time.Now()))
	// Output:
	// domain api (match: path, consumption: all_or_nothing)
	// entry 1  api_key:abc
	//   - no descriptor has this key and value
	//   + api_key (api.yaml:4): the descriptor for any value of the key
	// entry 2  endpoint:GET /orders
	//   - no descriptor has this key and value
	//   - no descriptor is for any value of the key
	// end: entry 2 of 2 finds nothing; with match: path, what was walked before it counts
	// applies: default (api.yaml:4): it is on the walked path
	//   100 per 1m sliding_window; match path; all_or_nothing; fails open
	//   exact: every decision is made in the shared store, so excess 0
	//   counted for api_key:abc
}

func ExampleDiff() {
	load := func(text string) *rules.Set {
		set, err := rules.Load([]rules.File{{Name: "api.yaml", Data: []byte(text)}}, rules.Options{})
		if err != nil {
			panic(err)
		}
		return set
	}
	before := load("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]")
	after := load("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 9}}]")
	for _, change := range rules.Diff(before, after) {
		fmt.Println(change)
	}
	// Output: ~ api.user: limit: 5 per 1m sliding_window -> 9 per 1m sliding_window
}
