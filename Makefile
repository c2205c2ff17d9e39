# The commands of this repository. `make` alone lists them.
#
#   ARGS        what `make run` passes on: make run ARGS="watch --format json"
#   PREFIX      where `make install` puts things (/usr/local), below DESTDIR

PREFIX ?= /usr/local
DESTDIR ?=
ARGS ?=
SWIFT ?= swift

.PHONY: help bootstrap run test check install

help:
	@echo 'make run      build reachability-watch and run it (ARGS="status")'
	@echo 'make test     run all tests, those in network namespaces included'
	@echo 'make check    format, warnings, structure, documentation, sanitizers'
	@echo 'make install  install reachability-watch below $(DESTDIR)$(PREFIX)'

bootstrap:
	@Scripts/bootstrap

run: bootstrap
	@$(SWIFT) build -c release --product reachability-watch >&2
	@exec "$$($(SWIFT) build -c release --show-bin-path)/reachability-watch" $(ARGS)

test: bootstrap
	@SWIFT="$(SWIFT)" Scripts/test

check: bootstrap
	@SWIFT="$(SWIFT)" Scripts/check

# The Swift runtime is linked in, so that the command runs where no Swift is installed; libnl stays a shared library.
install: bootstrap
	$(SWIFT) build -c release --product reachability-watch --static-swift-stdlib --scratch-path .build-install
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/doc/reachability-watch"
	install -m 755 "$$($(SWIFT) build -c release --static-swift-stdlib --scratch-path .build-install --show-bin-path)/reachability-watch" \
		"$(DESTDIR)$(PREFIX)/bin/reachability-watch"
	install -m 644 LICENSE NOTICE README.md "$(DESTDIR)$(PREFIX)/share/doc/reachability-watch/"
