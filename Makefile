# Lockstep. GNU make. The first thing to type is `make quickstart`; `make help` lists the rest.
# Options: V=1 (show commands)  DEBUG=1 (-O0, invariants checked after every step)  SAN=address,undefined (or thread)
#          CC=clang  LTO=0 (no link-time optimisation)  PREFIX=/usr/local  DESTDIR=

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0

empty :=
space := $(empty) $(empty)
comma := ,
clang := $(filter clang%,$(notdir $(CC)))
# The step loop crosses files at every step: gcc's link-time optimisation of its layers makes it a tenth faster. Their
# objects are ordinary ones as well, so that test programs link without it, which is quicker.
LTO ?= $(if $(DEBUG)$(SAN)$(clang),0,1)
lto := $(filter 1,$(LTO))
variant := $(if $(DEBUG),-debug)$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(clang),-clang)$(if $(DEBUG)$(SAN)$(clang)$(lto),,-nolto)
B := build$(if $(variant),/variant$(variant))

Q := $(if $(V),,@)
LAYERS := core kernels models policies sim exec traces analysis cli
LOOP_LAYERS := core models policies sim

CFLAGS ?= $(if $(DEBUG),-O0,$(if $(SAN),-O1,-O3)) -g
# Warnings are errors for whoever works on it; not for whoever builds it with a compiler of another year.
WERROR ?= 1
WARN := -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE -ffp-contract=off -fno-common $(WARN) -I. -I$(B)/gen \
	-DLOCKSTEP_VERSION='"$(VERSION)"' $(if $(DEBUG),-DLOCKSTEP_DEBUG) $(if $(lto),-flto -ffat-lto-objects) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
# How to link what has to be fast, and everything else.
FAST := $(if $(lto),-flto=auto $(CFLAGS))
PLAIN := $(if $(lto),-fno-lto)
# libcurl is loaded when it is needed: traces/curl_api.h
LDLIBS := -lsqlite3 -ljansson -lz -lm -ldl -lpthread
ALL_LDFLAGS := -rdynamic $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

src = $(sort $(wildcard $(1)/*.c))
objs = $(patsubst %.c,$(B)/obj/%.o,$(call src,$(1)))
lib = $(B)/lib/lib$(1).a
# What a test of a layer links: the layer and those below it. Policies register themselves: whole archive.
whole = -Wl,--whole-archive $(1) -Wl,--no-whole-archive
libs_core := $(call lib,core)
libs_kernels := $(call lib,kernels)
libs_models := $(call lib,models) $(call lib,core)
libs_policies := $(call lib,policies) $(call lib,core)
libs_sim := $(call lib,sim) $(call lib,models) $(libs_policies)
libs_exec := $(call lib,exec) $(call lib,kernels) $(call lib,models) $(libs_policies)
libs_traces := $(call lib,traces) $(call lib,core)
libs_analysis := $(call lib,analysis) $(call lib,traces) $(call lib,sim) $(libs_exec)
libs_cli := $(call lib,cli) $(libs_analysis)
link_libs = -Wl,--start-group $(foreach l,$(1),$(if $(filter %/libpolicies.a,$(l)),$(call whole,$(l)),$(l))) \
	-Wl,--end-group

# SentencePiece's library is C++ and slow to load: what uses it is a file of its own, loaded when a tokenizer.model is opened
# (exec/spm/). Built where the library and a C++ compiler are found; `make SPM=` does without.
SPM := $(if $(wildcard /usr/include/sentencepiece_processor.h /usr/local/include/sentencepiece_processor.h),$(if $(shell \
	command -v $(CXX)),$(B)/lockstep-spm.so))

# The kernels for NVIDIA GPUs are a file of their own as well (kernels/cuda.h), built where nvcc is on PATH or in CUDA_HOME:
# CUDA 12 or 13. `make NVCC=` does without. Variants (SAN, DEBUG, clang) have none: tests/cuda_host runs the same sources.
NVCC := $(firstword $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc)) $(shell command -v nvcc 2>/dev/null))
CUDA := $(if $(variant),,$(if $(NVCC),$(B)/lockstep-cuda.so))

# What a sweep needs of MPI is a file of its own too (cli/mpi/), built where mpicc is; `make MPICC=` does without. Whatever the
# compiler of the program: mpicc brings its own.
MPICC := $(shell command -v mpicc 2>/dev/null)
MPI := $(if $(SAN),,$(if $(MPICC),$(B)/lockstep-mpi.so))

.PHONY: all
all: $(B)/lockstep $(SPM) $(CUDA) $(MPI) ## build build/lockstep (the default)

# Objects are made again when the flags change.
FLAGS := $(CC) $(filter-out -Werror,$(ALL_CFLAGS))
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo "$(subst ",\",$(FLAGS))" | cmp -s - $@ || echo "$(subst ",\",$(FLAGS))" > $@
.PHONY: FORCE
FORCE:

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC    $<")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(foreach l,$(filter-out $(LOOP_LAYERS),$(LAYERS)),$(eval $(B)/obj/$(l)/%.o: ALL_CFLAGS += $(PLAIN)))
# Tests are compiled more often than they are run.
$(B)/obj/tests/%.o: ALL_CFLAGS += $(PLAIN) $(if $(DEBUG)$(SAN),,-O1)
# Vectors wider than the machine's, on purpose.
$(B)/obj/tests/support/wide_%.o: ALL_CFLAGS += -Wno-psabi
# The sample traces are compiled in.
$(B)/obj/traces/samples.o: $(wildcard traces/samples/*_sample.*)

# The CPU's kernels. kernels/cpu/isa/*.c are compiled once for each instruction set the machine may turn out to have
# (kernels/cpu/isa.h): they are never optimised across files, so that no instruction leaks into what runs everywhere.
machine := $(shell $(CC) -dumpmachine)
ISAS := base $(if $(filter x86_64-%,$(machine)),avx2 avx512)
isa_flags_base := -DISA=base -DISA_LANES=4
isa_flags_avx2 := -DISA=avx2 -DISA_LANES=8 -mavx2 -mfma -mf16c
isa_flags_avx512 := -DISA=avx512 -DISA_LANES=16 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512
ISA_SRC := $(sort $(wildcard kernels/cpu/isa/*.c))
CPU_OBJS := $(call objs,kernels/cpu) $(call objs,kernels/reference) $(foreach i,$(ISAS),$(ISA_SRC:kernels/cpu/isa/%.c=$(B)/obj/kernels/cpu/isa/%-$(i).o))
define isa_rule
$(B)/obj/kernels/cpu/isa/%-$(1).o: kernels/cpu/isa/%.c $(B)/flags
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  CC    $$< ($(1))")
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(PLAIN) -ffp-contract=fast $$(isa_flags_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

# The page of `report` (analysis/report_page.c): its sources are compiled in, and Vega where it is installed (libjs-vega);
# else the program looks for it when it runs. `make VEGA=` does without.
VEGA := $(if $(wildcard /usr/share/javascript/vega/vega-interpreter.min.js),/usr/share/javascript/vega)
REPORT_OBJ := $(B)/obj/analysis/report_page.o
$(B)/gen/vega: FORCE
	@mkdir -p $(@D)
	@echo "$(VEGA)" | cmp -s - $@ || echo "$(VEGA)" > $@
$(REPORT_OBJ): $(wildcard analysis/report/*.* analysis/report/specs/*.json) $(B)/gen/vega
$(REPORT_OBJ): ALL_CFLAGS += $(PLAIN) $(if $(VEGA),-DLOCKSTEP_VEGA='"$(VEGA)"')

# Text that is compiled in: model and device specs (models/specs.h), what labs give to students (cli/lab.h; solutions are not).
# $(1) name of the table, $(2) folder that its paths begin after, $(3) files
SPECS := $(sort $(wildcard specs/*/*.json))
LABS := $(sort $(filter-out %/solution.c %/solution.json,$(wildcard docs/labs/*/*)))
define text_table
$(B)/gen/$(1).c: $(3) Makefile
	@mkdir -p $$(@D)
	$$(Q){ echo '#include "models/specs.h"'; echo 'extern const struct spec_file $(1)[];'; echo 'const struct spec_file $(1)[] = {'; \
	for f in $(3); do printf '{"%s",\n' "$$$${f#$(2)}"; sed 's/[\\"?]/\\&/g; s/^/"/; s/$$$$/\\n"/' "$$$$f"; echo '},'; done; \
	echo '{0, 0}};'; } > $$@.tmp && mv $$@.tmp $$@
$(B)/obj/gen/$(1).o: $(B)/gen/$(1).c $(B)/flags
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_CFLAGS) -MMD -MP -c -o $$@ $$<
endef
$(eval $(call text_table,spec_files,specs/,$(SPECS)))
$(eval $(call text_table,lab_files,docs/labs/,$(LABS)))
# What `lockstep policy new` writes.
$(eval $(call text_table,policy_files,cli/new_policy/,$(sort $(wildcard cli/new_policy/*))))

define layer_lib
$(call lib,$(1)): $(call objs,$(1)) $(if $(filter models,$(1)),$(B)/obj/gen/spec_files.o) $(if $(filter cli,$(1)),$(B)/obj/gen/lab_files.o $(B)/obj/gen/policy_files.o) $(if $(filter kernels,$(1)),$(CPU_OBJS))
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && $(if $(lto),gcc-ar,ar) rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_lib,$(l))))

$(B)/lockstep: $(libs_cli)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) $(FAST) -o $@.$$$$ $(B)/obj/cli/main.o $(call link_libs,$(libs_cli)) $(LDLIBS) && mv -f $@.$$$$ $@

$(B)/lockstep-spm.so: exec/spm/spm.cc exec/spm/spm_api.h
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX   $<")
	$(Q)$(CXX) -std=c++17 -O2 -g -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -fPIC -shared -fvisibility=hidden -I. \
		-o $@ $< -lsentencepiece

$(B)/lockstep-mpi.so: cli/mpi/mpi.c cli/mpi/mpi_api.h
	@mkdir -p $(@D)
	$(if $(V),,@echo "  MPICC $<")
	$(Q)$(MPICC) -std=c17 -O2 -g -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -fPIC -shared -fvisibility=hidden -I. \
		-o $@.$$$$ $< && mv -f $@.$$$$ $@

# sm_80 runs on 8.x, sm_90 on Hopper; what comes later is made from PTX by its driver. The host's part is C over CUDA's API.
# cuBLAS is loaded when the plug-in is opened, from where nvcc's CUDA has it or as the loader finds it.
CUDA_DIR := $(if $(NVCC),$(abspath $(dir $(realpath $(NVCC)))/..))
CUDA_ARCHS := 80 90
CUDA_PTX := 90
comma_space := $(comma)$(space)
CUDA_BUILT = CUDA $(shell $(NVCC) --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'): $(subst $(space),$(comma_space),$(strip \
	$(CUDA_ARCHS:%=sm_%))), later ones by PTX
NVCC_FLAGS := -std=c++17 -O3 -lineinfo -I. $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(CUDA_PTX),code=compute_$(CUDA_PTX) $(if $(filter 1,$(WERROR)),-Werror all-warnings) \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra
CUDA_CFLAGS := -std=c17 -D_GNU_SOURCE $(WARN) -I. -isystem $(CUDA_DIR)/include -O2 -g -fPIC -fvisibility=hidden
CUDA_OBJS := $(patsubst %.cu,$(B)/cuda/%.o,$(sort $(wildcard kernels/cuda/*.cu))) \
	$(patsubst %.c,$(B)/cuda/%-c.o,$(sort $(wildcard kernels/cuda/*.c) kernels/names.c))
$(B)/cuda/flags: FORCE
	@mkdir -p $(@D)
	@echo "$(NVCC) $(filter-out -Werror all-warnings,$(NVCC_FLAGS))" | cmp -s - $@ || \
		echo "$(NVCC) $(filter-out -Werror all-warnings,$(NVCC_FLAGS))" > $@
$(B)/cuda/%.o: %.cu $(B)/cuda/flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  NVCC  $<")
	$(Q)$(NVCC) $(NVCC_FLAGS) -Xptxas -v -MMD -MP -MF $(@:.o=.d) -c -o $@ $< 2> $(@:.o=.ptxas) || { cat $(@:.o=.ptxas) >&2; false; }
$(B)/cuda/%-c.o: %.c $(B)/cuda/flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC    $< (cuda)")
	$(Q)$(CC) $(CUDA_CFLAGS) -DCUDA_BUILT_FOR='"$(CUDA_BUILT)"' -MMD -MP -c -o $@ $<
# What ptxas says of each kernel (registers, spills, shared memory) is kept; tests/cuda_host/ptxas.sh looks that it gets no worse.
.PHONY: cuda-table
cuda-table: $(CUDA) ## write tests/cuda_host/ptxas.tsv anew: read the diff before you commit it
	$(Q)tools/ptxas_table.sh $(NVCC) $(wildcard $(B)/cuda/kernels/cuda/*.ptxas) > tests/cuda_host/ptxas.tsv
$(B)/lockstep-cuda.so: $(CUDA_OBJS)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(NVCC) -shared -cudart static -Xlinker -z,defs,-rpath,$(CUDA_DIR)/lib64 -o $@.$$$$ $^ && mv -f $@.$$$$ $@

# --- test programs -----------------------------------------------------------------------------------------------
# tests/unit/<layer>_<what>.c is linked with that layer and those below it; all others with everything. What they
# share is an archive, so each takes only what it uses. tests/failmem/*.c get an allocator that fails on demand.
# Random cases are the program's own (`lockstep policy check`); tests of layers below analysis take them from here.
SUPPORT_OBJS := $(filter-out %/failing_mem.o,$(call objs,tests/support)) $(B)/obj/analysis/random_case.o
SUPPORT := $(B)/lib/libsupport.a
$(SUPPORT): $(SUPPORT_OBJS)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^

unit_layer = $(firstword $(subst _, ,$(1)))
# $(1) source without .c, $(2) program, $(3) libraries, $(4) further objects, $(5) how to link
define test_program
$(2): $(B)/obj/$(1).o $(4) $(SUPPORT) $(3)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  LINK  $$@")
	$$(Q)$$(CC) $$(ALL_LDFLAGS) $(if $(5),$(5),$$(PLAIN)) -o $$@ $$< $(4) $$(call link_libs,$(SUPPORT) $(3)) $$(LDLIBS) -lcunit
endef
programs = $(patsubst tests/$(1)/%.c,$(B)/tests/$(if $(filter unit,$(1)),,$(1)/)%,$(sort $(wildcard tests/$(1)/*.c)))
UNIT := $(call programs,unit)
PROP := $(call programs,prop)
GOLDEN := $(call programs,golden)
FAILMEM := $(call programs,failmem)
FUZZ := $(if $(wildcard tests/fuzz/main.c),$(filter-out %/main,$(call programs,fuzz)))
BENCH := $(call programs,bench)
name = $(notdir $(1))
$(foreach t,$(UNIT),$(eval $(call test_program,tests/unit/$(call name,$(t)),$(t),$(libs_$(call unit_layer,$(call name,$(t)))),)))
$(foreach t,$(PROP),$(eval $(call test_program,tests/prop/$(call name,$(t)),$(t),$(libs_cli),)))
$(foreach t,$(GOLDEN),$(eval $(call test_program,tests/golden/$(call name,$(t)),$(t),$(libs_cli),)))
$(foreach t,$(FAILMEM),$(eval $(call test_program,tests/failmem/$(call name,$(t)),$(t),$(libs_cli),$(B)/obj/tests/support/failing_mem.o)))
$(foreach t,$(FUZZ),$(eval $(call test_program,tests/fuzz/$(call name,$(t)),$(t),$(libs_cli),$(B)/obj/tests/fuzz/main.o)))
$(foreach t,$(BENCH),$(eval $(call test_program,tests/bench/$(call name,$(t)),$(t),$(libs_cli),,$$(FAST))))

# Policies that are loaded (analysis/plugin.h), as a user's Makefile builds them: never sanitized.
PLUGINS := $(patsubst tests/plugins/%.c,$(B)/tests/plugins/%.so,$(sort $(wildcard tests/plugins/*.c)))
PLUGIN_FLAGS := -std=c17 -D_GNU_SOURCE -O1 -g -fPIC -shared -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -I.
$(B)/tests/plugins/%.so: tests/plugins/%.c core/policy.h $(wildcard tests/plugins/*.h)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC    $< (plug-in)")
	$(Q)$(CC) $(PLUGIN_FLAGS) -o $@ $<
$(B)/tests/analysis_plugin $(B)/tests/analysis_policy_check $(B)/tests/failmem/policy: | $(PLUGINS)

# The same .cu files compiled by the C++ compiler for the stand-in for a GPU (tests/cuda_host/shim.h), and held against the
# reference. x86-64 only, not under TSan: fibers change stacks in their own way.
HOST_CUDA_SRC := $(sort $(wildcard kernels/cuda/*.cu))
CUDA_HOST := $(if $(filter x86_64-%,$(machine)),$(if $(findstring thread,$(SAN)),,$(if $(shell command -v $(CXX)),$(patsubst \
	tests/cuda_host/%.c,$(B)/tests/cuda_host/%,$(sort $(wildcard tests/cuda_host/cuda_*.c))))))
HOST_CUDA_OBJS := $(patsubst kernels/cuda/%.cu,$(B)/obj/pic/%.cu.o,$(HOST_CUDA_SRC)) $(B)/obj/pic/shim.o
CUDA_HOST_OBJS := $(HOST_CUDA_OBJS) $(patsubst %,$(B)/obj/tests/cuda_host/%.o,host_set cases)
CXX_FLAGS := -std=c++17 -g -O$(if $(SAN),1,2) -fPIC -fno-semantic-interposition -fno-strict-aliasing -ffp-contract=off -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) -I. \
	$(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
$(B)/obj/pic/%.cu.o: kernels/cuda/%.cu tests/cuda_host/shim.h $(B)/flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX   $< (host)")
	$(Q)$(CXX) $(CXX_FLAGS) -include tests/cuda_host/shim.h -MMD -MP -x c++ -c -o $@ $<
$(B)/obj/pic/%.o: tests/cuda_host/%.cpp $(B)/flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX   $<")
	$(Q)$(CXX) $(CXX_FLAGS) -MMD -MP -c -o $@ $<
$(B)/obj/pic/shim.o: CXX_FLAGS += -O2
$(CUDA_HOST): $(B)/tests/cuda_host/%: $(B)/obj/tests/cuda_host/%.o $(CUDA_HOST_OBJS) $(SUPPORT) $(libs_exec)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CXX) $(ALL_LDFLAGS) $(PLAIN) -o $@ $< $(CUDA_HOST_OBJS) $(call link_libs,$(SUPPORT) $(libs_exec)) $(LDLIBS) -lcunit
# The set itself (kernels/cuda/*.c) over those and a runtime and cuBLAS made for tests: whole models on a GPU that is not there.
CUDA_SET := $(if $(CUDA_HOST),$(patsubst tests/cuda_set/%.c,$(B)/tests/cuda_set/%,$(sort $(wildcard tests/cuda_set/cuda_*.c))))
CUDA_SET_OBJS := $(patsubst kernels/cuda/%.c,$(B)/obj/pic/%-c.o,$(sort $(wildcard kernels/cuda/*.c))) \
	$(patsubst %,$(B)/obj/pic/%.o,fake_cuda fake_blas) $(HOST_CUDA_OBJS)
fake_includes := -isystem tests/cuda_set/fake
$(B)/obj/tests/cuda_set/cuda_%.o: ALL_CFLAGS += $(fake_includes)
define host_set_rule
$(B)/obj/pic/%-c.o: $(1)/%.c $(B)/flags
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  CC    $$< (host)")
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(PLAIN) -fPIC $$(fake_includes) -MMD -MP -c -o $$@ $$<
endef
$(foreach d,kernels/cuda kernels,$(eval $(call host_set_rule,$(d))))
$(B)/obj/pic/%.o: tests/cuda_set/%.cpp $(B)/flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CXX   $<")
	$(Q)$(CXX) $(CXX_FLAGS) $(fake_includes) -MMD -MP -c -o $@ $<
$(CUDA_SET): $(B)/tests/cuda_set/%: $(B)/obj/tests/cuda_set/%.o $(CUDA_SET_OBJS) $(SUPPORT) $(libs_exec)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CXX) $(ALL_LDFLAGS) $(PLAIN) -Wl,--wrap=dlopen,--wrap=dlsym -o $@ $< $(CUDA_SET_OBJS) \
		$(call link_libs,$(SUPPORT) $(libs_exec)) $(LDLIBS) -lcunit
# The same as a plug-in, for the program itself: what `make gpu-check` does is rehearsed with it (tests/e2e/e2e_gpu_check.sh).
FAKE_GPU := $(if $(variant),,$(if $(CUDA_SET),$(B)/tests/fake-gpu/lockstep-cuda.so))
$(FAKE_GPU): $(CUDA_SET_OBJS) $(B)/obj/pic/names-c.o
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK  $@")
	$(Q)$(CXX) -shared -Wl,--wrap=dlopen,--wrap=dlsym -o $@ $^

# What needs a GPU: programs that load the plug-in, beside which they lie.
GPU := $(if $(variant),,$(patsubst tests/gpu/%.c,$(B)/tests/%,$(sort $(wildcard tests/gpu/*.c))))
$(foreach t,$(GPU),$(eval $(call test_program,tests/gpu/$(call name,$(t)),$(t),$(libs_exec),)))
TESTS := $(PLUGINS) $(UNIT) $(PROP) $(GOLDEN) $(FAILMEM) $(FUZZ) $(CUDA_HOST) $(CUDA_SET) $(GPU) $(FAKE_GPU)

.PHONY: tests unit prop golden failmem fuzz cuda-host e2e browser check check-layers lint bench
tests: $(B)/lockstep $(SPM) $(CUDA) $(MPI) $(TESTS) ## build every test program

RUN_TESTS := tests/run.sh
unit: $(UNIT) $(SPM) ## run the unit tests
	$(Q)$(RUN_TESTS) $(UNIT)
prop: $(PROP) ## run the property tests (engine against reference, random workloads)
	$(Q)$(RUN_TESTS) $(PROP)
golden: $(GOLDEN) ## compare decision logs with tests/golden/*.log
	$(Q)$(RUN_TESTS) $(GOLDEN)
failmem: $(FAILMEM) ## fail every allocation once
	$(Q)$(RUN_TESTS) $(FAILMEM)
cuda-host: $(CUDA_HOST) $(CUDA_SET) ## run the CUDA kernels on a stand-in for a GPU: whole tables of shapes
	$(Q)$(RUN_TESTS) $(CUDA_HOST) $(CUDA_SET)
e2e: $(B)/lockstep $(SPM) $(CUDA) $(MPI) ## run the binary as a user does
	$(Q)LOCKSTEP=$(B)/lockstep $(RUN_TESTS) $(sort $(wildcard tests/e2e/*.sh))
browser: $(B)/lockstep ## look at the report in Chromium, as a reader does
	$(Q)LOCKSTEP=$(B)/lockstep $(RUN_TESTS) $(sort $(wildcard tests/browser/*.sh))

.PHONY: gpu-check
gpu-check: $(B)/lockstep $(CUDA) $(GPU) ## everything that needs an NVIDIA GPU, in under 10 minutes; without one it is compiled and skipped
	$(Q)tools/gpu_check.sh $(B)

.PHONY: golden-update samples
golden-update: $(GOLDEN) ## write tests/golden/*.log anew: read the diff before you commit it
	$(Q)for t in $(GOLDEN); do $$t --update || exit 1; done
samples: $(B)/lockstep ## make the bundled sample traces anew (the same bytes)
	$(Q)tools/make_samples.sh $(B)/lockstep traces/samples

FUZZ_SECONDS ?= 60
fuzz: ## fuzz every reader for FUZZ_SECONDS each, under ASan and UBSan
	$(Q)$(MAKE) --no-print-directory SAN=address,undefined fuzz-run FUZZ_SECONDS=$(FUZZ_SECONDS)
.PHONY: fuzz-run
fuzz-run: $(FUZZ)
	$(Q)tests/run_fuzz.sh $(FUZZ_SECONDS) $(FUZZ)

check-layers: all ## each folder includes only what it may; core and policies call no clock, file, thread or random source
	$(Q)tools/check_layers.sh $(B)

check: ## install what tests need, build, run everything; the last line is `N passed, N failed, N skipped`
	$(Q)tools/packages.sh build test
	+$(Q)MAKE="$(MAKE)" CC="$(CC)" tests/check.sh

lint: ## formatting, static analysis, shell scripts, layers
	$(Q)tools/packages.sh build lint
	+$(Q)$(MAKE) --no-print-directory all
	$(Q)tools/lint.sh

bench: ## measure; the table is printed and appended to build/bench.tsv
	$(Q)tools/packages.sh build bench
	+$(Q)$(MAKE) --no-print-directory $(B)/lockstep bench-programs
	$(Q)LOCKSTEP=$(B)/lockstep tests/bench/run.sh $(B)
.PHONY: bench-programs
bench-programs: $(BENCH)

# Runs that were made are kept in build/studies: one that was interrupted goes on, `rm -r build/studies` measures anew.
STUDIES := branching workshop
.PHONY: studies
studies: ## write docs/studies/*.md: hundreds of runs, simulated and on this machine's CPU; half an hour
	$(Q)tools/packages.sh build studies
	+$(Q)$(MAKE) --no-print-directory $(B)/lockstep
	$(Q)for s in $(STUDIES); do tools/study/$$s.sh $(B)/lockstep docs/studies || exit 1; done

.PHONY: choosing
choosing: $(B)/lockstep ## make the runs of docs/choosing.md again and write their figures into it; seconds
	$(Q)tools/choosing.py $(B)/lockstep docs/choosing.md

.PHONY: lab-figures
lab-figures: $(B)/lockstep ## after a change that moves figures: write those of docs/labs/*/solution.json anew; `make e2e` tells what no longer holds
	$(Q)tools/lab_solutions.py $(B)/lockstep

# --- first contact, installation ----------------------------------------------------------------------------------
SAMPLE := traces/samples/azure_conv_sample.csv
.PHONY: quickstart
quickstart: ## install what is missing, build, show three policies on a bundled trace
	$(Q)tools/packages.sh build
	+$(Q)$(MAKE) --no-print-directory -j"$$(nproc)" WERROR=0 all
	$(Q)tools/quickstart.sh $(B)/lockstep $(SAMPLE)

.PHONY: man
man: $(B)/lockstep ## write the manual pages, one a command, to build/man
	$(Q)mkdir -p $(B)/man && rm -f $(B)/man/*.1 && tools/man_pages.sh $(B)/lockstep $(B)/man
MAN := $(DESTDIR)$(PREFIX)/share/man/man1
DOC := $(DESTDIR)$(PREFIX)/share/doc/lockstep
COMPLETION := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
SHARE := $(DESTDIR)$(PREFIX)/share/lockstep
INCLUDE := $(DESTDIR)$(PREFIX)/include/lockstep
# What a plug-in may use (docs/plugin-policies.md): all of it is exported by the program.
PLUGIN_HEADERS := core/policy.h core/choices.h core/err.h core/mem.h core/rng.h policies/walk.h
.PHONY: install uninstall
install: all ## copy program, manual pages, bash completion and sample traces below PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(MAN) $(DOC) $(COMPLETION) $(SHARE)/samples
	install -m 755 $(B)/lockstep $(DESTDIR)$(PREFIX)/bin/lockstep
	$(if $(SPM),install -D -m 755 $(SPM) $(DESTDIR)$(PREFIX)/lib/lockstep/lockstep-spm.so)
	$(if $(CUDA),install -D -m 755 $(CUDA) $(DESTDIR)$(PREFIX)/lib/lockstep/lockstep-cuda.so)
	$(if $(MPI),install -D -m 755 $(MPI) $(DESTDIR)$(PREFIX)/lib/lockstep/lockstep-mpi.so)
	$(Q)tools/man_pages.sh $(B)/lockstep $(MAN)
	$(Q)for f in $(PLUGIN_HEADERS); do install -D -m 644 $$f $(INCLUDE)/$$f || exit 1; done
	$(B)/lockstep help --completion > $(COMPLETION)/lockstep
	install -m 644 README.md LICENSE $(wildcard docs/*.md docs/*.png) $(DOC)
	install -d $(DOC)/validation
	install -m 644 $(wildcard docs/validation/*.md) $(DOC)/validation
	install -d $(DOC)/studies
	install -m 644 $(wildcard docs/studies/*) $(DOC)/studies
	install -m 644 $(wildcard traces/samples/*) $(SHARE)/samples
	$(Q)for f in $(wildcard docs/labs/*.md docs/labs/*/* docs/examples/*); do install -D -m 644 $$f $(DOC)/$${f#docs/} || exit 1; done
uninstall: ## remove what install copied
	rm -f $(DESTDIR)$(PREFIX)/bin/lockstep $(MAN)/lockstep.1 $(MAN)/lockstep-*.1 $(COMPLETION)/lockstep
	rm -rf $(DOC) $(SHARE) $(INCLUDE) $(DESTDIR)$(PREFIX)/lib/lockstep

.PHONY: packages packages-test
packages: ## install the packages building needs (apt)
	$(Q)tools/packages.sh build
packages-test: ## install the packages tests and lint need as well
	$(Q)tools/packages.sh build test lint bench

.PHONY: clean help
clean: ## remove build/
	rm -rf build
help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 20
	@echo; sed -n 's/^# \(Options: .*\)/\1/p; s/^#  *\(CC=clang.*\)/         \1/p' Makefile

-include $(shell find $(B)/obj $(B)/cuda -name '*.d' 2>/dev/null)
