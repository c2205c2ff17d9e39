# The commands of this repository. `make` alone lists them.
#
#   ARGS         what `make run` passes on: make run ARGS="watch --format json"
#   PREFIX       where `make install` puts things (/usr/local), below DESTDIR
#   BUILT        a folder with both programs: `make install` and `make deb` then build nothing
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
libexec = $(DESTDIR)$(PREFIX)/libexec/reachability-watch
units = $(DESTDIR)$(PREFIX)/lib/systemd
unit_files = $(patsubst Packaging/systemd/%,%,$(wildcard Packaging/systemd/*/*))
share = $(DESTDIR)$(PREFIX)/share
build = $(SWIFT) build -c release --product reachability-watch $(SWIFT_FLAGS)
# No folder beside the program holds libraries of its own.
static_flags = --static-swift-stdlib --disable-local-rpath
static = $(build) $(static_flags) --scratch-path .build-install
# The commands of reachability-service need SQLite, an HTTP server and a client of brokers. With a scratch path of their own, the
# others need not be built again.
service_libraries = libsqlite3-dev libmosquitto-dev
service = $(SWIFT) build -c release --traits Service,MQTT $(SWIFT_FLAGS)
service_build = $(service) --scratch-path .build-service
service_static = $(service) $(static_flags) --scratch-path .build-install-service
# For the package. Optimized for size; the programs offer no symbols to others; relative relocations are packed (glibc 2.36).
small_flags = $(static_flags) -Xswiftc -Osize -Xswiftc -Xfrontend -Xswiftc -function-sections \
    -Xswiftc -use-ld=lld -Xlinker --no-export-dynamic -Xlinker -z -Xlinker pack-relative-relocs
small = COMMAND_ONLY=1 $(build) $(small_flags) -Xlinker --no-eh-frame-hdr -Xlinker -T \
    -Xlinker "$(CURDIR)/Packaging/no-unwind-tables.ld" --scratch-path .build-package
service_small = $(service) --product reachability-service $(small_flags) --scratch-path .build-package-service
watch_folder = $(or $(BUILT),$$($(static) --show-bin-path))
service_folder = $(or $(BUILT),$$($(service_static) --show-bin-path))

.PHONY: help bootstrap run test check programs install install-units deb

help:
	@echo 'make run      build reachability-watch and run it (ARGS="status")'
	@echo 'make test     run all tests, those in network namespaces included'
	@echo 'make check    format, warnings, structure, documentation, sanitizers'
	@echo 'make install  install reachability-watch below $(DESTDIR)$(PREFIX)'
	@echo 'make deb      build a Debian package of reachability-watch'

bootstrap:
	@Scripts/bootstrap

ifneq ($(filter queue report serve fleet,$(firstword $(ARGS))),)
run:
	@Scripts/bootstrap $(service_libraries)
	@$(service_build) --product reachability-service >&2
	@$(service_build) --product reachability-watch >&2
	@exec "$$($(service_build) --show-bin-path)/reachability-watch" $(ARGS)
else
run: bootstrap
	@$(build) >&2
	@exec "$$($(build) --show-bin-path)/reachability-watch" $(ARGS)
endif

test: bootstrap
	@Scripts/test $(TEST_FLAGS)

check: bootstrap
	@Scripts/check

ifdef BUILT
programs:
else
# The Swift runtime is linked in, so that the command runs where no Swift is installed; libnl stays a shared library.
programs:
	@Scripts/bootstrap $(service_libraries) pandoc
	$(static)
	$(service_static) --product reachability-service
endif

install: programs install-units
	@command -v pandoc >/dev/null || { echo 'no pandoc, which writes the manuals; next: apt-get install pandoc' >&2; exit 1; }
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(doc)/docs/schema" "$(libexec)"
	install -m 755 "$(service_folder)/reachability-service" "$(libexec)/reachability-service"
	install -m 755 "$(watch_folder)/reachability-watch" "$(DESTDIR)$(PREFIX)/bin/reachability-watch"
	umask 022 && Scripts/completions "$(watch_folder)/reachability-watch" "$(service_folder)/reachability-service" "$(share)"
	umask 022 && Scripts/manuals "$(watch_folder)/reachability-watch" "$(service_folder)/reachability-service" "$(share)/man"
	install -m 644 LICENSE NOTICE README.md "$(doc)/"
	install -m 644 docs/*.md "$(doc)/docs/"
	install -m 644 docs/schema/*.json "$(doc)/docs/schema/"

# Needs no programs.
install-units:
	set -e; for unit in $(unit_files); do \
	    install -D -m 644 "Packaging/systemd/$$unit" "$(units)/$$unit"; \
	    sed -i 's|/usr/local/|$(PREFIX)/|' "$(units)/$$unit"; \
	done

deb:
ifdef BUILT
	Scripts/deb "$(BUILT)" .build-deb
else
	@Scripts/bootstrap $(service_libraries)
	$(small)
	$(service_small)
	install -d .build-package/programs
	install "$$($(small) --show-bin-path)/reachability-watch" "$$($(service_small) --show-bin-path)/reachability-service" \
	    .build-package/programs
	Scripts/deb .build-package/programs .build-deb
endif
