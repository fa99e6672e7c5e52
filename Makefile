# Everything runs on this machine, without a container engine. `make` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help run stop status services test lint check-alerts build demo drill lab-reads bench-write bench-orders bench-stream bench-ladder bench-rebuild bench-replay bench-quota bench-reads bench-freshness bench-changes doctor clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## start everything: services, all roles, simulators; prints URLs, a token and commands to try (ERP=tryton: on a real Tryton)
	@scripts/platform start
	@scripts/platform exec bin/andes-lab welcome

stop: ## stop what `make run` started; data is kept
	@scripts/platform stop

status: ## what runs where, also of tests and benches
	@scripts/platform status

services: ## start PostgreSQL, Redis and Kafka only, and print their settings
	@scripts/services start run
	@scripts/services env run

test: ## all tests against real services of their own (PKG=./eventstore/... RUN=TestName to narrow)
	@scripts/test

lint: ## gofmt, go vet, staticcheck, shell syntax, alert rules
	@scripts/lint

check-alerts: ## check the alert rules in deploy/alerts with promtool, and run their tests
	@scripts/check-alerts

build: ## bin/andes and bin/andes-lab
	@go build -o bin/ ./cmd/andes ./cmd/andes-lab

demo: build ## replay days of real orders against the platform (DAY=2010-12-01 DAYS=7 SPEED=1500)
	@scripts/platform start
	@scripts/platform exec bin/andes-lab demo $(if $(DAY),--day $(DAY)) $(if $(DAYS),--days $(DAYS)) $(if $(SPEED),--speed $(SPEED))

drill: build ## an operator's bad day on the running platform: DLQ, replay, a lost read model
	@scripts/platform start >/dev/null
	@scripts/platform exec bin/andes-lab drill

LAB_READS = reads $(if $(SCENARIOS),--scenarios $(SCENARIOS)) $(if $(SHORT),--short) $(if $(DOWN),--down $(DOWN)) $(if $(ERP),--erp $(ERP)) $(ARGS)
lab-reads: build ## the same reads on the legacy systems themselves and on Andes, with a report (SCENARIOS=1,6 SHORT=1 DOWN=3m ERP=tryton)
	@bin/andes-lab $(LAB_READS) --check
	@WITH=$(ERP) scripts/with-services bench bin/andes-lab $(LAB_READS)

bench-write: ## the event store beside plain transactions and pgbench (ARGS="-duration 10s -only append,hot,gaps")
	@scripts/with-services bench go run ./test/bench/write $(ARGS)

bench-orders: ## orders accepted a second over HTTP, reserved and durable
	@scripts/with-services bench go run ./test/bench/orders $(ARGS)

bench-stream: ## from the commit of a stock change to its being readable in Redis
	@scripts/with-services bench go run ./test/bench/stream $(ARGS)

bench-ladder: ## consumers beside a bare group, lateness of retries, losses while members come and go
	@scripts/with-services bench go run ./test/bench/ladder $(ARGS)

bench-rebuild: ## a rebuild of 1,000,000 SKUs: rate, memory, reads meanwhile, and a kill -9 while changes go on
	@scripts/with-services bench go run ./test/bench/rebuild $(ARGS)

bench-replay: ## dead letters sent back a second, restored and settled
	@scripts/with-services bench go run ./test/bench/replay $(ARGS)

bench-quota: ## what a partner over its quota gets from three instances, and what its neighbour feels
	@scripts/with-services bench go run ./test/bench/quota $(ARGS)

bench-reads: ## stock answers a second beside a bare handler and beside MGET; reads while Redis is down for a minute
	@scripts/with-services bench go run ./test/bench/reads $(ARGS)

bench-freshness: ## from a change in the warehouse to the API's answer, pushed and polled
	@scripts/with-services bench go run ./test/bench/freshness $(ARGS)

bench-changes: ## from a change's commit to those who follow, many followers at once, and following beside polling
	@scripts/with-services bench go run ./test/bench/changes $(ARGS)

doctor: build ## what the platform needs, what is missing and how to get it
	@scripts/platform doctor

clean: ## drop all data of stopped services and the built binaries
	@scripts/services clean
	@rm -rf bin
