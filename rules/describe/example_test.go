package describe_test

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules/describe"
	"github.com/headgate/headgate/rules/rulefile"
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

func ExampleExplain() {
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(orders)}}, rulefile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := []descriptor.Entry{{Key: "api_key", Value: "abc"}, {Key: "endpoint", Value: "GET /orders"}}
	fmt.Print(describe.Explain(set, "api", request, time.Now()))
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
