# The commands of this repository. `make` alone lists them.
#
#   ARGS         what `make run` passes on: make run ARGS="watch --format json"
#   PREFIX       where `make install` puts things (/usr/local), below DESTDIR
#   SWIFT        the swift command
#   SWIFT_FLAGS  flags of each build and of the tests: make test SWIFT_FLAGS="--jobs 2"
#   TEST_FLAGS   flags of `swift test` alone: make test TEST_FLAGS="--filter CableTests"

PREFIX ?= /usr/local
DESTDIR ?=
ARGS ?=
SWIFT ?= swift
SWIFT_FLAGS ?=
TEST_FLAGS ?=
export SWIFT SWIFT_FLAGS

doc = $(DESTDIR)$(PREFIX)/share/doc/reachability-watch
build = $(SWIFT) build -c release --product reachability-watch $(SWIFT_FLAGS)
static = $(build) --static-swift-stdlib --scratch-path .build-install

.PHONY: help bootstrap run test check install

help:
	@echo 'make run      build reachability-watch and run it (ARGS="status")'
	@echo 'make test     run all tests, those in network namespaces included'
	@echo 'make check    format, warnings, structure, documentation, sanitizers'
	@echo 'make install  install reachability-watch below $(DESTDIR)$(PREFIX)'

bootstrap:
	@Scripts/bootstrap

run: bootstrap
	@$(build) >&2
	@exec "$$($(build) --show-bin-path)/reachability-watch" $(ARGS)

test: bootstrap
	@Scripts/test $(TEST_FLAGS)

check: bootstrap
	@Scripts/check

# The Swift runtime is linked in, so that the command runs where no Swift is installed; libnl stays a shared library.
install: bootstrap
	$(static)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(doc)"
	install -m 755 "$$($(static) --show-bin-path)/reachability-watch" "$(DESTDIR)$(PREFIX)/bin/reachability-watch"
	install -m 644 LICENSE NOTICE README.md "$(doc)/"
