# A thin front for CMake: `make help` lists the targets.
SHELL := bash
.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: build build-all run test devices unit asan fuzz fuzz-short bench gpu-report soak interop schemas clients test-clients web-test pictures tales
.PHONY: test-xrt test-deb test-debian13 lint check-format tidy format clean help install deb

JOBS ?= $(shell nproc)
ARGS ?=
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 600
SCHEMAS ?= 100000
SCHEMAS_SEED ?= 0
PREFIX ?= /usr/local
DESTDIR ?=
VERSION = $(shell awk '/^project/ { print $$3 }' CMakeLists.txt)

ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
endif

CTEST := ctest --parallel $(JOBS) --output-on-failure --no-tests=error
CPP_FILES = $(shell find src tests bench -name node_modules -prune -o '(' -name '*.[ch]pp' -o -name '*.h' -o -name '*.cc' ')' -print)

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

build: build/build.ninja ## Build the program: build/tandem
	cmake --build --preset release --target tandem

run: build ## Talk to the embedded model (a story, when stdin is no terminal); make run ARGS="MODEL PROMPT"
	@$(if $(ARGS),,[ -t 0 ] || exec < /dev/null;) build/tandem run $(ARGS)

test: packages-test check-format devices asan fuzz-short tales test-clients ## Everything that must pass before a change goes in

build-all: build/build.ninja
	cmake --build --preset release

devices: packages-test build/build.ninja ## Run the tests of the release build that touch a device, and the program
	cmake --build --preset release --target device_tests
	$(CTEST) --test-dir build --label-exclude host

unit: packages-test build-all ## Run the tests of the release build
	$(CTEST) --test-dir build

asan: packages-test build/asan/build.ninja ## Run the tests under ASan and UBSan
	cmake --build --preset asan
	$(CTEST) --test-dir build/asan

fuzz: packages-test build/fuzz/build.ninja ## Fuzz every parser for FUZZ_SECONDS each (600)
	tools/fuzz.sh $(FUZZ_SECONDS)

fuzz-short: build/fuzz/build.ninja
	tools/fuzz.sh 10

tales:
	python3 -B -m unittest discover --start-directory tools/tales

test-xrt: ## Build and test the way to an NPU against XRT 2.25, in a Debian 13 of its own (root)
	tests/xrt/run.sh build/xrt-root

test-debian13: ## Build and run the release tests in a Debian 13 of its own (root, mmdebstrap); TESTS=REGEX for some
	tests/debian13/run.sh build/debian13 $(if $(TESTS),'$(TESTS)')

test-deb: packages-package ## Try the packages of make deb, and make install, in fresh systems (root, mmdebstrap)
	tests/deb/run.sh build build/deb-test

bench: build ## Measure this machine: tokens per second and GB/s
	cmake --build --preset release --target bench_cpu_kernels
	$(foreach model,tales gemma3-1b gemma3-1b-q8_0,build/tandem bench $(model) --decode 1 --context 512 --prompt 512 $(ARGS) &&) true
	build/bench_cpu_kernels

gpu-report: packages-test build/build.ninja ## What AMD's compiler makes of the kernels, and what has changed; WRITE=1 keeps it
	cmake --build --preset release --target gpu_report
	tests/gpu/report.py --program build/gpu_report --driver build/radv --table docs/gpu-report.md $(if $(WRITE),--write)

soak: build-all ## Random requests for SOAK_SECONDS (600) on the CPU and on Vulkan, each answer checked
	build/soak --seconds $(SOAK_SECONDS)
	build/soak --seconds $(SOAK_SECONDS) --device vulkan --leave

schemas: build ## Answers to SCHEMAS (100,000) random JSON Schemas, checked by the validator ajv (needs npm and Node 20)
	cmake --build --preset release --target schema_walks
	tests/schemas/run.sh build $(SCHEMAS) $(SCHEMAS_SEED)

interop: build ## Load the files we write in llama.cpp and compare the greedy text (needs npm and Node 20)
	tests/interop/run.sh

clients: build ## Run the npm clients of OpenAI, Ollama and Anthropic against the server (needs npm and Node 20)
	tests/clients/run.sh

test-clients: build
	tests/clients/run.sh --where-possible

web-test: build ## Try the page in Chromium (needs npm and Node 20); pictures land in build/web_tests
	tests/web/run.sh

pictures: web-test ## Make docs/pictures anew: the page in Chromium, and a conversation at a terminal
	cp build/web_tests/chat.png docs/pictures/page.png
	python3 -B tools/terminal_picture.py build/tandem docs/pictures/terminal.svg

lint: packages-test check-format tidy ## Formatting, clang-tidy, shellcheck and the include directions
	shellcheck tools/*.sh tests/*/*.sh web/*.sh .ci/run
	python3 -B tests/tree/check.py

check-format:
	@clang-format-14 --dry-run -Werror $(CPP_FILES)

tidy: build/lint/build.ninja build/fuzz/build.ninja
	cmake --build build/lint --target tandem_vulkan_contracts
	run-clang-tidy-14 -quiet -p build/lint -j $(JOBS)
	run-clang-tidy-14 -quiet -p build/fuzz -j $(JOBS) tests/fuzz/

format: packages-test ## Rewrite the sources in the house format
	clang-format-14 -i $(CPP_FILES)

# Where things will lie is part of no compiled file: to configure again compiles nothing again.
install: build ## Install program, manual and completions to PREFIX (/usr/local), below DESTDIR
	cmake --preset release -D CMAKE_INSTALL_PREFIX=$(PREFIX) -U 'CMAKE_INSTALL_*DIR' -U TANDEM_ZSH_DIR
	cmake --build --preset release --target installed
	DESTDIR=$(DESTDIR) cmake --install build

deb: packages-package build/build.ninja ## Make the Debian packages in build/deb, looked at by lintian
	cmake --preset release -D CMAKE_INSTALL_PREFIX=/usr -D CMAKE_INSTALL_LIBDIR=lib/$$(dpkg-architecture -q DEB_HOST_MULTIARCH) \
		-D TANDEM_ZSH_DIR=share/zsh/vendor-completions
	cmake --build --preset release --target installed
	tools/deb.sh build $(VERSION)

clean: ## Remove what was built
	rm -rf build

# Presets: release lies in build/, the others in build/NAME/. Ninja runs CMake again by itself when a CMakeLists.txt changes.
build/build.ninja: CMakePresets.json | packages-build
	cmake --preset release

build/%/build.ninja: CMakePresets.json | packages-build
	cmake --preset $*

# Debian packages: tools/packages.txt.
.PHONY: packages-build packages-test packages-package
packages-build packages-test packages-package: packages-%:
	@tools/bootstrap.sh $*
