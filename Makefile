# AutoSched: everything a developer runs. Go and make are enough for build,
# demo, test and bench; the other targets say what they miss.

GO    ?= go
GOFMT ?= $(shell $(GO) env GOROOT)/bin/gofmt

# What `make demo` runs: an embedded synthetic trace of three days on 20 nodes
# of 8 GPUs.
DEMO_DIR   ?= out/demo
DEMO_FLAGS ?= --trace sample --from 2017-10-10T00:00:00Z --nodes 20 --gpus-per-node 8 --scheduler tiresias --out $(DEMO_DIR)

# Which benchmarks, and for how long each.
BENCH     ?= .
BENCHTIME ?= 1s

# How long each fuzz target runs.
FUZZTIME ?= 3s

# How long the tests of one package may take; go's own 10 minutes are short for
# the largest ones on a busy machine.
TEST_TIMEOUT ?= 30m

# Extra flags of `make race`. Under -short the heavy suites leave out their
# largest inputs.
RACE_FLAGS ?= -short

# Golden results and traces lie beside a checkout, not in it. Tests that need
# them skip where they are absent; with AUTOSCHED_REQUIRE_SHARED=1 they fail.
# The seed of the property tests, so that a run can be repeated; 0 draws another
# each time.
RAPID_SEED ?= 20171009
export RAPID_SEED

SHARED := $(or $(AUTOSCHED_SHARED),../shared)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## Build bin/autosched.
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/autosched ./cmd/autosched

.PHONY: demo
demo: build ## Evaluate adaptive tuning on the sample trace and say where the report lies.
	bin/autosched evaluate $(DEMO_FLAGS)

.PHONY: test
test: ## Run every test.
	CGO_ENABLED=0 $(GO) test -timeout $(TEST_TIMEOUT) ./...

.PHONY: check
check: test format vet staticcheck race fuzz golden generated ## Run the tests and all other checks.

.PHONY: bench
bench: ## Run the benchmarks, each from a small size to a full trace, with allocations.
	CGO_ENABLED=0 $(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...

.PHONY: proto
proto: ## Generate the Go code of the gRPC services again (needs protoc).
	./api/generate.sh

.PHONY: format
format: ## Check that gofmt would change nothing.
	@files=$$($(GOFMT) -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## Run go vet.
	$(GO) vet ./...

.PHONY: staticcheck
staticcheck: ## Run staticcheck, in the version go.mod names.
	$(GO) tool staticcheck ./...

# The race detector needs cgo and a C compiler.
.PHONY: race
race: ## Run the tests under the race detector (needs gcc).
	@if command -v gcc >/dev/null 2>&1; then \
		echo "CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) $(RACE_FLAGS) ./..."; \
		CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) $(RACE_FLAGS) ./...; \
	elif [ -n "$(CI)" ]; then \
		echo "race: gcc is missing"; exit 1; \
	else \
		echo "race: SKIPPED, the race detector needs gcc and there is none"; \
	fi

# `go test -fuzz` takes one target of one package at a time. A run that times
# out while it shuts down, without a failing input, proves nothing and is
# tried once more.
.PHONY: fuzz
fuzz: ## Run every fuzz target for a few seconds (FUZZTIME).
	@mkdir -p out
	@$(GO) test -list '^Fuzz' ./... >out/fuzz.list || { cat out/fuzz.list; exit 1; }
	@awk '/^Fuzz/ { t[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, t[i]; n = 0 }' out/fuzz.list | \
	while read -r pkg target; do \
		for try in 1 2; do \
			if $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" >out/fuzz.log 2>&1 </dev/null; then \
				echo "ok   $$pkg $$target"; continue 2; \
			fi; \
			if [ $$try = 2 ] || grep -q 'Failing input' out/fuzz.log || ! grep -q 'context deadline exceeded' out/fuzz.log; then \
				cat out/fuzz.log; echo "FAIL $$pkg $$target"; exit 1; \
			fi; \
		done; \
	done

# The packages whose tests compare with the reference data, with -count=1,
# because the test cache does not see files outside the module.
.PHONY: golden
golden: ## Run the golden and end-to-end suites over the reference data.
	@if [ -d $(SHARED) ]; then \
		pkgs=$$($(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | awk '/internal\/testshared/ { print $$1 }'); \
		AUTOSCHED_REQUIRE_SHARED=1 CGO_ENABLED=0 $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $$pkgs; \
	elif [ -n "$(AUTOSCHED_REQUIRE_SHARED)" ]; then \
		echo "golden: $(SHARED) is absent"; exit 1; \
	else \
		echo "golden: SKIPPED, $(SHARED) is absent"; \
	fi

# Compared with a copy rather than by git, so that work in progress can be
# checked too.
.PHONY: generated
generated: ## Check that the generated code is up to date (needs protoc).
	@if command -v protoc >/dev/null 2>&1; then \
		set -e; old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
		cp -R api "$$old/"; ./api/generate.sh; \
		diff -r "$$old/api" api || { echo "generated: api was out of date and is written anew; commit it"; exit 1; }; \
	elif [ -n "$(CI)" ]; then \
		echo "generated: protoc is missing"; exit 1; \
	else \
		echo "generated: SKIPPED, there is no protoc"; \
	fi

.PHONY: clean
clean: ## Remove what make built or wrote.
	rm -rf bin out
