package diff_test

import (
	"fmt"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/diff"
	"github.com/headgate/headgate/rules/rulefile"
)

func ExampleSets() {
	load := func(text string) *rules.Set {
		set, err := rulefile.Load([]rulefile.File{{Name: "api.yaml", Data: []byte(text)}}, rulefile.Options{})
		if err != nil {
			panic(err)
		}
		return set
	}
	before := load("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]")
	after := load("domain: api\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 9}}]")
	for _, change := range diff.Sets(before, after) {
		fmt.Println(change)
	}
	// Output: ~ api.user: limit: 5 per 1m sliding_window -> 9 per 1m sliding_window
}
