package rulefile_test

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

func ExampleLoad() {
	set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(orders)}}, rulefile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := []descriptor.Entry{{Key: "api_key", Value: "abc"}, {Key: "endpoint", Value: "POST /orders"}}
	for _, m := range set.Domain("api").AppendMatches(nil, request, time.Now) {
		fmt.Printf("%s: %s\n", m.Rule.ID, describe.Summary(m.Rule))
	}
	// Output:
	// default: 100 per 1m sliding_window; match path; all_or_nothing; fails open
	// writes: 20 per 1m sliding_window; match path; all_or_nothing; fails open
}

func ExampleLoad_error() {
	_, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte("domain: api\ndescriptor: []\n")}}, rulefile.Options{})
	fmt.Println(err)
	// Output: api.yaml:2:1: config error, unknown key 'descriptor'; hint: did you mean 'descriptors'?
}
