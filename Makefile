# bridged. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

# The one place for build tags. They leave out of the Podman bindings what
# needs C libraries: GPG, and the storage drivers of an engine on this machine.
TAGS := remote,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper
export GOFLAGS := -buildvcs=false -tags=$(TAGS)

# Everything is built without C, once; only the race detector needs it.
export CGO_ENABLED := 0

# Asked once: a file that is saved during a build must not give its parts two versions.
ifeq ($(origin VERSION),undefined)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
endif
LDFLAGS := -s -w -X main.version=$(VERSION)

# What the tests and the demo install or build once: engines' settings, root
# file systems, MCP servers. Deleting it is safe.
ifeq ($(shell id -u),0)
export BRIDGED_TEST_CACHE ?= /var/cache/bridged-test
else
export BRIDGED_TEST_CACHE ?= $(HOME)/.cache/bridged-test
endif
export BRIDGED_TEST_SERVERS := $(BRIDGED_TEST_CACHE)/mcpservers/bin
export BRIDGED_TEST_TOON := $(BRIDGED_TEST_CACHE)/toon
export BRIDGED_TEST_WEB := $(BRIDGED_TEST_CACHE)/web

.PHONY: build
build: ## build bin/bridged and bin/bridge-shim, both static
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/bridged ./cmd/bridged
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/bridge-shim ./cmd/bridge-shim

# A package is made with DESTDIR; without it the service is enabled and started.
PREFIX ?=
DESTDIR ?=

.PHONY: install
install: build ## install below PREFIX (~/.local, or /usr/local for root), or into the folder DESTDIR
	bin/bridged install $(if $(PREFIX),--prefix '$(PREFIX)') $(if $(DESTDIR),--destdir '$(DESTDIR)')

.PHONY: test
test: setup build race harness-test integration ## install what is missing, and test everything on real engines

.PHONY: test-short
test-short: ## run the unit tests alone: no engine, no network
	go test ./...

.PHONY: race
race: ## run the unit tests under the race detector
	CGO_ENABLED=1 go test -race -timeout 20m ./...

.PHONY: harness-test
harness-test: ## run the harness's tests under the sandbox's own Python
	images/inside.sh $(BRIDGED_TEST_CACHE)/slim.tar images \
		python3 -W error -m unittest discover --start-directory harness_test --top-level-directory .

# The attacks tell how many they were even when none got through: hence -v.
.PHONY: integration
integration: ## run the tests on real engines and real MCP servers (after setup and build)
	GOFLAGS='$(GOFLAGS),integration' go test -count=1 -timeout 45m ./integration ./integration/toon ./integration/packaging
	GOFLAGS='$(GOFLAGS),integration' go test -v -count=1 -timeout 45m ./integration/escape
	GOFLAGS='$(GOFLAGS),integration' go test -v -count=1 -timeout 20m ./integration/chaos
	GOFLAGS='$(GOFLAGS),integration' go test -count=1 -timeout 20m ./integration/web

# The engine of the benchmarks: rootless, rootful, docker or trixie.
ENGINE ?= rootful

.PHONY: bench
bench: setup build ## measure on a real engine (ENGINE=rootful); prints a table and writes out/bench.json
	integration/bench/jupyter/install.sh $(BRIDGED_TEST_CACHE)/jupyter $(BRIDGED_TEST_CACHE)/full.tar
	GOFLAGS='$(GOFLAGS),integration' go run ./integration/bench $(ENGINE)

# How long chaos and soak go on, and the seed of chaos; 0 takes one from the clock.
MINUTES ?= 30
SEED ?= 0

.PHONY: chaos
chaos: setup build ## kill, pause and fill up everything for MINUTES while agents work (SEED, ENGINE)
	GOFLAGS='$(GOFLAGS),integration' go test -v -count=1 -timeout 0 -run TestChaos ./integration/chaos \
		-seed $(SEED) -minutes $(MINUTES) -engine $(ENGINE)

.PHONY: soak
soak: setup build ## have agents work for MINUTES and print what the daemon uses meanwhile (ENGINE)
	GOFLAGS='$(GOFLAGS),integration' go test -v -count=1 -timeout 0 -run TestChaos ./integration/chaos \
		-soak -minutes $(MINUTES) -engine $(ENGINE)

.PHONY: bench-search
bench-search: ## measure how well the search over tools of real MCP servers finds the right one
	GOFLAGS='$(GOFLAGS),integration' go run ./integration/searchbench

.PHONY: bench-tokens
bench-tokens: setup build ## count the tokens that real MCP servers cost a model, and those that we cost it
	GOFLAGS='$(GOFLAGS),integration' go run ./integration/tokenbench

.PHONY: demo
demo: ## set everything up and show one agent session
	integration/demo/deps.sh
	$(MAKE) build
	go run ./integration/demo

.PHONY: image
image: build ## make the sandbox image: with mmdebstrap where it is installed, else from a registry
	if ! command -v mmdebstrap >/dev/null; then exec bin/bridged image build; fi; \
		images/debian.sh --if-changed $(BRIDGED_TEST_CACHE)/full.tar full; \
		bin/bridged image import --file $(BRIDGED_TEST_CACHE)/full.tar

.PHONY: setup
setup: ## install what the tests need (Debian 12; elsewhere it says what)
	mkdir -p $(BRIDGED_TEST_CACHE)
	integration/setup.sh all
	integration/mcpservers/install.sh $(BRIDGED_TEST_CACHE)/mcpservers
	integration/npm.sh integration/toon $(BRIDGED_TEST_CACHE)/toon
	integration/web/install.sh $(BRIDGED_TEST_CACHE)/web

.PHONY: lint
lint: ## run gofmt, go vet, golangci-lint, ruff and mypy
	@unformatted=$$(gofmt -l *.go cmd images integration pkg); \
		[[ -z $$unformatted ]] || { echo "gofmt these: $$unformatted" >&2; exit 1; }
	GOFLAGS='$(GOFLAGS),integration' go vet ./...
	GOFLAGS='$(GOFLAGS),integration' golangci-lint run ./...
	ruff check .
	ruff format --check .
	mypy

.PHONY: arrows
arrows: ## check that packages import each other as the design says
	go test -count=1 .

.PHONY: cross
cross: ## build for macOS and for Linux on arm64, and throw it away
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./...
	GOOS=linux GOARCH=arm64 go build -o /dev/null ./...

# What releases are made for: what cross checks, and what the tests run on.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64
DIST ?= out/dist
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

.PHONY: dist
dist: build ## make reproducible release archives, Debian packages and SHA256SUMS in out/dist
	VERSION='$(VERSION)' LDFLAGS='$(LDFLAGS)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' packaging/dist.sh '$(DIST)' $(PLATFORMS)

.PHONY: goflags
goflags: ## print the line that gives a shell our GOFLAGS
	@echo 'export GOFLAGS="$(GOFLAGS)"'

.PHONY: clean
clean: ## remove what was built here (and not what setup installed)
	rm -rf bin out

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r t h; do printf '  %-14s %s\n' "$$t" "$$h"; done
