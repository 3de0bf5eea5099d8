# Experiments and housekeeping; `make help` lists the targets.
SHELL := /bin/sh
CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
LINKS := mt-profile mt-fit mt-solve mt-overlap mt-elastic mt-launch mt-worker mt-check mt-report mt-cluster
TOOLS := mt $(LINKS)
VERBS := try init run sweep queue add status top logs results numbers retry cancel pause wait exec
RELEASE := $(CURDIR)/target/release

.PHONY: help demo build test smoke test-faults soak queue-kills hostile test-sim fuzz bench forms bench-peers bench-real simulator regret rounds try-errors rivals options paper elastic federation sweep sweep-memory sizing hare engines wheel deb kit calibrate schemas schemas-check \
	lint install uninstall clean

# A description begins with ## where users need the target, with #- where developers do.
LISTED = sed -nE 's/^([a-z-]+):.*$(1) (.*)/\1|\2/p' $(MAKEFILE_LIST) | \
	while IFS='|' read -r name what; do printf '  %-15s %s\n' "$$name" "$$what"; done
help: ## List the targets
	@$(call LISTED,##)
	@echo; echo "Experiments and development:"
	@$(call LISTED,#-)

# One program is every tool; the other names are links to it, relative, so that copies, archives and packages
# of the folder stay as small. `cp` of a link gives a program that is whole. EXAMPLE names examples that are
# to be built with it: one choice of packages for all of them, so that nothing is built twice.
build: ## Build every tool, optimised
	$(CARGO) build --release --workspace --bin mt $(if $(EXAMPLE),--example '$(EXAMPLE)')
	@set -e; for tool in $(LINKS); do ln -sf mt "$(RELEASE)/$$tool"; done

demo: build ## Plan three models on a simulated RTX 3090, then on this machine's CPU
	PATH="$(RELEASE):$$PATH" sh examples/quickstart/demo.sh

# One command builds everything that tests need, the tools included: a `cargo build` before it would
# compile most dependencies twice, since tests ask for more of their features. Examples are compiled
# by `make lint`; no library has documentation tests. Tests send SIGHUP and SIGINT, and one lists
# the ignored signals; `nohup make test` and a script's `make test &` have all programs ignore some.
TESTS := env --default-signal=HUP,INT,QUIT $(CARGO) test --workspace --lib --bins --tests

# The reduced reproduction of the paper is an example that a test runs. A test that fails stops no other,
# and those that were skipped, for want of something on this machine, are listed at the end.
SKIPPED := $(CURDIR)/target/skipped
test: ## Run every test
	$(CARGO) build --workspace --example paper
	@rm -f "$(SKIPPED)"; status=0; echo '$(TESTS) --no-fail-fast'; \
	MT_SKIPPED="$(SKIPPED)" $(TESTS) --no-fail-fast || status=$$?; \
	if [ -s "$(SKIPPED)" ]; then \
		echo "$$(wc -l <"$(SKIPPED)") skipped, of which this machine tests nothing:"; sort "$(SKIPPED)" | sed 's/^/  /'; \
	else echo "0 skipped"; fi; exit $$status

smoke: #- Run the pipe on the simulator and the quickest case of each tool
	$(TESTS) -q -- smoke

test-faults: #- Launch jobs that misbehave in every way, with the long soak
	$(CARGO) build --workspace --bins
	MT_FAULTS=full $(CARGO) test -p mt-launch --test faults -- --nocapture

soak: build #- Launch 8 jobs of which 5 % kill themselves for TIME seconds (1800 if absent); nothing may grow
	MT_SOAK_S=$(or $(TIME),1800) $(CARGO) test --release -p mt-launch --test faults -- a_soak_of_minutes --nocapture

queue-kills: build #- Kill servers, guards, clients and jobs of a queue KILLS times (500 if absent); nothing may be lost or run twice
	PATH="$(RELEASE):$$PATH" python3 tests/peers/queue_kills.py $(or $(KILLS),500)

hostile: build #- Give every tool 1,000 mutated documents (MUTANTS=N), and mt-check 300 generated pipelines (PIPELINES=N)
	MT_HOSTILE=$(or $(MUTANTS),1000) MT_HONEST=$(or $(PIPELINES),300) \
		$(CARGO) test --release -p mt-tests --test attacks --test mutants -- hostile:: honest:: no_field_ --nocapture

test-sim: #- Play a million simulated launches on a host that misbehaves (SEEDS=N: so many), and 10,000 queues
	MT_SIM_SEEDS=$(or $(SEEDS),1000000) $(CARGO) test --release -p mt-launch-engine --test simulation -- --nocapture
	MT_SIM_SEEDS=10000 $(CARGO) test --release -p mt-queue --test suite -- nothing_is_lost --nocapture

fuzz: #- Fuzz every parser of what comes from outside, each for TIME seconds (60 if absent)
	MT_FUZZ_S=$(or $(TIME),60) $(CARGO) test -p mt-doc -p mt-jobs -p mt-design -p mt-cluster-engine \
		-- fuzz_ --nocapture --test-threads=1

bench: #- Measure the tools against their baselines; table, and target/bench.json
	$(MAKE) -s build EXAMPLE='bench*'
	$(RELEASE)/examples/bench

forms: build #- Give every form of mt numbers to the system that takes it (builds a Python environment)
	PATH="$(RELEASE):$$PATH" sh tests/peers/forms.sh

bench-peers: #- Measure against solvers and learners of others (builds Python environments)
	sh shared/plan/predict/benches/peers/run.sh
	sh tests/peers/run.sh alloc --problems
	sh tests/peers/run.sh overlap --rounds
	sh tests/peers/run.sh cluster --mid
	$(MAKE) -s build EXAMPLE=hare
	$(RELEASE)/examples/hare --peers ../shared/data

bench-real: #- Measure the predictor on recorded measurements by others, beside scikit-learn
	sh shared/plan/predict/benches/real/bench.sh

simulator: #- Judge the simulator by slow-downs that others recorded on real GPUs
	$(CARGO) run --release -q -p mt-gpusim --example strangers -- $(or $(DATA),../shared/data) \
		shared/run/gpusim/examples/strangers/summary.json

regret: #- Measure what plans are worth, on mixes that nothing was tuned on and seeds that no profile saw
	$(MAKE) -s build EXAMPLE=regret
	hash=$$($(RELEASE)/examples/regret --inputs | sha256sum | cut -d' ' -f1) && \
		$(RELEASE)/examples/regret --summary shared/run/design/examples/regret/summary.json --inputs-sha256 "$$hash"

rounds: #- Learn the shares of 5, 20 and 100 rounds on simulated mixes, beside the best fixed shares in hindsight
	$(MAKE) -s build EXAMPLE=rounds
	$(RELEASE)/examples/rounds --seed $(or $(SEED),16180) --summary shared/run/launch/examples/rounds/summary.json

try-errors: build #- Try TRIALS short scripts (108 if absent) whose truth is known, quiet and beside neighbours, and count false answers
	PATH="$(RELEASE):$$PATH" python3 examples/scripts/errors.py $(or $(TRIALS),108)

rivals: #- The same on half of the mixes, beside Optuna's samplers with as many samples (installs Optuna and PyTorch)
	$(MAKE) -s build EXAMPLE=regret
	[ -x target/rivals/bin/python ] || python3 -m venv target/rivals
	target/rivals/bin/pip install --quiet optuna==5.0.0 scipy torch
	hash=$$($(RELEASE)/examples/regret --inputs --mixes 10 | sha256sum | cut -d' ' -f1) && OMP_NUM_THREADS=1 \
		$(RELEASE)/examples/regret --mixes 10 --budgets 20 --noise 3 --objectives raw,max-min,round \
		--python target/rivals/bin/python --summary shared/run/design/examples/regret/rivals.json --inputs-sha256 "$$hash"

options: #- Measure mt-solve under 200 random sets of options, and name the slowest
	$(MAKE) -s build EXAMPLE=options
	$(RELEASE)/examples/options

paper: #- Regenerate the tables and figures of the FedMT paper (QUICK=1: reduced; DEVICE=cpu or cuda)
	$(MAKE) -C examples/paper

elastic: #- Move trainings between parts of this machine: the paper of Wei and Shudo and beyond (QUICK=1)
	$(MAKE) -C examples/elastic

federation: build #- Train a federation to its targets under each scheme, simulated and live (QUICK=1: reduced; KEPT=1: what is done)
	PATH="$(RELEASE):$$PATH" QUICK="$(QUICK)" KEPT="$(KEPT)" sh examples/federation/run.sh

sweep: build #- Measure mt sweep beside fixed numbers of jobs at once, 60 real trainings a mix (QUICK=1: two mixes; KEPT=1: goes on)
	PATH="$(RELEASE):$$PATH" python3 examples/sweep/measure.py $(if $(QUICK),--quick) $(if $(KEPT),--kept)

sweep-memory: build #- Measure a sweep of trainings of unknown memory in a control group of 4 GB, beside fixed numbers (root; QUICK=1)
	PATH="$(RELEASE):$$PATH" python3 examples/sweep/memory.py $(if $(QUICK),--quick)

sizing: #- Play sweeps on simulated boxes with recorded rates, beside the best fixed choice (SWEEPS=500: so many; FROM=1: first seed)
	MT_SIZING_SWEEPS=$(or $(SWEEPS),500) MT_SIZING_FROM=$(or $(FROM),1) \
		MT_SIZING_SUMMARY=$(CURDIR)/shared/run/queue/tests/sizing.json \
		$(CARGO) test --release -p mt-queue --test suite -- sweeps_take --nocapture

hare: #- Regenerate the figures of Hare's evaluation, simulated (QUICK=1: reduced)
	$(MAKE) -C examples/hare

wheel: ## Build the Python wheel with every program, and take the first steps with it in an empty environment
	python3 -m venv target/wheels/build
	target/wheels/build/bin/pip wheel --quiet --disable-pip-version-check --no-deps -w target/wheels .
	sh python/tests/wheel.sh target/wheels

# One list of what is installed serves both: cargo-deb would have another in a manifest.
deb: build ## Make a Debian package of every program, manual page and completion, into target/deb
	rm -rf target/deb
	$(MAKE) install DESTDIR="$(CURDIR)/target/deb/stage" PREFIX=/usr
	sh tools/mt/deb.sh target/deb/stage "$$($(RELEASE)/mt --version | cut -d' ' -f2)" target/deb

# For a GPU without network: unpack, then `mt-tools/examples/torch/campaign.sh --survey`. It is not linked statically, since a
# static program cannot load the driver's libraries; what it needs of the system is printed.
KIT_MB := 48
kit: build #- Pack the tools and the PyTorch campaign into target/kit, below 48 MB
	rm -rf target/kit && mkdir -p target/kit/mt-tools/bin target/kit/mt-tools/examples target/kit/mt-tools/python
	cp $(RELEASE)/mt target/kit/mt-tools/bin/
	cd target/kit/mt-tools/bin && for tool in $(LINKS); do ln -s mt $$tool; done
	cp -r examples/torch target/kit/mt-tools/examples/ && cp -r python/mt_tools target/kit/mt-tools/python/
	tar -C target/kit -cJf target/kit/mt-tools.tar.xz mt-tools
	@ldd $(RELEASE)/mt; size=$$(du -sm target/kit/mt-tools | cut -f1); \
	echo "target/kit/mt-tools: $$size MB, packed $$(du -m target/kit/mt-tools.tar.xz | cut -f1) MB"; \
	[ "$$size" -lt $(KIT_MB) ] || { echo "more than $(KIT_MB) MB" >&2; exit 1; }

engines: build #- Run plans and schedules by Slurm, Ray, Flower and NVFlare for real (Debian: slurm-wlm munge)
	PATH="$(RELEASE):$$PATH" sh examples/engines/run.sh

calibrate: #- Fit the simulator's constants to the figures that the paper reports
	$(MAKE) -C examples/paper calibrate

lint: schemas-check #- Format, clippy, documentation, warnings denied, and dependencies (cargo-deny)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items
	if ! $(CARGO) deny --version >/dev/null 2>&1; then \
		echo "cargo-deny is not installed: licences and sources are a test, advisories are not looked at"; \
	else $(CARGO) deny --all-features check bans licenses sources && \
		if $(CARGO) deny --all-features fetch db >/dev/null 2>&1; then $(CARGO) deny --all-features check advisories; \
		else echo "the database of advisories cannot be reached: advisories are not looked at"; fi; fi

schemas: #- Write the JSON Schemas and the page of faults
	$(CARGO) run -q -p mt-doc --example schemas -- schemas

schemas-check:
	$(CARGO) run -q -p mt-doc --example schemas -- --check schemas

install: build ## Install binaries, man pages and completions under PREFIX
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/man/man1" "$(DESTDIR)$(PREFIX)/share/man/man5" \
		"$(DESTDIR)$(PREFIX)/share/bash-completion/completions" \
		"$(DESTDIR)$(PREFIX)/share/zsh/site-functions" \
		"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	install -m 644 tools/mt-launch/man/mt-workload.5 "$(DESTDIR)$(PREFIX)/share/man/man5/"
	install -m 755 "$(RELEASE)/mt" "$(DESTDIR)$(PREFIX)/bin/"
	set -e; for tool in $(LINKS); do ln -sf mt "$(DESTDIR)$(PREFIX)/bin/$$tool"; done
	set -e; for tool in $(TOOLS); do \
		"$(RELEASE)/$$tool" --man >"$(DESTDIR)$(PREFIX)/share/man/man1/$$tool.1"; \
		"$(RELEASE)/$$tool" --completions bash \
			>"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$tool"; \
		"$(RELEASE)/$$tool" --completions zsh \
			>"$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$tool"; \
		"$(RELEASE)/$$tool" --completions fish \
			>"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$tool.fish"; \
	done
	set -e; for verb in $(VERBS); do \
		"$(RELEASE)/mt" $$verb --man >"$(DESTDIR)$(PREFIX)/share/man/man1/mt-$$verb.1"; \
	done

uninstall: ## Remove what install put under PREFIX
	rm -f "$(DESTDIR)$(PREFIX)/share/man/man5/mt-workload.5" \
		$(VERBS:%="$(DESTDIR)$(PREFIX)/share/man/man1/mt-%.1")
	set -e; for tool in $(TOOLS); do \
		rm -f "$(DESTDIR)$(PREFIX)/bin/$$tool" \
			"$(DESTDIR)$(PREFIX)/share/man/man1/$$tool.1" \
			"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$tool" \
			"$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$tool" \
			"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$tool.fish"; \
	done

clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf .venv
