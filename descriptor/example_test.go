package descriptor_test

import (
	"fmt"

	"github.com/headgate/headgate/descriptor"
)

func ExampleFormat() {
	fmt.Println(descriptor.Format([]descriptor.Entry{
		{Key: "api_key", Value: "abc"},
		{Key: "endpoint", Value: "POST /api/v1/orders"},
	}))
	// Output: api_key:abc,endpoint:POST /api/v1/orders
}

func ExampleParse() {
	entries, err := descriptor.Parse(`remote_address:192.0.2.1,path:/a\,b`)
	fmt.Printf("%q %v\n", entries, err)
	// Output: [{"remote_address" "192.0.2.1"} {"path" "/a,b"}] <nil>
}
