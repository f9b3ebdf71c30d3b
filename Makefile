# draftsmith: make demo | make smollm2 | make test | make bench | make golden DIR=folder | make parity
# make bench: times of step, prefill and decoding on this CPU beside oneDNN's packed products, with their goals; wants it idle.
# Packages come from tools/install_packages.sh, which says what it installs and is silent when nothing is missing.
BUILD := build/release
JOBS := $(shell nproc)
CONFIGURE ?=   # further arguments of cmake, for example -DDRAFTSMITH_CUDA=OFF

.PHONY: all build packages demo smollm2 test bench golden parity clean help

all: build

help:
	@sed -n '1,3p' Makefile

packages:
	@tools/install_packages.sh

$(BUILD)/build.ninja: CMakeLists.txt CMakePresets.json
	@cmake --preset release $(CONFIGURE) > build-configure.log 2>&1 || { cat build-configure.log; rm -f build-configure.log; exit 1; }
	@rm -f build-configure.log

build: packages $(BUILD)/build.ninja
	@cmake --build $(BUILD) --target draftsmith -- -j $(JOBS)

demo: build
	@tools/demo.sh

smollm2: build
	@tools/smollm2.sh

test: packages $(BUILD)/build.ninja
	@cmake --build $(BUILD) -- -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

bench: build
	@cmake --build $(BUILD) --target step_bench -- -j $(JOBS)
	@tools/bench.sh $(BUILD)

golden: packages $(BUILD)/build.ninja
	@test -n "$(DIR)" || { echo "make golden DIR=folder: name the folder that holds train_*.safetensors"; exit 2; }
	@cmake --build $(BUILD) --target golden_cases -- -j $(JOBS)
	@$(BUILD)/tests/golden_cases "$(DIR)"

parity: build
	@tools/parity.sh

clean:
	@rm -rf build
