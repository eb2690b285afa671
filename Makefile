# AutoSched: everything a developer runs. Go and make are enough for build,
# demo, test and bench; the other targets say what they miss.

GO    ?= go
GOFMT ?= $(shell $(GO) env GOROOT)/bin/gofmt

# What `make demo` runs: the tutorial's fortnight, on which the daily rule answers, and two built-in synthetic traces of
# 20 nodes of 8 GPUs, one whose shape changes after a week and one whose shape stays.
DEMO_DIR   ?= out/demo
DEMO_SEEDS ?= 1
DEMO_FLAGS ?= --scheduler tiresias --methods default,preset,random-preset,fixed-history,autosched --fixed-budget 400

# Which benchmarks, and for how long each.
BENCH     ?= .
BENCHTIME ?= 1s

# How long each fuzz target runs.
FUZZTIME ?= 1m

# How long the tests of one package may take; go's own 10 minutes are short for
# the largest ones on a busy machine.
TEST_TIMEOUT ?= 30m

# Extra flags of every `go test`.
TEST_FLAGS ?=

# Which packages `make test` tests.
TEST_PACKAGES ?= ./...

# The seed of the property tests, so that a run can be repeated; 0 draws another
# each time.
RAPID_SEED ?= 20171009
export RAPID_SEED

# Only the race detector needs cgo. One setting for all else, so that the targets
# share what they compile.
export CGO_ENABLED := 0

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## Build bin/autosched.
	$(GO) build -trimpath -o bin/autosched ./cmd/autosched

.PHONY: kube
kube: ## Build bin/autosched-kube, the adapter of Kueue and Volcano.
	$(GO) -C adapter/kubernetes build -trimpath -o $(CURDIR)/bin/autosched-kube ./cmd/autosched-kube

.PHONY: lab
lab: ## Build bin/autosched-lab, which runs experiments.
	$(GO) build -trimpath -o bin/autosched-lab ./lab/cmd/autosched-lab

# Where releases go, for what, and which version they say they are.
RELEASE_DIR   ?= out/release
RELEASE_ARCHS ?= amd64 arm64
VERSION       ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The bytes depend on the commit, the version and Go's version alone: no paths, no time, no cgo.
.PHONY: release
release: ## Build the release for Linux, with its checksums, into out/release.
	@rm -rf $(RELEASE_DIR) && mkdir -p $(RELEASE_DIR)
	@for arch in $(RELEASE_ARCHS); do \
		echo "$(RELEASE_DIR)/autosched-linux-$$arch $(VERSION)"; \
		GOOS=linux GOARCH=$$arch GOAMD64=v1 GOARM64=v8.0 $(GO) build -trimpath -ldflags '-s -w -X github.com/autosched/autosched/internal/cli.release=$(VERSION)' \
			-o $(RELEASE_DIR)/autosched-linux-$$arch ./cmd/autosched || exit 1; \
	done
	@cd $(RELEASE_DIR) && sha256sum autosched-linux-* >SHA256SUMS

.PHONY: demo
demo: build ## Say whether to change a site's settings, evaluate tuning on two traces, run a service, and say where to look.
	@echo "1. The history of a site of two weeks (docs/tutorial.md):"
	bin/autosched evaluate --trace examples/tutorial/sacct.psv --from 2026-03-05 --scheduler fifo --set backfill=false --recorded-scheduler fifo --methods current,fixed-history,autosched --seeds 1 --out $(DEMO_DIR)/tutorial
	@echo
	@echo "2. A synthetic workload whose shape changes:"
	bin/autosched evaluate --trace sample-shifts --from 2017-10-16 $(DEMO_FLAGS) --seeds $(DEMO_SEEDS) --out $(DEMO_DIR)/sample-shifts
	@echo
	@echo "3. A synthetic workload whose shape stays:"
	bin/autosched evaluate --trace sample --from 2017-10-10 $(DEMO_FLAGS) --seeds 1 --out $(DEMO_DIR)/sample
	@echo
	@echo "4. A service with an emulated cluster, whose folder stays:"
	examples/dashboard.sh $(DEMO_DIR)/service
	@echo
	@echo "Reports: report.html in $(DEMO_DIR)/tutorial, $(DEMO_DIR)/sample-shifts and $(DEMO_DIR)/sample"
	@echo "Dashboard: bin/autosched serve --dir $(DEMO_DIR)/service --operations 127.0.0.1:9443, at http://127.0.0.1:9443"

# Draws of each property, and the numbers of kills and damages: `make long` takes more of all.
.PHONY: test
test: export RAPID_CHECKS ?= 25
test: ## Run every test.
	$(GO) test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(TEST_PACKAGES)
ifeq ($(TEST_PACKAGES),./...)
	$(GO) -C adapter/kubernetes test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) -skip '^TestLive' ./...
endif

.PHONY: check
check: format vet staticcheck generated pages test race nvml browser python demo ## Run everything that a change must pass.

.PHONY: long
long: export RAPID_CHECKS ?= 200
long: export AUTOSCHED_LONG ?= 1
long: export AUTOSCHED_KILLS ?= 200
long: export AUTOSCHED_DAMAGED ?= 200
long: export AUTOSCHED_IMAGES ?= 2000
long: ## Run the tests with their largest inputs (half an hour), and experiments under the race detector.
	$(GO) test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./...
	@$(MAKE) --no-print-directory race AUTOSCHED_LONG=0 RACE_PACKAGES="$(RACE_LAB)"

# The counts of hours; `make test` takes a share of each, but compares no times. A run that was ended goes on: TALLY has
# the counts.
TALLY ?= $(CURDIR)/out/reliability.txt

.PHONY: reliability
reliability: export AUTOSCHED_TALLY := $(TALLY)
reliability: export AUTOSCHED_KILLS ?= 10000
reliability: export AUTOSCHED_STUDY_KILLS ?= 2000
reliability: export AUTOSCHED_DAMAGED ?= 10000
reliability: export AUTOSCHED_IMAGES ?= 100000
reliability: export AUTOSCHED_WATCHERS ?= 10000
reliability: export AUTOSCHED_SOAK ?= 3600
reliability: export AUTOSCHED_RESTART ?= 1000000
reliability: ## Kill, damage and load the service for hours.
	$(GO) test -count=1 -timeout 24h -v -run \
		'^Test(Kills|StudyKills|NothingAcknowledgedIsLost|PowerCuts.*|Damaged.*|WatchersUnderLoad|ReadsWhileTuning|IngestInBatches|Soak.*|RestartInEveryState)$$' \
		./controller ./service ./service/store ./cmd/autosched/internal/serve; status=$$?; \
	awk '{ n[$$1] += $$2; w[$$1] += $$3 == "wrong" } END { for (t in n) print t, n[t], "wrong:", w[t] }' $(TALLY); exit $$status

.PHONY: bench
bench: ## Run the benchmarks, each from a small size to a full trace, with allocations.
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem ./...

# The matrix of docs/evaluation.md. A run that was ended resumes; another commit
# measures again what decides every round.
DECISIONS_DATA  ?= $(or $(AUTOSCHED_SHARED),../shared)/traces
DECISIONS_OUT   ?= out/decisions.jsonl
DECISIONS_FLAGS ?=

.PHONY: decisions
decisions: lab ## Compare tuning methods over windows, schedulers and seeds (hours; resumes).
	@test -d $(DECISIONS_DATA) || { \
		echo "decisions: $(DECISIONS_DATA) is missing: set AUTOSCHED_SHARED to the folder of the reference data"; exit 1; }
	@mkdir -p $(dir $(DECISIONS_OUT))
	bin/autosched-lab decisions --scenarios examples/scenarios.json --data $(DECISIONS_DATA) --out $(DECISIONS_OUT) \
		--build "$$(git describe --always --dirty 2>/dev/null)" $(DECISIONS_FLAGS)

.PHONY: proto
proto: ## Generate the Go code of the gRPC services and docs/reference again (needs protoc).
	./api/generate.sh

# The first Python that has the packages; the system's, where another one comes first.
PYTHON ?= $(shell for p in python3 /usr/bin/python3; do \
	$$p -c 'import grpc, google.protobuf, ensurepip, setuptools, wheel' 2>/dev/null && { echo $$p; break; }; done)

# The server that telemetry fetch is tried on: four minutes of CPU, of its own module.
PROMETHEUS     ?= github.com/prometheus/prometheus
PROMETHEUS_DIR ?= $(CURDIR)/out/prometheus

.PHONY: prometheus
prometheus: ## Build Prometheus into out/prometheus, and run the test that fetches from it (4 minutes of CPU).
	@mkdir -p $(PROMETHEUS_DIR)
	@test -f $(PROMETHEUS_DIR)/go.mod || printf 'module prometheus\ngo 1.26\n' >$(PROMETHEUS_DIR)/go.mod
	cd $(PROMETHEUS_DIR) && $(GO) get $(PROMETHEUS)/cmd/prometheus@v0.316.0 && \
		$(GO) build -mod=mod -tags remove_all_sd -o . $(PROMETHEUS)/cmd/prometheus $(PROMETHEUS)/cmd/promtool
	AUTOSCHED_PROMETHEUS=$(PROMETHEUS_DIR) $(GO) test -count=1 $(TEST_FLAGS) -run '^TestRealPrometheus$$' ./cmd/autosched/internal/traces

# The dashboard's pages, of TypeScript. npm installs into web/node_modules what package-lock.json names.
web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --prefer-offline --no-audit --no-fund --loglevel=error && touch node_modules/.package-lock.json

.PHONY: web
web: web/node_modules/.package-lock.json ## Check the dashboard's pages, and bundle them into web/dist (needs npm).
	cd web && npx tsc -p . && node build.mjs

.PHONY: pages
pages: ## Check that web/dist is up to date (needs npm).
	@if command -v npm >/dev/null 2>&1; then \
		set -e; old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
		cp -R web/dist "$$old/"; $(MAKE) --no-print-directory web; \
		diff -rq "$$old/dist" web/dist || { \
			echo "pages: web/dist was out of date and is written anew; commit it"; exit 1; }; \
	elif [ -n "$(CI)" ]; then \
		echo "pages: npm is missing"; exit 1; \
	else \
		echo "pages: SKIPPED, there is no npm"; \
	fi

# Pictures of pages go into the folder that AUTOSCHED_SCREENSHOTS names: docs/dashboard has those of docs/dashboard.md.
.PHONY: browser
browser: ## Test the dashboard in Chromium against a running service (needs npm and chromium).
	@if command -v npm >/dev/null 2>&1; then \
		$(MAKE) --no-print-directory web/node_modules/.package-lock.json && \
		$(GO) -C web/browser test -count=1 -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) -v ./...; \
	elif [ -n "$(CI)" ]; then \
		echo "browser: npm is missing"; exit 1; \
	else \
		echo "browser: SKIPPED, there is no npm"; \
	fi

.PHONY: python
python: ## Install the Python package into out/python, and run its examples against a service (needs python3-grpcio, python3-venv, python3-wheel).
	@if [ -n "$(PYTHON)" ]; then \
		$(PYTHON) -m venv --clear --system-site-packages out/python && \
		out/python/bin/pip install --quiet --no-index --no-deps --no-build-isolation ./python && \
		AUTOSCHED_PYTHON="$(CURDIR)/out/python/bin/python" $(GO) test $(TEST_FLAGS) -run '^TestPython' ./cmd/autosched/...; \
	elif [ -n "$(CI)" ]; then \
		echo "python: python3-grpcio, python3-protobuf, python3-venv, python3-setuptools or python3-wheel is missing"; exit 1; \
	else \
		echo "python: SKIPPED, it needs python3-grpcio, python3-protobuf, python3-venv, python3-setuptools and python3-wheel"; \
	fi

# full takes two hours, most of them pauses between the starts of slurmctld 24.11, short four minutes.
AUTOSCHED_SLURM ?= $(if $(CI),short,full)

.PHONY: slurm
slurm: export AUTOSCHED_SLURM := $(AUTOSCHED_SLURM)
slurm: slurm-24.11 ## Run the tests on a real Slurm with emulated nodes (needs root and Slurm's packages).
	$(GO) test -p 1 -count=1 -timeout $(TEST_TIMEOUT) -v ./adapter/slurm/...
	$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -v -run '^TestSlurm(Docs|Live)$$' ./cmd/autosched/internal/adapters
	$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -v -run '^TestSlurm(Sites|2411)$$' ./schedulers
	@if [ "$(AUTOSCHED_SLURM)" = full ] && command -v slurmctld >/dev/null && [ "$$(id -u)" = 0 ]; then \
		$(MAKE) --no-print-directory build && examples/slurm.sh; \
	fi

# In a Debian 13 that is installed into the user's cache once.
.PHONY: slurm-24.11
slurm-24.11: export AUTOSCHED_SLURM := $(AUTOSCHED_SLURM)
slurm-24.11: ## Run the tests of the adapter on Slurm 24.11, in a chroot (needs root; one gigabyte of the cache).
	@if [ "$$(id -u)" != 0 ]; then echo "slurm-24.11: SKIPPED, it needs root"; else GO="$(GO)" .ci/slurm-24.11 adapter/slurm \
		-test.v -test.timeout 2h -test.run "$$([ "$(AUTOSCHED_SLURM)" = short ] && echo '^TestSlurm$$' || echo '^TestSlurm(|Applies|Backup|Faults|Killed|Refuses|Sites)$$')"; fi

# AUTOSCHED_NODES_ROUNDS is the number of rounds of all kinds, AUTOSCHED_NODES_OUT the file of those that are done,
# AUTOSCHED_NODES_CUTS the number of power cuts.
.PHONY: nodes
nodes: ## Inject faults into a service of one and of three nodes, and check the answers that clients got (needs root).
	AUTOSCHED_NODES=1 $(GO) test -count=1 -timeout 24h -v -run '^Test(OneNode|Nodes|NodesCost|PowerCut|PowerCutFindsUnsyncedServers)$$' ./cmd/autosched/internal/serve

# The previous version is the commit of service/nodetest/testdata/previous.
.PHONY: upgrade
upgrade: ## Upgrade three nodes and one process from the previous version under load, and back (needs root and git).
	AUTOSCHED_NODES=1 $(GO) test -count=1 -timeout 1h -v -run '^Test(RollingUpgrade|UpgradeToNewEntries)$$' ./cmd/autosched/internal/serve

# Of the module proxy's sources, in versions that are pinned, into the user's cache.
.PHONY: kubernetes-build
kubernetes-build: ## Build what is missing of etcd, kube-apiserver, Kueue and Volcano (10 minutes of CPU, once).
	$(GO) -C adapter/kubernetes run ./rig/cmd/rig build

# AUTOSCHED_LONG=1: with the inputs that take minutes, and the example.
.PHONY: kubernetes
kubernetes: kubernetes-build ## Run the tests on a real API server with Kueue and Volcano, on emulated nodes.
	AUTOSCHED_REQUIRE_KUBERNETES=1 $(GO) -C adapter/kubernetes test -p 2 -count=1 -timeout $(TEST_TIMEOUT) -v -run '^TestLive' ./...
	@if [ "$$AUTOSCHED_LONG" = 1 ]; then $(MAKE) --no-print-directory build && examples/kubernetes.sh; fi

.PHONY: format
format: ## Check that gofmt would change nothing.
	@files=$$($(GOFMT) -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## Run go vet.
	$(GO) vet ./...
	$(GO) -C adapter/kubernetes vet ./...
	$(GO) -C web/browser vet ./...

.PHONY: staticcheck
staticcheck: ## Run staticcheck, in the version go.mod names.
	$(GO) tool staticcheck ./...
	cd adapter/kubernetes && $$($(GO) -C ../.. tool -n staticcheck) ./...
	cd web/browser && $$($(GO) -C ../.. tool -n staticcheck) ./...

# The packages that start goroutines, in their code or in their tests, and those whose functions internal/cells calls
# from several, by their text, so that a new one is in the list at once; not those of which only t.Parallel or a test's
# HTTP server starts any. `make long` runs those of experiments; the texts of internal/arch are of its rules, and
# worst_test.go is of `make long`.
RACE_TEXT := ^\s*go [a-zA-Z(]|\.Go\(|AfterFunc\(|"github.com/autosched/autosched/internal/cells"
RACE_PACKAGES ?= $(shell grep -rlE --include='*.go' --exclude-dir=lab --exclude-dir=arch --exclude-dir=kubernetes --exclude=worst_test.go '$(RACE_TEXT)' . | xargs -n1 dirname | sort -u)
RACE_LAB = $(shell grep -rlE --include='*.go' '$(RACE_TEXT)' lab | xargs -n1 dirname | sort -u | sed 's,^,./,')

# -short leaves out the largest inputs, and a property needs fewer draws (-short divides them by 5): they reach
# no other code.
.PHONY: race
race: export CGO_ENABLED := 1
race: export RAPID_CHECKS ?= 30
race: ## Run the tests under the race detector (needs gcc).
	@if command -v gcc >/dev/null 2>&1; then \
		set -ex; $(GO) test -race -short -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(RACE_PACKAGES); \
		$(if $(filter file,$(origin RACE_PACKAGES)),$(GO) -C adapter/kubernetes test -race -short -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) -skip '^TestLive' ./...;) \
	elif [ -n "$(CI)" ]; then \
		echo "race: gcc is missing"; exit 1; \
	else \
		echo "race: SKIPPED, the race detector needs gcc and there is none"; \
	fi

# NVML's binding needs cgo; its mock of eight GPUs needs no driver.
.PHONY: nvml
nvml: ## Run the tests of the GPU collector with its driver (needs gcc).
	@if command -v gcc >/dev/null 2>&1; then \
		CGO_ENABLED=1 $(GO) vet -tags nvml ./telemetry/... && \
		CGO_ENABLED=1 $(GO) test -tags nvml $(TEST_FLAGS) ./telemetry/...; \
	elif [ -n "$(CI)" ]; then \
		echo "nvml: gcc is missing"; exit 1; \
	else \
		echo "nvml: SKIPPED, NVML needs cgo, and there is no gcc"; \
	fi

# `go test -fuzz` takes one target of one package at a time. A run that times
# out while it shuts down, without a failing input, proves nothing and is
# tried once more.
.PHONY: fuzz
fuzz: ## Run every fuzz target for a minute (FUZZTIME).
	@mkdir -p out
	@{ $(GO) test -list '^Fuzz' ./... && $(GO) -C adapter/kubernetes test -list '^Fuzz' ./...; } >out/fuzz.list || { cat out/fuzz.list; exit 1; }
	@awk '/^Fuzz/ { t[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, t[i]; n = 0 }' out/fuzz.list | \
	while read -r pkg target; do \
		for try in 1 2; do \
			case $$pkg in */adapter/kubernetes/*) module=adapter/kubernetes ;; *) module=. ;; esac; \
			if $(GO) -C $$module test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" >out/fuzz.log 2>&1 </dev/null; then \
				echo "ok   $$pkg $$target"; continue 2; \
			fi; \
			if [ $$try = 2 ] || grep -q 'Failing input' out/fuzz.log || ! grep -q 'context deadline exceeded' out/fuzz.log; then \
				cat out/fuzz.log; echo "FAIL $$pkg $$target"; exit 1; \
			fi; \
		done; \
	done

# What configurations are worth on a real slurmctld: docs/notes/slurm-model.md has the tables. A run that was ended resumes.
PAY_TRACE ?= $(or $(AUTOSCHED_SHARED),../shared)/traces/philly/jobs.csv.gz
PAY_OUT   ?= out/slurmpay.jsonl
PAY_FLAGS ?=

.PHONY: slurm-pay
slurm-pay: build ## Measure what configurations of Slurm are worth, on emulated clusters (root; two hours; resumes).
	@mkdir -p $(dir $(PAY_OUT))
	$(GO) run ./lab/cmd/slurmpay --trace $(PAY_TRACE) --out $(PAY_OUT) $(PAY_FLAGS)
	$(GO) run ./lab/cmd/slurmpay --out $(PAY_OUT) --report

# What settings are worth on a real Kueue or Volcano: docs/notes/kubernetes-model.md has the tables. A run that was ended
# resumes.
.PHONY: kubernetes-pay
kubernetes-pay: kubernetes-build ## Measure what settings of Volcano are worth, on emulated nodes (90 minutes; resumes).
	$(GO) -C adapter/kubernetes run ./rig/cmd/pay --shared $(or $(AUTOSCHED_SHARED),$(CURDIR)/../shared)/golden/kubernetes --dir $(CURDIR)/out/kubernetes-pay $(PAY_FLAGS)
	$(GO) -C adapter/kubernetes run ./rig/cmd/pay --dir $(CURDIR)/out/kubernetes-pay $(PAY_FLAGS) --report

# Compared with a copy rather than by git, so that work in progress can be checked too.
.PHONY: generated
generated: ## Check that the generated code and pages are up to date (needs protoc).
	@if command -v protoc >/dev/null 2>&1; then \
		set -e; old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
		cp -R api docs/reference python/autosched/v1 "$$old/"; ./api/generate.sh; \
		diff -r "$$old/api" api && diff -r "$$old/reference" docs/reference && \
		diff -r -x __pycache__ "$$old/v1" python/autosched/v1 || { \
			echo "generated: api, docs/reference or python/autosched/v1 was out of date and is written anew; commit it"; \
			exit 1; }; \
	elif [ -n "$(CI)" ]; then \
		echo "generated: protoc is missing"; exit 1; \
	else \
		echo "generated: SKIPPED, there is no protoc"; \
	fi

.PHONY: clean
clean: ## Remove what make built or wrote.
	rm -rf bin out
