# Plain `make` prints this list. CI runs these targets and nothing else.

GO    ?= go
TOOL  := $(GO) tool -modfile=tools/modules/go.mod
TESTS ?= ./...
# Tests wait for clocks and disks most of their time: so many packages at once, and tests of one, keep the processors busy.
AT_ONCE := -p $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 2) -parallel $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 2)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: build
build: ## bin/sluice and bin/sluice-send, stripped; the same commit and Go give the same bytes
	$(BUILD) -o bin/ ./cmd/...

# Nothing of the machine and nothing of the clock goes in: no paths, no file times, no state of the work tree but its commit.
VERSION := v$(shell sed -n 's/^const Number = "\(.*\)"/\1/p' internal/version/version.go)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags='-s -w -buildid= -X main.revision=$(COMMIT)'
DIST ?= dist

.PHONY: reproducible
reproducible: ## builds the programs twice, in two places and without a cache, and compares the bytes
	@./tools/reproducible $(BUILD)

.PHONY: release
release: ## everything a release gives out, in dist/VERSION: PLATFORMS="linux/amd64 …", SENDERS="windows/amd64 …", DIST=directory
	@./tools/release $(VERSION) $(if $(filter dist,$(DIST)),dist/$(VERSION),$(DIST)) $(BUILD)

.PHONY: image
image: ## dist/: the container image for this machine's kind of processor, as docker load reads it
	mkdir -p dist/image
	GOOS=linux $(BUILD) -o dist/image/sluice ./cmd/sluice
	./tools/image dist/image/sluice $$($(GO) env GOARCH) sluice:$(VERSION) dist/sluice-$(VERSION)-linux-$$($(GO) env GOARCH).image.tar.gz

.PHONY: publish-path
publish-path: ## a copy of the source under the module path with which it is published: MODULE=example.com/owner/sluice, DEST=directory
	@./tools/publish-path $(MODULE) $(or $(DEST),dist/module)

.PHONY: notice
notice: ## NOTICE: every module that the programs link, with its license
	mkdir -p bin
	./tools/notice > bin/NOTICE && mv bin/NOTICE NOTICE

.PHONY: sbom
sbom: build ## dist/sluice.cdx.json: what is linked into the programs, as CycloneDX
	mkdir -p dist
	./tools/sbom $(VERSION) bin/sluice bin/sluice-send > dist/sluice.cdx.json

.PHONY: sdk
sdk: ## dist/: the SDKs for Node and Python as users install them
	mkdir -p dist
	cd sdk/node && npm pack --silent --pack-destination ../../dist
	cd sdk/python && python3 build_wheel.py ../../dist

.PHONY: unit
unit: build ## verifies the systemd unit: every line of it, and how much it may do
	@./tools/unit bin/sluice

.PHONY: vulnerabilities
vulnerabilities: ## known vulnerabilities of what the programs link and the tests use, as far as a database can be had; says what is not scanned
	@./tools/vulnerabilities

.PHONY: demo
demo: ## a server, three datasets with two weeks of sample events, and the addresses to look at
	@echo "The first build takes a few minutes."
	$(GO) run ./cmd/sluice demo

.PHONY: check
check: setup format vet lint unit test interop ## everything a commit needs: format, vet, lint, import rules, tests

.PHONY: setup
setup: ## what the tests need beyond Go: a browser, Prometheus, Node, npm, Python, strace, buildah (Debian packages, as root), npm packages
	@./tools/setup

.PHONY: format
format: ## fails if a file is not formatted
	@out=$$($(TOOL) gofumpt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted (run: make fmt):"; echo "$$out"; exit 1; }

.PHONY: fmt
fmt: ## formats every file
	$(TOOL) gofumpt -w $$(git ls-files '*.go')

.PHONY: generate
generate: ## writes what is made from the program: docs/{api,flags,metrics,tables}.md, deploy/alerts.yml, deploy/grafana.json, measure/dbt
	$(GO) test -count 1 -run '^TestPublished$$' ./internal/console -update
	$(GO) test -count 1 -run '^TestMarkdown$$' ./internal/api -update
	$(GO) test -count 1 -run '^TestTablesPage$$' ./internal/lake -update
	$(GO) test -count 1 -run '^TestDBT$$' ./internal/measure -update
	$(GO) test -count 1 -run '^TestFlagsPage$$' ./cmd/sluice -update
	$(GO) test -count 1 -run '^TestFlagsPage$$' ./cmd/sluice-send -update

.PHONY: lines
lines: ## lines of product Go by package, and the total: REVISION=commit, or the work tree
	@./tools/lines $(REVISION)

.PHONY: golden
golden: build ## interop/readers/testdata/golden: a data directory and a backup as this program leaves them, which later programs must read
	cd interop && $(GO) run ./readers/golden -program ../bin/sluice -out readers/testdata/golden

# As the programs are built: what one step compiles, the others need not compile again.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
vet lint test fuzz: export CGO_ENABLED = 0

.PHONY: vet
vet: ## go vet, and that other systems can build what they use
	$(GO) vet ./...
	$(GO) vet -tags failpoint ./cmd/sluice
	GOOS=darwin $(GO) build -o /dev/null ./cmd/sluice-send
	GOOS=windows $(GO) build -o /dev/null ./cmd/sluice-send

.PHONY: lint
lint: ## staticcheck
	$(TOOL) staticcheck ./...

# What go vet said of all packages, and of those they import, it would say again for each way to build the tests.
VETTED := -vet=off

.PHONY: test
test: ## all tests of the main module
	$(GO) test $(VETTED) $(AT_ONCE) -timeout 20m $(TESTS)

.PHONY: screenshots
screenshots: ## a picture of every page of the console, light and dark, wide and narrow, into screenshots/
	SCREENSHOTS=$(CURDIR)/screenshots $(GO) test -count 1 -run '^TestScreenshots$$' ./internal/console

.PHONY: followers
followers: ## 100,000 events while the followers of the feed are killed ten times, from the beginning and from a snapshot on
	FEED_EVENTS=100000 $(GO) test -count 1 -v -timeout 10m -run '^TestFollowersAreKilled$$' ./cmd/sluice
	cd interop && FEED_EVENTS=100000 $(GO) test -count 1 -v -timeout 10m -run '^TestHandOverUnderLoad$$' ./readers

SOAK ?= 20000
.PHONY: soak
soak: ## everything that senders, readers and operators do, under a simulated clock; figures at steps, which must not grow: SOAK=20000 commits, SEED=number, SOAK_PROFILE=directory for heap profiles (1 h)
	SOAK_COMMITS=$(SOAK) SEED=$(SEED) $(GO) test -count 1 -v -timeout 3h -run '^TestSoak$$' ./cmd/sluice/internal/service

MANY ?= 10000
MANY_DAYS ?= 30
.PHONY: many
many: ## what many datasets cost: start, memory, pages, /v1/stats: MANY=10000 datasets, MANY_DAYS=30 days of numbers (10 min)
	MANY=$(MANY) MANY_DAYS=$(MANY_DAYS) $(GO) test -count 1 -v -timeout 1h -run '^TestMany$$' ./cmd/sluice/internal/service

YEAR_DAYS ?= 400
.PHONY: year
year: ## what each operation on the tables reads after a day, a month and YEAR_DAYS=400 simulated days (some minutes)
	YEAR_DAYS=$(YEAR_DAYS) $(GO) test -count 1 -v -timeout 1h -run '^TestYear$$' ./internal/lake

.PHONY: race
race: ## the tests of everything concurrent, under the race detector
	$(GO) test $(VETTED) -race -timeout 20m -skip '^($(ALONE))$$' ./client ./internal/access ./internal/alarm ./internal/api ./internal/audit ./internal/cluster ./internal/dataset ./internal/durable ./internal/engine ./internal/erasure ./internal/feed ./internal/iceberg ./internal/journal ./internal/limit ./internal/parquetfile \
		./internal/lake ./internal/loader ./internal/objectstore ./internal/stream ./internal/suppression ./internal/throttle
	$(GO) test $(VETTED) -race -timeout 10m -skip '^($(BROWSER))$$' ./internal/console

# These tests of the tables do one thing after the other, thousands of times. What they call is called by the others, too.
ALONE := TestEveryByteOfMetadata|TestEveryByteOfAFile|TestEraseAgainFinishes|TestSnapshotsAreKeptByAge|TestDamageAtRest|TestYear|TestTablesAreHandledByOthers|TestCrashAtEveryStep|TestCopyIsGoneOnWith

# These tests of the console wait for a browser, which the race detector does not look into. The handlers that they ask are
# asked by the others, too.
BROWSER := TestDocsLanguages|TestEveryPage|TestHostileText|TestScreenshots

# These tests build the service by themselves, which go test does not see: it would take an earlier result for this one.
.PHONY: mistakes
mistakes: ## single mistakes in the SQL of the views, one after the other: each should be noticed: MISTAKES=50 chosen by SEED, or all (2 min)
	cd interop && MISTAKES=$(MISTAKES) SEED=$(SEED) $(GO) test -tags mistakes -count 1 -v -timeout 1h -run '^TestMistakesAreNoticed$$' ./measure

EVENTS ?= 10000000
.PHONY: measure-bench
measure-bench: ## every view read whole in DuckDB with 2 threads and 2 GB: EVENTS=10000000, and a tenth as many impressions (3 min, 1 GB of disk)
	cd interop && EVENTS=$(EVENTS) $(GO) test -tags bench -count 1 -timeout 1h -run '^$$' -bench '^BenchmarkViews$$' -benchtime 1x ./measure

.PHONY: interop
interop: export SERVICE_PROGRAM = $(CURDIR)/bin/sluice
interop: setup build ## tables read back by programs that are not ours, uploads through a faulty network (module of its own: needs cgo)
	cd interop && $(GO) vet ./... && $(GO) vet -tags faults,throughput ./cluster && $(GO) test $(VETTED) $(AT_ONCE) -count 1 -timeout 20m ./...

# These tests look at the files of the bucket, or start a versitygw that keeps versions.
FILES := TestProbe|TestMaintenance|TestTruthWhileTablesAreAway|TestErasureInABucketWithVersions|TestSecondServer
.PHONY: minio
minio: export S3_SERVER = minio
minio: ## the tests of buckets with MinIO in place of versitygw (10 min, and the build of MinIO)
	cd interop && $(GO) test -count 1 -v -timeout 30m -skip '^($(FILES))$$' ./bucket

ROUNDS ?= 5
.PHONY: cluster
cluster: ## every fault tried on a whole cluster under load: servers and nodes killed, cut off, paused, replaced, restarted, upgraded, power cuts: ROUNDS=5, UPGRADE_FROM=an older sluice (root, loop devices; 2 h)
	cd interop && $(GO) vet -tags faults ./cluster && ROUNDS=$(ROUNDS) $(GO) test -tags faults -count 1 -v -timeout 4h ./cluster

THROUGHPUT ?= 3s
.PHONY: throughput
throughput: ## the rate of a cluster of three NATS servers beside the embedded engine, by turns: THROUGHPUT=3s for each load (6 min)
	cd interop && $(GO) vet -tags throughput ./cluster && THROUGHPUT=$(THROUGHPUT) $(GO) test -tags throughput -count 1 -v -timeout 60m -run '^(TestThroughput|TestCostOfKeys)$$' ./cluster

HISTORIES ?= 200
.PHONY: readers
readers: setup ## random histories of the tables, read by every reader: HISTORIES=200, SEED=first one
	cd interop && HISTORIES=$(HISTORIES) SEED=$(SEED) $(GO) test -count 1 -timeout 60m ./readers/...

SIZE ?= full
.PHONY: engines
engines: setup ## installs query engines into bin/engines (first time: 3.1 GB) and has them read the tables and the views, and run the recipes of docs/: ENGINES="duck duckpath pyice pola panda dafty click sparky trin", SIZE=small
	./tools/engines
	cd interop && $(GO) vet -tags engines ./engines ./readers ./measure && \
		SIZE=$(SIZE) $(GO) test -tags engines -count 1 -p 1 -v -timeout 90m -run '^Test(Engine|EveryRecipe|ViewsIn(Engines|DBT))' ./readers ./measure

.PHONY: engines-ci
engines-ci: export SERVICE_PROGRAM = $(CURDIR)/bin/sluice
engines-ci: setup build ## the engines that pip installs, every value through the catalog, and the dbt package (4 min with the installation)
	./tools/engines readers dbt
	cd interop && $(GO) vet -tags engines ./engines ./readers ./measure && \
		SIZE=small ENGINES="duck duckpath pyice pola click" $(GO) test $(VETTED) -tags engines -count 1 -timeout 10m -run '^Test(EngineValues|EngineDBT|EveryRecipe)' ./readers

OPERATIONS_TIME ?= 1h
.PHONY: operations
operations: ## random sequences of what senders and operators do, held against a model; iceberg-go reads the tables: OPERATIONS_TIME=1h, SEED=first one
	cd interop && OPERATIONS_TIME=$(OPERATIONS_TIME) SEED=$(SEED) $(GO) test -count 1 -v -timeout 4h ./operations

FAULT = cd interop && $(GO) vet -tags faults ./faults && $(GO) test $(VETTED) -tags faults -count 1 -v

.PHONY: faults
faults: ## every fault tried on the running service: kills, power cuts, full disks, damage, floods (root, loop devices, strace; 14 min)
	$(FAULT) -timeout 40m ./faults
	UPLOAD_ROWS=1000000 $(GO) test -count 1 -v -timeout 15m -run '^TestUploadSurvivesKills$$' ./cmd/sluice-send

.PHONY: faults-ci
faults-ci: ## fewer rounds of the faults that cost data when they are not withstood (3 min)
	$(FAULT) -timeout 10m -run '^($(FAULTS_CI))$$' ./faults

.PHONY: attack
attack: export ATTACK_TIME ?= 10m
attack: ## every attack of docs/internals/guarantees.md at once, in 256 MiB, beside honest senders (root; ATTACK_TIME=10m)
	$(FAULT) -timeout 30m -run '^TestEveryAttackAtOnce$$' ./faults

FAULTS_CI := TestKilled.*|TestPowerCut.*|TestDiskFull|TestWriteErrors|TestDamagedStream|TestIdempotencyIsLinear|TestClockSteps
faults-ci: export FAULTS = ci

FUZZTIME ?= 60s
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (60s)
	@./tools/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## the benchmarks, small enough for minutes
	$(GO) test -run '^$$' -bench . -benchtime 1s -timeout 20m ./event ./gpp ./internal/submission ./internal/stream ./internal/lake ./internal/loader ./internal/api

.PHONY: bench-compare
bench-compare: ## benchmarks of this tree against BASE=revision
	@./tools/bench-compare $(BASE)
