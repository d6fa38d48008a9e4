# One set of flags for everything, so that the API server's two thousand packages are compiled once and
# opsim, the tests, the linters and the test control plane share them.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath

GOLANGCI = go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOFUMPT  = go run mvdan.cc/gofumpt@v0.12.0

# The packages that link the API server: the race detector would compile it a second time.
HEAVY_PATHS = sim/apiserver|sim/store|sim/front|sim/actor|sim/cluster|sim/internal|replay|cmd|examples|e2e|sim/serve
HEAVY = $(shell go list ./... | grep -E '/($(HEAVY_PATHS))(/|$$)')
LIGHT = $(shell go list ./... | grep -v -E '/($(HEAVY_PATHS))(/|$$)')
CHECK = 100
HOURS = 20
SEED  = 1
OPERATIONS = 10000
BUDGET = 500
ROWS  = 10000000
SCALE = $(or $(TMPDIR),/tmp)/opsim-scale
SWEEP = $(or $(TMPDIR),/tmp)/opsim-sweep
ZOO   = statusloop statusrace orphanfinalizer \
        retrystorm panicloop missingkind starvation \
        halfcreate staleclaim doublecreate earlyrelease fatalconflict \
        droppedstatus missedsize tombstone twoleaders \
        tugofwar prunedfield wronglabel farowner \
        eventflood openbreaker oldpods alwaysready narrowschema unscraped throttled
# Whose fault a recording alone shows: they have no case, and both twins are recorded.
RECORDED = lostgauge nodeadline latehook busywait nopredicate overgranted $(SCRAPED)
# Of these with what their metrics say, and without the kernel, whose probes nothing of theirs needs.
SCRAPED = misnamed oneworker

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/oprec, bin/opsim and the zoo in bin/zoo
	go build -o bin/ ./cmd/oprec ./cmd/opsim
	go build -o bin/zoo/ $(ZOO:%=./examples/operators/%) $(RECORDED:%=./examples/operators/%)

.PHONY: demo
demo: build ## replay three recorded faults, name them, and show that the mended twins have none
	bin/opsim demo

.PHONY: check
check: build ## replay each bundled case CHECK (100) times, faulty and mended: all runs of one are the same, byte for byte; then check-hour
	@dir=$$(mktemp -d); trap 'rm -rf '"$$dir" EXIT; for c in $(ZOO); do for twin in '' ' --fixed'; do \
		printf '%-15s %-8s ' "$$c" "$$twin"; \
		bin/opsim replay traces/cases/$$c.optrace --operator "bin/zoo/$$c$$twin" --patience 1s --check $(CHECK) --out "$$dir/$$c$$twin.optrace" >"$$dir/out" 2>&1; \
		code=$$?; if [ $$code = 0 ]; then tail -1 "$$dir/out"; else cat "$$dir/out"; exit $$code; fi; \
	done; done
	@$(MAKE) --no-print-directory check-hour

.PHONY: check-hour
check-hour: ## a virtual hour of a busy operator and its replica, HOURS (20) times: all the same, byte for byte
	CLUSTER_RUNS=$(HOURS) go test -count 1 -timeout 60m -run '^TestBusyHour$$' -v ./sim/cluster

.PHONY: cases
cases: build ## the bundled regression cases, as opsim test runs them; JUNIT=FILE for a report
	bin/opsim test traces/cases $(if $(JUNIT),--junit $(JUNIT))

.PHONY: sweep
sweep: build ## explore with each operator of the zoo, both twins, BUDGET (500) plans each: cost, findings, false alarms as a table; goes on in SWEEP
	go run ./examples/operators/sweep --budget $(BUDGET) --out $(SWEEP)

.PHONY: accuracy
accuracy: ## how often each detector is right, over all labelled traces and 20 variants of each; a confusion table
	go test -count 1 -run '^TestAccuracy$$' -v ./analysis

.PHONY: scale
scale: ## records a second and memory of an analysis with all detectors: ROWS (10000000) on one core, as opsim collects garbage
	GOGC=400 GOMEMLIMIT=448MiB OPREPLAY_ROWS=$(ROWS) OPREPLAY_TRACES=$(SCALE) go test -run '^$$' -bench '^BenchmarkTrace$$' -benchtime 1x -cpu 1 -timeout 2h ./analysis

.PHONY: labelled
labelled: build ## play the labelled runs (traces/labelled) anew: both twins of the zoo under the plans of their cases
	@for c in $(ZOO); do for twin in faulty fixed; do \
		flag=; test $$twin = faulty || flag=' --fixed'; plan=; test ! -f examples/operators/$$c/plan.yaml || plan="--plan examples/operators/$$c/plan.yaml"; \
		second=; test $$c != twoleaders || second="bin/zoo/$$c$$flag"; rm -rf traces/labelled/$$c-$$twin.optrace; echo "$$c $$twin"; \
		bin/opsim replay traces/cases/$$c.optrace --operator "bin/zoo/$$c$$flag" $${second:+--operator "$$second"} $$plan \
			--settle 20s --out traces/labelled/$$c-$$twin.optrace >/dev/null || exit 1; \
	done; done

.PHONY: test
test: control-plane ## test everything, with the race detector where it is cheap (the first run builds a control plane)
	go test -timeout 20m $(HEAVY)
	@if command -v $${CC:-cc} >/dev/null; then set -ex; CGO_ENABLED=1 go test -race -timeout 20m $(LIGHT); \
	else echo "SKIPPED: the race detector needs a C compiler, and there is none on the PATH"; set -ex; go test -timeout 20m $(LIGHT); fi
	@if ! command -v python3 >/dev/null; then echo "SKIPPED: the notebooks need python3, and there is none on the PATH"; \
	elif ! $(MAKE) --no-print-directory $(NOTEBOOKS); then echo "SKIPPED: the notebooks need packages that pip could not install"; \
	else $(MAKE) --no-print-directory notebooks; fi

NOTEBOOKS = bin/notebooks/bin/python

$(NOTEBOOKS): notebooks/requirements.txt
	python3 -m venv bin/notebooks
	$(NOTEBOOKS) -m pip install --quiet --disable-pip-version-check -r notebooks/requirements.txt
	@touch $(NOTEBOOKS)

.PHONY: notebooks
notebooks: $(NOTEBOOKS) ## run the Jupyter notebooks from clean and check what they find (installs their packages in bin/notebooks)
	cd notebooks && ../$(NOTEBOOKS) -B -m pytest -q -p no:cacheprovider

.PHONY: notebooks-lab
notebooks-lab: $(NOTEBOOKS) ## open the notebooks in the browser
	$(NOTEBOOKS) -m pip install --quiet --disable-pip-version-check jupyterlab==4.6.6
	cd notebooks && ../$(NOTEBOOKS) -m jupyterlab

# Built before the tests, so that no test's time limit is charged for it.
.PHONY: control-plane
control-plane:
	go run ./internal/livecluster/cmd/cluster --build-only

.PHONY: race
race: ## the packages that link the API server under the race detector (compiles it a second time)
	CGO_ENABLED=1 go test -race -timeout 60m $(HEAVY)

.PHONY: bench
bench: control-plane ## all benchmarks, in the form that benchstat reads; a table of ours against a real API server; make weight
	go test -p 1 -run '^$$' -bench . -timeout 60m $(shell go list ./... | grep -v /versus$$)
	$(MAKE) versus weight

.PHONY: versus
versus: control-plane ## the table: one client on a real API server and on ours, verb by verb
	go test -run '^$$' -bench Versus -benchtime 1x -timeout 60m ./sim/apiserver/versus

.PHONY: weight
weight: ## packages, size, start and memory of opsim; COLD=1 also a build from nothing, some 15 minutes of CPU
	WEIGHT_COLD=$(COLD) go test -run '^$$' -bench Weight -benchtime 1x -timeout 60m ./sim/apiserver/versus

.PHONY: peers
peers: build control-plane ## controller-runtime's own specs on a real API server and on opsim's, package by package
	go run ./internal/peers/cmd/peers --opsim bin/opsim

.PHONY: conformance
conformance: control-plane ## ask a real API server and ours OPERATIONS (10,000) things and compare; writes the table of docs/fidelity.md
	go test ./sim/internal/conformance -run '^TestConformance$$' -count=1 -v -timeout 180m -args \
		-seed $(SEED) -operations $(OPERATIONS) -table ../../../docs/fidelity.md

.PHONY: cross
cross: ## build for macOS, Windows and arm64, where virtual time is not to be had (compiles everything for each)
	for p in darwin/arm64 windows/amd64 linux/arm64; do \
		GOOS=$${p%/*} GOARCH=$${p#*/} go build -o /dev/null ./cmd/oprec ./cmd/opsim || exit 1; done

.PHONY: zoo-lines
zoo-lines: control-plane ## each write of each operator of the zoo, stripped, is known with the line that made it (eBPF: as root)
	RECORDER_ZOO=all go test -count 1 -timeout 30m -run '^TestRunNamesTheLinesOfTheZoo$$' -v ./recorder

.PHONY: lint
lint: ## go vet, golangci-lint and gofumpt
	go vet ./...
	$(GOLANGCI) run ./...
	@out="$$($(GOFUMPT) -l .)"; if [ -n "$$out" ]; then echo "gofumpt would change:"; echo "$$out"; exit 1; fi

.PHONY: generate
generate: ## regenerate what is generated; CI of a change shows that nothing differs
	go generate ./...

.PHONY: cluster
cluster: ## a real etcd and kube-apiserver on loopback, until ^C
	go run ./internal/livecluster/cmd/cluster

# The plans' operators run well when they are recorded, and of a metrics note there is no line.
LINES = $(filter-out halfcreate staleclaim doublecreate earlyrelease fatalconflict droppedstatus missedsize tombstone twoleaders unscraped throttled,$(ZOO))

.PHONY: record-lines
record-lines: build control-plane record-scraped ## record what is in traces/labelled with stacks anew: the faulty twins, and both of RECORDED (eBPF: as root)
	go run ./examples/operators/record --out traces/labelled --ebpf --suffix -lines $(LINES)
	go run ./examples/operators/record --out traces/labelled --ebpf --suffix -faulty $(filter-out $(SCRAPED),$(RECORDED))
	go run ./examples/operators/record --out traces/labelled --ebpf --fixed --suffix -fixed $(filter-out $(SCRAPED),$(RECORDED))

.PHONY: record-scraped
record-scraped: build control-plane ## record both twins of the operators whose metrics are scraped anew, into traces/labelled
	go run ./examples/operators/record --out traces/labelled --suffix -faulty $(SCRAPED)
	go run ./examples/operators/record --out traces/labelled --fixed --suffix -fixed $(SCRAPED)

.PHONY: record
record: build ## record the bundled traces of the zoo anew, on a real API server
	go run ./examples/operators/record
