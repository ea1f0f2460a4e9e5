# Headgate's commands for people. `make` alone lists them.

GO ?= go
# Extra arguments of `go test`, for instance TESTFLAGS='-run Reload -v'.
TESTFLAGS ?=
# How long each fuzz target runs in `make fuzz`, and how many inputs it gets in
# `make test`: a count, so that a slow machine does as much as a fast one.
FUZZTIME ?= 30s
SHORTFUZZTIME ?= 1000x
# More for `make fault`, for instance FAULTFLAGS='-seed 7 -kills 50 -nodekills 50 -rate 8000 -histories 2m'; with
# -decisions N each of some 45 scenarios goes on until it has made so many. REPLAY is how many decisions it replays.
FAULTFLAGS ?=
# More for `make mutants`.
MUTANTFLAGS ?=
REPLAY ?= 10000000
# What `make vuln` runs.
GOVULNCHECK := v1.9.0
# disable_pgv leaves out validation code that comes with Envoy's types and that
# nothing here calls, grpcnotrace pages of gRPC whose templates look up methods by name (decision 22).
# All is checked and tested with them too: nothing is compiled once with and once without.
TAGS := disable_pgv,grpcnotrace
# override: also where somebody gives make a GOFLAGS of their own.
override GOFLAGS := $(strip $(GOFLAGS) -tags=$(TAGS))
export GOFLAGS
# How many packages `make race` tests at once.
PACKAGES ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
# The packages whose tests take longest, most of it waiting for servers. They start first,
# so that the others run meanwhile and not before; their lines come first, too.
SLOWEST := ./store/redisstore ./tenant/sqltenant ./test/script ./internal/app ./test/audit ./internal/adminapi ./test/fault
# The packages whose tests start the command as it is built, and other programs: nothing of
# Headgate runs in their processes, so that the race detector would watch the tests alone.
DRIVERS := ./test/spec ./test/e2e ./test/browser ./test/prometheus ./test/hostile ./test/clients ./clients ./test/deploy ./test/migrate
# What all runs of tests have in common. Symbols for a debugger are left out, because linking
# them takes a third of the time that a package is built in; stacks and races are shown without. The
# timeout ends what hangs, and not a package that a busy machine is slow with.
TESTED = HEADGATE_TEST_BINARY="$(CURDIR)/bin/tested/headgate" GORACE="atexit_sleep_ms=10 $$GORACE" $(GO) test -vet=off -ldflags='-s -w' -count=1 -p $(PACKAGES) -timeout 30m $(TESTFLAGS)
# The packages with tests that the race detector disturbs, and those of which it skips some, or
# leaves out.
ALLOCATING = $(shell grep -rlE 'alloctest\.|AllocsPerRun' --include='*_test.go' --exclude-dir=bench . | xargs -n1 dirname | sort -u)
RACELESS = $(shell grep -rlE 'raceEnabled|go:build !race|internal/racetest' --include='*_test.go' --exclude-dir=bench . | xargs -n1 dirname | sort -u)
# Those of them whose other tests wait for servers: only what the race detector leaves out is
# run without it.
SERVED := ./store/redisstore ./tenant/sqltenant
# Property tests draw anew: what has failed once is neither kept nor, in `make race`, drawn
# first, or a run would find what it does not find by itself.
export RAPID_NOFAILFILE := true
# What they draw hangs on the tree that was committed: a run of it is the same wherever it is
# made, and each commit draws something else. RAPID_SEED=0 draws by chance.
export RAPID_SEED ?= 0x$(or $(shell git -c safe.directory='*' rev-parse 'HEAD^{tree}' 2>/dev/null | cut -c 1-16),0)
# Where git refuses to answer (a checkout of another user), build without it.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo auto || echo false)

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/headgate, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w' -o bin/headgate ./cmd/headgate

.PHONY: release
release: ## Build what is published into bin/release, by the Go that go.mod names, or a newer one
	GOTOOLCHAIN=$$(./scripts/toolchain.sh required) && export GOTOOLCHAIN && ./scripts/release.sh bin/release

.PHONY: release-check
release-check: ## Build a release twice, compare every byte, and run what is in it
	GOTOOLCHAIN=$$(./scripts/toolchain.sh) && export GOTOOLCHAIN && ./scripts/release-check.sh

.PHONY: vuln
vuln: ## Look for known faults in what is linked; needs a network, for the list of them
	GOTOOLCHAIN=$$(./scripts/toolchain.sh required) && export GOTOOLCHAIN && \
		$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) -tags $(TAGS) ./...

.PHONY: run
run: build bin/quickstart-tokens.yaml ## Serve the quick start rules, counting in memory, with a dashboard
	@echo "The token to log in to the dashboard is in bin/quickstart-token: $$(head -1 bin/quickstart-token)"
	./bin/headgate serve --rules examples/rules/quickstart.yaml --store memory:// \
		--http-addr 127.0.0.1:8080 --grpc-addr 127.0.0.1:8081 \
		--tenants sqlite://$(CURDIR)/bin/quickstart.db --admin-tokens bin/quickstart-tokens.yaml \
		--dashboard-addr 127.0.0.1:6071 --hints

bin/quickstart-tokens.yaml: | build
	@umask 077; ./bin/headgate admin token quickstart --scope admin --out $@ >bin/quickstart-token

.PHONY: deps
deps: ## Install what the tests talk to: servers, Chromium, Java; Envoy, Valkey, Prometheus, Kafka and others into .tools
	./scripts/test-servers.sh

# deps waits for downloads while check compiles. Tests that start programs wait for them most of
# the time, so norace runs beside race: three packages of each where both together have two processors.
.PHONY: test
test: ## Everything: checks, all tests with the race detector, short fuzzing
	$(MAKE) -j2 deps check
	$(MAKE) chart packages
	$(MAKE) -j2 PACKAGES=$$(($$(getconf _NPROCESSORS_ONLN) + 1)) race norace
	FUZZTIME=$(SHORTFUZZTIME) ./scripts/fuzz.sh

.PHONY: check
check: ## Formatting, vet and staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	@if [ -e bench/go.mod ]; then cd bench && $(GO) vet ./... && $(GO) test ./...; fi
	cd examples/middleware && $(GO) vet ./... && $(GO) test ./...
	cd examples/kong-plugin && $(GO) vet ./...
	cd tools && $(GO) vet ./... && $(GO) test -count=1 ./...

# What it leaves out runs programs: servers, a browser, the headgate command.
.PHONY: quick
quick: ## Vet, and the unit and property tests that need no server: a minute or two
	$(GO) vet ./...
	HEADGATE_TEST_SERVERS=none $(GO) test -short $$($(GO) list ./... | grep -vE '/(test|clients)(/|$$)')

# -count=1: tests that build and run the command are not seen by the test cache. Many wait
# for servers, so two packages to a processor keep it busy. A process under the race detector
# sleeps a second before it ends, unless it is told otherwise: so does each command of the
# hundreds in test/script. -race also checks each conversion of pointers, of which SQLite in
# Go is made: that is not ours, and took a quarter of the time of what uses it. Packages in
# which nothing runs side by side are left to norace, and those that only start programs: the
# race detector can find nothing in them. -vet=off: check has vetted all of it.
.PHONY: race
race: bin/tested/headgate ## The tests with the race detector, against real servers, where anything runs side by side
	find . -path '*/testdata/rapid/*' -name '*.fail' -delete
	packages=$$(./scripts/serial.sh -v | grep -vxF "$$(printf '%s\n' $(DRIVERS))") && \
		$(TESTED) -race -gcflags='modernc.org/...=-d=checkptr=0' $(SLOWEST) $$packages

.PHONY: norace
norace: bin/tested/headgate ## The other tests, and those that the race detector disturbs or skips: allocations, simulations
	serial=$$(./scripts/serial.sh) && $(TESTED) $(DRIVERS) $(filter-out $(SERVED),$(RACELESS)) $$serial && \
		$(TESTED) -run Alloc $$(printf '%s\n' $(filter-out $(RACELESS),$(ALLOCATING)) | grep -vxF "$$serial")
	cd examples/kong-plugin && HEADGATE_TEST_BINARY="$(CURDIR)/bin/tested/headgate" $(GO) test -vet=off -count=1 ./...
	left=$$(awk '/^func Test/ { name = $$2; sub(/\(.*/, "", name) } /racetest\.(Serially|Enabled)/ { print name }' \
		$(addsuffix /*_test.go,$(SERVED)) | sort -u | paste -sd '|' -) && $(TESTED) -run "^($$left)\$$" $(SERVED)

# The command that the tests start, built once for all packages; go build knows what has changed.
.PHONY: bin/tested/headgate
bin/tested/headgate:
	$(GO) build -o $@ ./cmd/headgate

# Apart from check, which runs while deps still downloads: chart needs schemas, packages needs what
# builds the clients. -count=1: files outside of a module are not seen by the test cache.
.PHONY: chart
chart: ## The Helm chart and what kustomize makes, by Helm, Kubernetes' schemas and Headgate
	cd tools/chart && $(GO) vet ./... && $(GO) test -count=1 ./...

.PHONY: packages
packages: ## What a release publishes: archives, packages for systems, the clients in other languages
	cd tools/release && $(GO) vet ./... && $(GO) test -count=1 ./...

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (30s)
	FUZZTIME=$(FUZZTIME) ./scripts/fuzz.sh

.PHONY: mutants
mutants: deps ## Plant small bugs one by one, and see that the tests find them; MUTANTFLAGS='-area limits' for some
	cd tools && $(GO) run ./mutants $(MUTANTFLAGS) ..

.PHONY: docs
docs: ## Make a site of the documentation, with a search, in bin/docs: open bin/docs/index.html
	cd tools && $(GO) run ./site .. ../bin/docs

.PHONY: proto
proto: ## Write the Go code of the .proto files anew
	cd tools && $(GO) run ./protogen ..

.PHONY: screenshots
screenshots: deps ## Draw every page of the dashboard into bin/_artifacts
	mkdir -p bin
	$(GO) test -count=1 ./test/browser -artifacts -outputdir $(CURDIR)/bin

.PHONY: fault
fault: deps ## Kill, freeze and cut off real servers and nodes under load, for about half an hour
	$(GO) test -count=1 -timeout 60m -run '^TestReplay$$' -v ./store/redisstore -args -replay $(REPLAY)
	mkdir -p bin
	$(GO) test -count=1 -timeout 6h -v ./test/fault -args -long -table $(CURDIR)/bin/fault.md \
		-commit $$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown) $(FAULTFLAGS)

.PHONY: bench
bench: ## Measure Headgate beside its peers
	cd bench && ./run.sh

.PHONY: bench-page
bench-page: ## Measure all of it, and make the figures of bench/README.md, docs/capacity.md and the chart anew
	cd bench && ./page.sh
