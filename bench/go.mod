module github.com/headgate/headgate/bench

go 1.26.0

require (
	github.com/headgate/headgate v0.0.0
	github.com/sethvargo/go-limiter v0.7.1
	github.com/throttled/throttled/v2 v2.15.0
	golang.org/x/time v0.16.0
)

require (
	github.com/hashicorp/golang-lru v0.5.4 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
)

replace github.com/headgate/headgate => ../
