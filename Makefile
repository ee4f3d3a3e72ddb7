# A thin wrapper over Meson: it installs what is missing, configures build/ and calls ninja.
# Everything that is built is described in the meson.build files. Of what can be installed, only
# the group `build` is needed: tools/install-dependencies says what it installs before it does.
BUILD ?= build
PREFIX ?= /usr/local
ARGS ?=
MESON ?= meson

# After `sudo make demo` or `sudo make install`, what was built belongs to the user: `make` works later.
give_back = [ -z "$$SUDO_UID" ] || [ "$$(id -u)" != 0 ] || chown -Rh "$$SUDO_UID:$$SUDO_GID" $(BUILD)

.PHONY: all configure demo test unit check nightly test-dependencies test-python fresh fuzz bench install deps format clean help

all: configure
	@ninja -C $(BUILD)

# Again, where packages have come since: tools/configure.
configure:
	@tools/install-dependencies build
	@MESON=$(MESON) tools/configure $(BUILD) $(if $(wildcard $(BUILD)/build.ninja),,--buildtype=release --prefix=$(abspath $(PREFIX)))

# With Gloo, to compare.
demo:
	@tools/install-dependencies build demo
	@[ "$$(id -u)" != 0 ] || tools/install-dependencies links || true
	@$(MAKE) --no-print-directory configure
	@ninja -C $(BUILD) -t query demo/switchml-demo >/dev/null 2>&1 || \
		{ echo "make demo: Meson has found no BLAS with cblas.h: install OpenBLAS" >&2; exit 1; }
	@ninja -C $(BUILD) demo/switchml-demo switchml
	@$(give_back)
	@demo/run --build $(BUILD) $(if $(LINK),--link $(LINK)) $(if $(WORKERS),--workers $(WORKERS)) $(ARGS)

# The tests that a change is most likely to break: five minutes on two cores.
test: test-dependencies
	@tools/run-tests $(ARGS)

# The unit tests alone: some seconds.
unit:
	@tools/install-dependencies build test
	@MESON=$(MESON) tools/configure $(BUILD) -Dtests=enabled $(if $(wildcard $(BUILD)/build.ninja),,--buildtype=release)
	@ninja -C $(BUILD)
	@$(MESON) test -C $(BUILD) --no-rebuild --suite unit --print-errorlogs

# Everything that a part of this tree can use. It says what it installs.
deps:
	@tools/install-dependencies build demo xdp test check bench paper links fuzz package p4

format:
	@tests/checks/format -i

# All of them: sanitizers, every framework of Python, longer simulations.
check: test-dependencies
	@tools/get-prometheus || echo "Going on without: a part of the test of the metrics is left out."
	@tools/run-tests $(or $(ARGS),--all)

test-dependencies:
	@tools/install-dependencies build demo test
	@tools/install-dependencies xdp check bench paper || echo "Going on without: the checks that need them skip."

# What takes minutes, and what changes seldom break: packages, compilers, arm64, fresh machines, benchmarks.
nightly: test-dependencies
	@tools/install-dependencies package || echo "Going on without: what needs them skips."
	@tools/run-tests --nightly

# Python with each framework alone.
test-python: all
	@tools/test-python $(ARGS)

# What the pages tell a new user to type, in roots of Debian 12 and 13 made for that: an hour.
fresh:
	@tests/packages/fresh.sh bookworm
	@tests/packages/fresh.sh trixie

fuzz:
	@tools/install-dependencies build fuzz
	@tools/fuzz $(ARGS)

# Parts by themselves, then all-reduces beside Gloo and Open MPI on emulated links (as root).
bench:
	@tools/install-dependencies build bench || echo "Going on without what is missing."
	@$(MAKE) --no-print-directory all
	@$(BUILD)/bench/micro_worker
	@bench/compare --build $(BUILD) --json $(BUILD)/bench.json $(or $(ARGS),--quick)

# A build that an earlier target has configured goes where PREFIX says, too.
install: configure
ifneq ($(origin PREFIX),file)
	@$(MESON) configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
endif
	@ninja -C $(BUILD)
	@$(MESON) install -C $(BUILD) --no-rebuild
	@$(give_back)

clean:
	rm -rf $(BUILD) build-asan build-tsan build-fuzz build-python build-tools

help:
	@echo "make                      build a release into build/ (the program is build/switchml)"
	@echo "make demo [ARGS=…]        train a real model on four workers through a switch,"
	@echo "    [LINK=MBIT] [WORKERS=N] on emulated links, beside Gloo's ring; LINK=none: without links"
	@echo "make unit                 the unit tests alone, in seconds"
	@echo "make test [ARGS=NAME…]    the tests that a change is most likely to break, in five minutes"
	@echo "make check                all tests, also with sanitizers, and all tests of Python"
	@echo "make nightly              packages, other compilers, arm64, fresh Debians, benchmarks; as root"
	@echo "make test-python [ARGS=…] the Python package with PyTorch, TensorFlow and JAX"
	@echo "make fresh                what the pages tell a new user, on fresh Debians, as root (an hour)"
	@echo "make fuzz [ARGS=SECONDS]  each fuzz target for a time (60 s), with clang's libFuzzer"
	@echo "make bench [ARGS=…]       beside Gloo and Open MPI, as root; see bench/compare --help"
	@echo "make install PREFIX=…     install program, library, header, man pages (/usr/local)"
	@echo "make deps                 install all that some part can use (it says what)"
	@echo "make format               clang-format on all C files"
	@echo "make clean                remove what was built"

