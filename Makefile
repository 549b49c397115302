# Lockstep. GNU make. The first thing to type is `make quickstart`; `make help` lists the rest.
# Options: V=1 (show commands)  DEBUG=1 (-O0, invariants always on)  SAN=address,undefined (or thread)  CC=clang

.DEFAULT_GOAL := all
CC ?= gcc
PREFIX ?= /usr/local
VERSION := 0.1.0

empty :=
space := $(empty) $(empty)
comma := ,
variant := $(if $(DEBUG),-debug)$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(filter clang%,$(notdir $(CC))),-clang)
B := build$(if $(variant),/variant$(variant))

Q := $(if $(V),,@)
LAYERS := core policies sim traces analysis cli

CFLAGS ?= $(if $(DEBUG),-O0,-O2) -g
WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE -ffp-contract=off -fno-common $(WARN) -I. -I$(B)/gen \
	-DLOCKSTEP_VERSION='"$(VERSION)"' $(if $(DEBUG),-DLOCKSTEP_DEBUG) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
LDLIBS := -lsqlite3 -ljansson -lcurl -lz -lm -ldl -lpthread
ALL_LDFLAGS := -rdynamic $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

src = $(sort $(wildcard $(1)/*.c))
objs = $(patsubst %.c,$(B)/obj/%.o,$(call src,$(1)))
lib = $(B)/lib/lib$(1).a
# What a test of a layer links: the layer and those below it. Policies register themselves: whole archive.
whole = -Wl,--whole-archive $(1) -Wl,--no-whole-archive
libs_core := $(call lib,core)
libs_policies := $(call lib,policies) $(call lib,core)
libs_sim := $(call lib,sim) $(libs_policies)
libs_traces := $(call lib,traces) $(call lib,core)
libs_analysis := $(call lib,analysis) $(call lib,traces) $(libs_sim)
libs_cli := $(call lib,cli) $(libs_analysis)
link_libs = $(foreach l,$(1),$(if $(filter %/libpolicies.a,$(l)),$(call whole,$(l)),$(l)))

.PHONY: all
all: $(B)/lockstep

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC    $<")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Model and device specs, compiled in as text: sim/specs.h
SPECS := $(sort $(wildcard specs/*/*.json))
$(B)/gen/specs.c: $(SPECS) Makefile
	@mkdir -p $(@D)
	$(Q){ echo '#include "sim/specs.h"'; echo 'const struct spec_file spec_files[] = {'; \
	for f in $(SPECS); do printf '{"%s",\n' "$${f#specs/}"; sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/' "$$f"; echo '},'; done; \
	echo '{0, 0}};'; } > $@.tmp && mv $@.tmp $@
$(B)/obj/gen/specs.o: $(B)/gen/specs.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

define layer_lib
$(call lib,$(1)): $(call objs,$(1)) $(if $(filter sim,$(1)),$(if $(SPECS),$(B)/obj/gen/specs.o))
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_lib,$(l))))

$(B)/lockstep: $(libs_cli)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ -Wl,--start-group $(call link_libs,$(libs_cli)) -Wl,--end-group $(LDLIBS)

# Unit tests: tests/unit/<layer>_<what>.c is one program, linked with that layer and those below it.
UNIT := $(sort $(wildcard tests/unit/*.c))
UNIT_BINS := $(patsubst tests/unit/%.c,$(B)/tests/%,$(UNIT))
SUPPORT := $(patsubst %.c,$(B)/obj/%.o,$(sort $(wildcard tests/support/*.c)))
unit_layer = $(firstword $(subst _, ,$(1)))
define unit_test
$(B)/tests/$(1): $(B)/obj/tests/unit/$(1).o $(SUPPORT) $(libs_$(call unit_layer,$(1)))
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -o $$@ $$< $$(SUPPORT) -Wl,--start-group $$(call link_libs,$$(libs_$(call unit_layer,$(1)))) -Wl,--end-group $$(LDLIBS) -lcunit
endef
$(foreach t,$(patsubst tests/unit/%.c,%,$(UNIT)),$(eval $(call unit_test,$(t))))

.PHONY: unit
unit: $(UNIT_BINS)
	$(Q)for t in $(UNIT_BINS); do echo "== $$t"; $$t || exit 1; done

.PHONY: clean
clean:
	rm -rf build

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
