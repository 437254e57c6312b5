# ccrun: build, tests, installation.  `make help` lists the targets.
#
# One Makefile, no recursion.  Sources are found by folder; every object has a dependency file.
#   V=1                     show the commands
#   SAN=address,undefined   build with sanitizers, into a folder of its own
#   CC=clang                another compiler, into a folder of its own
#   BUILD=dir               where everything that is made goes (default: build/)

VERSION := 0.1.0
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
ZSH_COMPLETIONS ?= $(PREFIX)/share/zsh/site-functions
DESTDIR ?=
V       ?= 0
SAN     ?=
TORCH   ?= torch==2.13.0

ifeq ($(origin CC),default)
CC := gcc
endif
comma := ,
variant := $(if $(filter-out gcc cc,$(notdir $(CC))),-$(notdir $(CC)))$(if $(SAN),-$(subst $(comma),-,$(SAN)))
BUILD ?= build
OUT   := $(BUILD)$(if $(variant),/v$(variant))
OBJ   := $(OUT)/obj
BIN   := $(OUT)/bin

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' '$(1)' '$(2)')

PKG_CONFIG ?= pkg-config
pc = $(shell $(PKG_CONFIG) $(1) 2>/dev/null)
PC_CFLAGS := $(call pc,--cflags libuv libcjson)

# A result that does not count is cast to void, which gcc does not hear where _FORTIFY_SOURCE is set, as Ubuntu does.
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
        -Wswitch-enum -Wimplicit-fallthrough -Wundef -Wcast-qual -Wpointer-arith -Wno-unused-result -Werror
OPT    ?= -O2 -g
CFLAGS ?=
COMMIT := $(shell scripts/commit)
BASE_CFLAGS = -std=c11 -D_GNU_SOURCE -I. -I$(OUT)/gen $(WARN) $(OPT) -fno-strict-aliasing -fstack-protector-strong \
             -ffunction-sections -fdata-sections $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined) \
             -DCCRUN_VERSION='"$(VERSION)"' $(PC_CFLAGS) $(CFLAGS)
ALL_CFLAGS = $(BASE_CFLAGS)
ALL_LDFLAGS = -Wl,--as-needed -Wl,-z,relro $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
PMIX_LIBS  := $(call pc,--libs pmix)
LIBS_UV    := $(or $(call pc,--libs libuv),-luv)
LIBS_CJSON := $(or $(call pc,--libs libcjson),-lcjson)

# Sources by layer.  Everything except the files with a main() is linked into one archive; the linker takes what it needs.
mains    := launcher/main.c launcher/store_main.c launcher/check_main.c backends/pmix_main.c
shims    := backends/mpi_shim.c backends/mpi_calls.c backends/mpi_process.c
lib_src  := $(filter-out $(mains) $(shims),$(wildcard store/base/*.c store/core/*.c store/*.c agent/core/*.c agent/*.c launcher/*.c backends/*.c))
core_src := $(wildcard store/base/*.c store/core/*.c agent/core/*.c)
unit_src := $(wildcard tests/unit/*.c)
prog_src := $(wildcard tests/support/*.c)
bench_src := $(wildcard tests/bench/*.c)

lib_obj  := $(lib_src:%.c=$(OBJ)/%.o)
unit_obj := $(unit_src:%.c=$(OBJ)/%.o)
programs := $(if $(wildcard launcher/main.c),$(BIN)/ccrun) $(if $(wildcard launcher/store_main.c),$(BIN)/ccrun-store) \
            $(BIN)/ccrun-check $(if $(PMIX_LIBS),$(BIN)/ccrun-pmix)
helpers  := $(prog_src:tests/support/%.c=$(BIN)/tests/%)

.PHONY: all help
all: $(programs)

help:
	@echo 'make              build ccrun and ccrun-store into $(BUILD)/bin'
	@echo 'make quickstart   set everything up and run a real training job'
	@echo 'make check        every test (check-unit, check-functional, check-interop, ...)'
	@echo 'make lint         formatting, clang-tidy, shellcheck, mandoc'
	@echo 'make soak         full counts, fuzzing, mutants, benchmark'
	@echo 'make static       $(BUILD)/bin/ccrun-static: one file for any container image'
	@echo 'make bench        measurements beside the peers, build/bench.json'
	@echo 'make install      PREFIX=$(PREFIX) DESTDIR=$(DESTDIR); also: uninstall dist man fuzz clean'
	@echo 'make release      a source tarball, Debian packages and a Python wheel in $(BUILD)/release'

# ---- objects

# Objects are made again when the flags have changed, not whenever the Makefile has.
.PHONY: FORCE
$(OUT)/flags: content = $(CC) $(BASE_CFLAGS)
$(OUT)/commit: content = $(COMMIT)
$(OUT)/flags $(OUT)/commit: FORCE
	@$(shell mkdir -p '$(@D)')$(file >$@.new,$(content)) cmp -s $@.new $@ || cp $@.new $@ # make expands before it runs

$(OBJ)/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(OUT)/libccrun-all.a: $(lib_obj)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(lib_obj)

# ---- programs

$(OBJ)/launcher/main.o: $(OUT)/commit
$(OBJ)/launcher/main.o: ALL_CFLAGS += -DCCRUN_COMMIT='"$(COMMIT)"'

$(BIN)/ccrun: $(OBJ)/launcher/main.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--gc-sections -o $@ $^ $(LIBS_UV) $(LIBS_CJSON) -lm

$(BIN)/ccrun-store: $(OBJ)/launcher/store_main.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--gc-sections -o $@ $^ $(LIBS_UV) $(LIBS_CJSON) -lm

$(BIN)/ccrun-check: $(OBJ)/launcher/check_main.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--gc-sections -o $@ $^ $(LIBS_CJSON) -ldl -lpthread -lm

# The kernel with which ccrun-check fills and checks buffers on a GPU, as a string in PTX; empty where there is no nvcc that works.
NVCC ?= nvcc
$(OUT)/gen/check_kernel.inc: launcher/check_kernel.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)if command -v '$(NVCC)' >/dev/null && '$(NVCC)' -ptx -o $@.ptx $< 2>$@.log; then \
	    { echo '{'; od -An -v -tu1 $@.ptx | sed 's/[0-9][0-9]*/&,/g'; echo '0 }'; } >$@.new; \
	else echo '  without a kernel for ccrun-check: nvcc makes it'; echo '""' >$@.new; fi && mv $@.new $@
$(OBJ)/launcher/check_gpu.o: $(OUT)/gen/check_kernel.inc

# One file that runs in any image, whatever C library that has or lacks.  Not every distribution has the archives: libcjson.a is
# made from its source package.  Only two objects are other ones.
static_obj   = $(OBJ)/static/launcher/main.o $(OBJ)/static/store/base/shared.o
static_uv    = $(firstword $(wildcard $(foreach a,libuv_a.a libuv.a,$(shell $(CC) -print-file-name=$(a) 2>/dev/null))))
static_cjson = $(or $(wildcard $(shell $(CC) -print-file-name=libcjson.a 2>/dev/null)),$(BUILD)/static/lib/libcjson.a)
$(BUILD)/static/lib/libcjson.a:
	$(Q)scripts/static-libs $(BUILD)/static cjson
$(OBJ)/static/%.o: ALL_CFLAGS += -DCCRUN_STATIC -DCCRUN_COMMIT='"$(COMMIT)"'
$(OBJ)/static/%.o: %.c $(OUT)/flags $(OUT)/commit
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(BIN)/ccrun-static: $(static_obj) $(OUT)/libccrun-all.a | $(static_cjson)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -static $(ALL_LDFLAGS) -Wl,--no-warnings -Wl,--gc-sections -s -o $@ $^ $(static_uv) $(static_cjson) -lm -lpthread

.PHONY: static static-if-possible
static: $(BIN)/ccrun-static
static-if-possible:
	+$(Q)$(if $(SAN),:,$(MAKE) --no-print-directory static || echo '  without the static ccrun')

# The images of scripts/docker, built by podman, and the manifests held against their schemas: minutes.
.PHONY: check-images
check-images:
	$(Q)scripts/bootstrap build test images
	+$(Q)CCRUN_REPEAT=50 $(MAKE) --no-print-directory check-functional \
	    TESTS='tests/functional/container_images.sh tests/functional/container_kubernetes.sh'

# Only where libpmix is: without it Open MPI is not served.  Its headers are not ours to keep free of warnings.
$(OBJ)/backends/pmix_main.o $(OUT)/tidy/backends/pmix_main: ALL_CFLAGS += $(patsubst -I%,-isystem %,$(call pc,--cflags pmix))
$(BIN)/ccrun-pmix: $(OBJ)/backends/pmix_main.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--gc-sections -o $@ $^ $(PMIX_LIBS) -lpthread

# ---- libccrun: what workers link.  libc and libdl only; a backend is loaded when it is asked for.

LIB    := $(OUT)/lib
# Arithmetic on large arrays: -O2 takes elements one by one.
$(OBJ)/backends/reduce.o $(OBJ)/pic/backends/reduce.o: ALL_CFLAGS += $(patsubst -O2,-O3,$(filter -O2,$(OPT)))
soname := libccrun.so.0
worker_src := $(filter-out $(mains) $(shims),$(wildcard backends/*.c)) store/client.c store/filestore.c store/core/filelog.c store/core/kv.c \
              store/core/siphash.c store/core/wire.c store/base/buf.c store/base/err.c store/base/pyvalue.c
worker_obj := $(worker_src:%.c=$(OBJ)/pic/%.o)
libraries  := $(LIB)/libccrun.so $(LIB)/libccrun.a $(LIB)/ccrun.pc

$(OBJ)/pic/%.o: ALL_CFLAGS += -fPIC -fvisibility=hidden
$(OBJ)/pic/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(LIB)/libccrun.so: $(worker_obj) backends/libccrun.map
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(if $(SAN),,-Wl,-z,defs) -shared -Wl,-soname,$(soname) -Wl,--version-script=backends/libccrun.map \
	    -Wl,--gc-sections -o $@ $(worker_obj) -ldl -lpthread && ln -sf libccrun.so $(LIB)/$(soname)

# One object, in which only the public names are left for others to clash with.
$(LIB)/libccrun.a: $(worker_obj)
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ld -r -o $(LIB)/ccrun.o $(worker_obj) && objcopy -w --keep-global-symbol='ccrun_*' $(LIB)/ccrun.o && \
	    ar rcs $@ $(LIB)/ccrun.o && rm $(LIB)/ccrun.o

pc_file = sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' backends/ccrun.pc.in
$(LIB)/ccrun.pc: backends/ccrun.pc.in
	@mkdir -p $(@D)
	$(Q)$(pc_file) >$@

# Backends that need a library to be built with are left out, with a word, where it is missing.
ifeq ($(origin CXX),default)
CXX := $(if $(filter clang%,$(notdir $(CC))),clang++,g++)
endif
CXXFLAGS ?=
has_gloo := $(if $(shell command -v $(CXX)),$(wildcard $(addsuffix /gloo/rendezvous/context.h,/usr/include /usr/local/include $(GLOO_PREFIX)/include)))
plugins  := $(if $(has_gloo),$(LIB)/ccrun/libccrun-gloo.so)

$(LIB)/ccrun/libccrun-gloo.so: backends/gloo_shim.cc backends/gloo_shim.h backends/ccrun.h $(OUT)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=c++17 -Wall -Wextra -Wshadow -Werror -I. $(if $(GLOO_PREFIX),-I$(GLOO_PREFIX)/include -L$(GLOO_PREFIX)/lib) $(OPT) \
	    $(if $(SAN),-fsanitize=$(SAN)) -fPIC -shared -fvisibility=hidden $(CXXFLAGS) $(LDFLAGS) -o $@ $< -lgloo

# One for each binary interface of MPI: MPICC_OPENMPI and MPICC_MPICH are the compilers whose mpi.h is used.
MPICC_OPENMPI ?= mpicc.openmpi
MPICC_MPICH   ?= mpicc.mpich
mpi_includes = $(patsubst -I%,-isystem %,$(filter -I%,$(shell $(1) 2>/dev/null)))
MPI_CFLAGS_openmpi := $(call mpi_includes,$(MPICC_OPENMPI) --showme:compile)
MPI_CFLAGS_mpich   := $(call mpi_includes,$(MPICC_MPICH) -show -c)
mpi_shims := $(foreach mpi,openmpi mpich,$(if $(MPI_CFLAGS_$(mpi)),$(LIB)/ccrun/libccrun-mpi-$(mpi).so))
# Without a blank, which make takes for something.
plugins   := $(strip $(plugins) $(mpi_shims))

# What is undefined in it is in the libmpi that the process has.
$(LIB)/ccrun/libccrun-mpi-%.so: $(shims) $(wildcard backends/*.h store/base/*.h) $(addprefix $(OBJ)/pic/,store/base/err.o backends/reduce.o)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(MPI_CFLAGS_$*) -fPIC -fvisibility=hidden $(ALL_LDFLAGS) -shared \
	    -o $@ $(filter %.c %.o,$^) -lpthread
$(shims:%.c=$(OBJ)/%.o) $(shims:%.c=$(OUT)/tidy/%): ALL_CFLAGS += $(or $(MPI_CFLAGS_openmpi),$(MPI_CFLAGS_mpich))

.PHONY: libraries
libraries: $(libraries) $(plugins)
	$(if $(has_gloo),,@echo '  without gloo: g++ and libgloo-dev make it')
	$(if $(mpi_shims),,@echo '  without mpi: libopenmpi-dev and libmpich-dev make it')
all: libraries

# Small programs that the tests run as workers or as a load: tests/support/NAME.c -> bin/tests/NAME
$(BIN)/tests/%: $(OBJ)/tests/support/%.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--gc-sections -o $@ $^ $(LIBS_UV) $(LIBS_CJSON) -lm

# Those that are users of the library, and know only its header.
so_users := $(addprefix $(BIN)/tests/,collsuite collfault storeuser)
$(so_users): $(BIN)/tests/%: $(OBJ)/tests/support/%.o $(LIB)/libccrun.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,-rpath,'$$ORIGIN/../../lib' -o $@ $< -L$(LIB) -lccrun -lm

$(BIN)/bench/collective: $(OBJ)/tests/bench/collective.o $(LIB)/libccrun.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,-rpath,'$$ORIGIN/../../lib' -o $@ $< -L$(LIB) -lccrun

# Doubles of NVIDIA's libraries, which tests put in their place where there is no GPU.
fakes := $(BIN)/tests/fake/libcuda.so.1 $(BIN)/tests/fake/libnccl.so.2
$(BIN)/tests/fake/libcuda.so.1: $(OBJ)/pic/tests/support/fake/fakecuda.o
$(BIN)/tests/fake/libnccl.so.2: $(patsubst %,$(OBJ)/pic/%.o,tests/support/fake/fakenccl tests/support/fake/fakemesh backends/reduce)
$(fakes):
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ -ldl -lpthread

# ---- tests

CRITERION_CFLAGS := $(call pc,--cflags criterion)
$(OBJ)/tests/unit/%.o: ALL_CFLAGS += $(CRITERION_CFLAGS) -Wno-cast-qual -Wno-conversion

$(BIN)/unit-tests: $(unit_obj) $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(unit_obj) $(OUT)/libccrun-all.a $(LIBS_UV) $(LIBS_CJSON) $(or $(call pc,--libs criterion),-lcriterion) -lm

.PHONY: check check-unit check-functional check-interop check-store check-layers check-pure check-symbols check-quickstart \
        check-lint lint unit-tests helpers quickstart
unit-tests: $(BIN)/unit-tests
helpers: $(helpers) libraries $(fakes)

# One person's two commands: they install what is missing themselves, so the rest is made by a second make.
parts ?= layers pure symbols unit sim functional store interop
quickstart check-quickstart:
	$(Q)scripts/bootstrap build
	+$(Q)$(MAKE) --no-print-directory all
	$(Q)TORCH='$(TORCH)' PYTHON='$(PYTHON)' scripts/quickstart $(BIN)/ccrun $(BUILD)/venv

check:
	$(Q)scripts/bootstrap build test
	+$(Q)MAKE='$(MAKE)' scripts/check $(parts)

# What a change must pass (.ci/run).
.PHONY: ci
ci:
	+$(Q)MAKE='$(MAKE)' scripts/check quickstart $(parts) lint sanitized

# What the tests see: the programs, the helpers, and for interop a Python with torch.
# The shell makes the paths absolute: in make a space would end a name.
abs_bin  = "$$(cd $(BIN) && pwd)"
test_env = CCRUN=$(abs_bin)/ccrun SUPPORT=$(abs_bin)/tests
# A test says done_testing; other scripts are what tests start.
shell_tests = $(or $(TESTS),$(shell grep -lx done_testing tests/$(1)/*.sh))

check-unit: $(BIN)/unit-tests $(helpers) $(fakes) $(programs)
	$(Q)CCRUN_BIN=$(abs_bin) tests/unit/run $(BIN)/unit-tests

check-functional: $(programs) $(helpers) libraries $(fakes) $(BIN)/sim_replay static-if-possible
	$(Q)$(test_env) PYTHON='$(PYTHON)' tests/run functional $(call shell_tests,functional)

torch_python = $$(TORCH='$(TORCH)' PYTHON='$(PYTHON)' scripts/torch-python $(BUILD)/venv)

check-interop: $(programs) $(helpers) libraries
	$(Q)python=$(torch_python) && $(test_env) PYTHON=$$python tests/run interop $(call shell_tests,interop)

# clang-tidy looks again only at what was compiled again.
tidy_src := $(lib_src) $(wildcard $(mains)) $(if $(mpi_shims),$(shims)) $(prog_src) $(bench_src)
$(OUT)/tidy/%: $(OBJ)/%.o .clang-tidy
	@mkdir -p $(@D)
	$(call say,TIDY,$*.c)
	$(Q)clang-tidy --quiet $*.c -- $(ALL_CFLAGS) -DCCRUN_COMMIT='""' -Wno-unknown-warning-option 2>/dev/null && touch $@
.PHONY: tidy
tidy: $(tidy_src:%.c=$(OUT)/tidy/%)

lint check-lint:
	$(Q)scripts/bootstrap build lint
	+$(Q)$(MAKE) --no-print-directory man && scripts/lint $(OUT)/man/*; style=$$?; $(MAKE) --no-print-directory -k -j2 tidy && exit $$style

# The conformance program: whatever PyTorch 1.13 to 2.14 send, and what nobody should.
check-store: $(programs)
	$(Q)python=$(torch_python) && tests/store/run $(BIN)/ccrun-store "$$python"

check-symbols: $(programs)
	$(Q)$(if $(SAN),:,scripts/check-symbols) $(filter-out %/ccrun-pmix,$(programs))

check-layers:
	$(Q)scripts/check-layers

# A core is pure: its objects may use only these functions of the C library.
check-pure: $(core_src:%.c=$(OBJ)/%.o)
	$(Q)scripts/check-pure $(OBJ) $(filter-out store/base/%,$(core_src))

# ---- fuzzing: every tests/fuzz/fuzz_NAME.c, FUZZ_SECONDS each, or only those of FUZZ='NAME...'

FUZZ_SECONDS ?= 60
FUZZ ?=
$(BIN)/fuzz/%: $(OBJ)/tests/fuzz/%.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS_UV) $(LIBS_CJSON) -lm

.PHONY: fuzz fuzzers check-fuzz check-corpora
fuzz_src := $(wildcard tests/fuzz/fuzz_*.c)
fuzzers: $(fuzz_src:tests/fuzz/%.c=$(BIN)/fuzz/%)

# Each fuzzer over the inputs that are kept, with any compiler.
replays := $(fuzz_src:tests/fuzz/fuzz_%.c=$(BIN)/replay/%)
$(replays): $(BIN)/replay/%: $(OBJ)/tests/fuzz/fuzz_%.o $(OBJ)/tests/fuzz/replay.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS_UV) $(LIBS_CJSON) -lm

check-corpora: $(replays)
	$(Q)for r in $(replays); do "$$r" "tests/fuzz/corpus/$${r##*/}" || { echo "$$r failed"; exit 1; }; done

fuzz check-fuzz:
	$(Q)scripts/bootstrap build lint
	+$(Q)$(MAKE) --no-print-directory CC=clang SAN=fuzzer-no-link,address,undefined fuzzers
	$(Q)scripts/fuzz $(BUILD)/v-clang-fuzzer-no-link-address-undefined/bin/fuzz $(FUZZ_SECONDS) $(FUZZ)

# ---- measurements beside the peers

$(BIN)/bench/%: $(OBJ)/tests/bench/%.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -Wl,--gc-sections -o $@ $^ $(LIBS_UV) $(LIBS_CJSON) -lm

# BENCH='ROW...' measures only these; PYTHON=... has the torch to compare with.
.PHONY: bench check-bench bench-programs
bench-programs: $(patsubst tests/bench/%.c,$(BIN)/bench/%,$(bench_src))
bench check-bench: $(programs) bench-programs libraries $(BIN)/sim_rdzv $(BIN)/tests/storm $(BIN)/tests/probe static-if-possible
	$(Q)scripts/bootstrap bench
	$(Q)python=$(torch_python) && \
	    python3 tests/bench/bench.py --bin $(BIN) --torch "$$python" --json $(BUILD)/bench.json $(BENCH)

# ---- everything at its full count: before a release, not for every change

# ---- simulation: the pure cores under every kind of worker, user and scheduler, and with planted bugs

$(BIN)/sim_node: $(OBJ)/tests/sim/sim_solo.o
$(BIN)/sim_rdzv: $(addprefix $(OBJ)/tests/sim/sim_,world.o check.o promise.o decline.o takeover.o queue.o)
$(BIN)/sim_%: $(OBJ)/tests/sim/sim_%.o $(OUT)/libccrun-all.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(OUT)/libccrun-all.a

.PHONY: check-sim mutants check-mutants
check-sim: $(BIN)/sim_node $(BIN)/sim_rdzv
	$(Q)$(BIN)/sim_node -n 200000
	$(Q)$(BIN)/sim_rdzv -n 3000
	$(Q)for n in 8 64 1024 16384; do $(BIN)/sim_rdzv -b $$n || exit; done
	$(Q)python3 tests/sim/mutants.py --stale

mutants check-mutants:
	$(Q)python3 tests/sim/mutants.py

.PHONY: soak
soak:
	$(Q)scripts/bootstrap build test lint bench release
	+$(Q)CCRUN_REPEAT=200 MAKE='$(MAKE)' scripts/check quickstart $(parts) mutants lint sanitized threads fuzz bench release walk

# ---- the tests again, with a sanitizer in the process that is tested

.PHONY: check-sanitized
check-sanitized:
	+$(Q)$(MAKE) --no-print-directory SAN=address,undefined check-unit
	+$(Q)$(MAKE) --no-print-directory SAN=address,undefined check-store
	+$(Q)$(MAKE) --no-print-directory SAN=address,undefined check-functional \
	    TESTS="tests/functional/collectives.sh $$([ "$${CCRUN_REPEAT:-5}" -lt 50 ] || echo tests/functional/collectives_loss.sh)"
	+$(Q)$(MAKE) --no-print-directory SAN=address,undefined check-corpora

# The library has threads of its own, and calls that another thread ends.  What is left of a rank that dies is no leak.
.PHONY: check-threads
check-threads:
	+$(Q)TSAN_OPTIONS=report_thread_leaks=0 $(MAKE) --no-print-directory SAN=thread check-functional \
	    TESTS='tests/functional/collectives.sh tests/functional/collectives_bad.sh tests/functional/nccl.sh'

# ---- manual pages; OPTIONS of ccrun.1 is written by ccrun itself

pages := $(sort $(wildcard man/*.[1-9]))

.PHONY: man
man: $(pages:%=$(OUT)/%)

$(OUT)/man/ccrun.1: man/ccrun.1 $(BIN)/ccrun
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)$(BIN)/ccrun --dump=man >$@.options && \
	    sed -e '/^[.]\\" @OPTIONS@/{r $@.options' -e 'd' -e '}' $< >$@ && rm $@.options

$(OUT)/man/%: man/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# ---- installation

bindir = $(DESTDIR)$(PREFIX)/bin
mandir = $(DESTDIR)$(PREFIX)/share/man
libdir = $(DESTDIR)$(LIBDIR)
includedir = $(DESTDIR)$(PREFIX)/include
bash_completions = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zsh_completions  = $(DESTDIR)$(ZSH_COMPLETIONS)
fish_completions = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
completions := $(OUT)/completions/ccrun.bash $(OUT)/completions/_ccrun $(OUT)/completions/ccrun.fish

$(OUT)/completions/ccrun.bash: dump = bash
$(OUT)/completions/_ccrun: dump = zsh
$(OUT)/completions/ccrun.fish: dump = fish
$(completions): $(BIN)/ccrun
	@mkdir -p $(@D)
	$(Q)$(BIN)/ccrun --dump=$(dump) >$@.new && mv $@.new $@

all: man $(completions) # so that `sudo make install` makes nothing in the user's build folder

# install-programs is what runs jobs; install is that, and what others are built with.
.PHONY: install install-programs uninstall
page_dirs = $(addprefix $(mandir)/man,$(sort $(subst .,,$(suffix $(1)))))
put_pages = $(foreach page,$(1),install -m 644 $(OUT)/$(page) $(mandir)/man$(subst .,,$(suffix $(page)))/ &&) :

install-programs: $(programs) $(completions) man
	$(Q)install -d $(bindir) $(bash_completions) $(zsh_completions) $(fish_completions) $(call page_dirs,$(filter-out %.3,$(pages)))
	$(Q)install -m 755 $(programs) $(bindir)
	$(Q)$(call put_pages,$(filter-out %.3,$(pages)))
	$(Q)install -m 644 $(OUT)/completions/ccrun.bash $(bash_completions)/ccrun
	$(Q)install -m 644 $(OUT)/completions/_ccrun $(zsh_completions)
	$(Q)install -m 644 $(OUT)/completions/ccrun.fish $(fish_completions)

install: install-programs libraries
	$(Q)install -d $(includedir) $(libdir)/pkgconfig $(if $(plugins),$(libdir)/ccrun) $(call page_dirs,$(filter %.3,$(pages)))
	$(Q)install -m 644 backends/ccrun.h $(includedir)
	$(Q)install -m 644 $(LIB)/libccrun.a $(libdir)
	$(Q)install -m 755 $(LIB)/libccrun.so $(libdir)/$(soname) && ln -sf $(soname) $(libdir)/libccrun.so
	$(Q)$(if $(plugins),install -m 755 $(plugins) $(libdir)/ccrun)
	$(Q)$(pc_file) >$(libdir)/pkgconfig/ccrun.pc && chmod 644 $(libdir)/pkgconfig/ccrun.pc
	$(Q)$(call put_pages,$(filter %.3,$(pages)))

# Whatever a build with other libraries has installed, too.  Folders of a prefix that may be anybody's stay; so do those in use.
uninstall:
	$(Q)rm -f $(addprefix $(bindir)/,ccrun ccrun-store ccrun-pmix $(notdir $(programs))) $(includedir)/ccrun.h \
	    $(addprefix $(libdir)/,libccrun.a libccrun.so $(soname) pkgconfig/ccrun.pc ccrun/libccrun-*.so) \
	    $(bash_completions)/ccrun $(zsh_completions)/_ccrun $(fish_completions)/ccrun.fish \
	    $(foreach page,$(pages),$(mandir)/man$(subst .,,$(suffix $(page)))/$(notdir $(page)))
	$(Q)for dir in $(libdir)/ccrun $(libdir)/pkgconfig $(call page_dirs,$(pages)) $(foreach d,$(bash_completions) $(zsh_completions) \
	    $(fish_completions),$(d) $(dir $(d))); do [ ! -d $$dir ] || rmdir --ignore-fail-on-non-empty $$dir; done

# ---- what is handed on: a tarball, Debian packages, a Python wheel; into build/release

.PHONY: dist release
dist:
	$(Q)scripts/release -o $(BUILD) tarball

release:
	$(Q)scripts/bootstrap build release torch
	$(Q)scripts/release -o $(BUILD)/release tarball deb wheel

# In minimal systems, which are made once and kept: what is handed on, and README's commands on a fresh clone (WALK, WALK_COMMANDS).
.PHONY: check-release check-walk
root_cache = ROOT_CACHE="$$(mkdir -p $(BUILD)/roots && cd $(BUILD)/roots && pwd)"
check-release: release $(helpers)
	$(Q)$(test_env) $(root_cache) RELEASE="$$(cd $(BUILD)/release && pwd)" CCRUN_FILE_LIMIT=7200 tests/run release $(call shell_tests,release)

check-walk: $(programs) $(helpers)
	$(Q)scripts/bootstrap release
	$(Q)$(test_env) $(root_cache) CCRUN_FILE_LIMIT=21600 tests/run walk $(call shell_tests,walk)

.PHONY: clean
clean:
	$(Q)rm -rf $(BUILD)

.SECONDARY: # objects of helpers are not intermediate files

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
