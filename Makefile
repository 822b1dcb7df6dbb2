# SPDX-License-Identifier: Apache-2.0
# One file builds everything. `make help` lists the targets.
# Rooms: gen/ -> libmlagen + mlagen, runtime/ -> libmla, tests/vgpu/ ->
# libvgpu.so, tests/numerics/ -> mlagen-run-check.  Sources are picked up by
# wildcard; every object depends on the headers it includes (-MMD).

ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

CC      ?= gcc
B       := build
PREFIX  ?= /usr/local
VERSION := $(shell cat VERSION)
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
           -Wmissing-prototypes -Wpointer-arith
# The floor of what may run our binaries is the machine that builds them: the
# virtual GPU wants the widest vectors there are.
VGPU_MARCH ?= native
CFLAGS  ?= -O2 -g
BASE    := -std=c11 -D_GNU_SOURCE -DMLAGEN_VERSION='"$(VERSION)"' -fPIC \
           -fvisibility=hidden -MMD -MP $(WARN) $(CFLAGS) $(SANITIZE)
LUA_CFLAGS ?= -I/usr/include/lua5.4
GEN_LIBS := -l:liblua5.4.a -l:libyaml.a -l:libjansson.a -l:libcrypto.a -lm -ldl \
            -lpthread
MLA_LIBS := -l:libcrypto.a -ldl -lpthread -lm

GEN_SRC  := $(filter-out gen/main.c,$(wildcard gen/*.c))
RUN_SRC  := $(wildcard runtime/src/*.c)
VGPU_SRC := $(wildcard tests/vgpu/*.c)
NUM_SRC  := $(filter-out tests/numerics/main.c,$(wildcard tests/numerics/*.c))
obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
UNIT := $(foreach r,gen vgpu runtime numerics,$(patsubst \
        tests/unit/$(r)/%.c,$(B)/tests/$(r)/%,$(wildcard \
        tests/unit/$(r)/test_*.c)))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/mlagen $(B)/libmla.so $(B)/libvgpu.so $(B)/mlagen-run-check ## build all

# --- rooms ------------------------------------------------------------------
$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(ROOM_CFLAGS) -c $< -o $@

$(B)/obj/gen/%.o: ROOM_CFLAGS = $(LUA_CFLAGS) -Igen
$(B)/obj/runtime/%.o: ROOM_CFLAGS = -Iruntime/include -Iruntime/src
$(B)/obj/tests/vgpu/%.o: ROOM_CFLAGS = -O3 -march=$(VGPU_MARCH) -Itests/vgpu \
    -ffp-contract=off -fno-strict-aliasing -fno-trapping-math -fno-math-errno
$(B)/obj/tests/numerics/%.o: ROOM_CFLAGS = -O3 -Iruntime/include -Iruntime/src \
    -Itests/numerics -Itests/vgpu
$(B)/obj/tests/unit/%.o: ROOM_CFLAGS = $(LUA_CFLAGS) -Igen -Iruntime/include \
    -Iruntime/src -Itests/vgpu -Itests/numerics -Itests/unit \
    -Wno-format-truncation
$(B)/obj/tests/unit/numerics/%.o: ROOM_CFLAGS = -Iruntime/include \
    -Itests/numerics -Iruntime/src -Itests/vgpu -Itests/unit

DATA := $(sort $(shell find templates specs -type f \
          \( -name '*.lua' -o -name '*.tpl' -o -name '*.yaml' \)))
$(B)/embed: gen/tools/embed.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -O1 $< -o $@
$(B)/gen/embedded.c: $(B)/embed $(DATA)
	@mkdir -p $(@D)
	$(B)/embed $(DATA) > $@
$(B)/obj/gen/embedded.o: $(B)/gen/embedded.c
	@mkdir -p $(@D)
	$(CC) $(BASE) -Igen -c $< -o $@

$(B)/libmlagen.a: $(call obj,$(GEN_SRC)) $(B)/obj/gen/embedded.o
	rm -f $@ && ar rcs $@ $^
$(B)/mlagen: $(call obj,gen/main.c) $(B)/libmlagen.a
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(GEN_LIBS) -o $@
$(B)/libmla.a: $(call obj,$(RUN_SRC))
	rm -f $@ && ar rcs $@ $^
# The first number of VERSION is the ABI: it is in the SONAME and in mla.h.
$(B)/libmla.so: $(call obj,$(RUN_SRC)) runtime/libmla.map
	$(CC) $(CFLAGS) $(SANITIZE) -shared \
	    -Wl,-soname,libmla.so.$(firstword $(subst ., ,$(VERSION))) \
	    -Wl,--version-script=runtime/libmla.map $(filter %.o,$^) \
	    -Wl,--exclude-libs,ALL $(MLA_LIBS) -o $@
$(B)/libvgpu.so: $(call obj,$(VGPU_SRC))
	$(CC) $(CFLAGS) $(SANITIZE) -shared $^ -lm -lpthread -o $@
$(B)/libvgpu.a: $(call obj,$(VGPU_SRC))
	rm -f $@ && ar rcs $@ $^
$(B)/libnumerics.a: $(call obj,$(NUM_SRC))
	rm -f $@ && ar rcs $@ $^
$(B)/mlagen-run-check: $(call obj,tests/numerics/main.c) $(B)/libnumerics.a \
    $(B)/libmla.a
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(MLA_LIBS) -o $@
$(B)/obj/tests/bench/kernel_%.o: ROOM_CFLAGS = -Iruntime/include \
    -Itests/numerics -Iruntime/src
$(B)/kernel-bench: $(call obj,$(wildcard tests/bench/kernel_*.c)) \
    $(B)/libnumerics.a $(B)/libmla.a
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(MLA_LIBS) -o $@
$(B)/obj/tests/bench/hopper_%.o: ROOM_CFLAGS = -Iruntime/include \
    -Itests/numerics -Iruntime/src
$(B)/hopper-bench: $(call obj,tests/bench/hopper_bench.c \
    tests/bench/kernel_traffic.c tests/bench/kernel_compile.c) \
    $(B)/libnumerics.a $(B)/libmla.a
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(MLA_LIBS) -o $@

# What runs on a GPU: gpu-bench measures, gpu-trace compares two drivers.
$(B)/obj/tests/gpu/%.o: ROOM_CFLAGS = -Iruntime/include -Itests/numerics \
    -Iruntime/src
$(B)/gpu-bench: $(call obj,$(filter-out %/trace.c,$(wildcard \
    tests/gpu/*.c))) $(B)/libnumerics.a $(B)/libmla.a
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(MLA_LIBS) -o $@
$(B)/gpu-trace: $(call obj,tests/gpu/trace.c)
	$(CC) $(CFLAGS) $(SANITIZE) $^ -o $@

$(B)/obj/tests/mutation/%.o: ROOM_CFLAGS = -Iruntime/include \
    -Itests/numerics -Iruntime/src
$(B)/mutation: $(call obj,$(wildcard tests/mutation/*.c)) \
    $(B)/libnumerics.a $(B)/libmla.a
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(MLA_LIBS) -o $@

$(B)/obj/tests/bench/pool_%.o: ROOM_CFLAGS = -Iruntime/include
$(B)/obj/tests/bench/dispatch_%.o: ROOM_CFLAGS = -Iruntime/include
$(B)/obj/tests/bench/start_%.o: ROOM_CFLAGS = -Iruntime/include -Iruntime/src
$(B)/%-bench: $(B)/obj/tests/bench/%_bench.o $(B)/libmla.a
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(MLA_LIBS) -o $@

# --- examples ---------------------------------------------------------------
# vendored.c is built from what `mlagen bundle` leaves and nothing else of us.
EX := $(B)/examples
examples: $(EX)/serve-start $(EX)/vendored ## build the example programs

$(B)/obj/runtime/examples/%.o: ROOM_CFLAGS = -Iruntime/include -Igen -I$(EX)
$(EX)/kernels.h: $(B)/mlagen
	@mkdir -p $(@D)
	$(B)/mlagen build x-ecomla-smollm-135m --arch sm_80 -o $(EX)/kernels -q
	$(B)/mlagen bundle $(EX)/kernels -o $(EX)/kernels --cubins --ptx -q
	touch $@
$(B)/obj/runtime/examples/vendored.o: $(EX)/kernels.h
$(EX)/vendored: $(call obj,runtime/examples/vendored.c \
    runtime/examples/step.c)
	$(CC) $(CFLAGS) $(SANITIZE) $^ -lm -ldl -o $@
$(EX)/serve-start: $(call obj,runtime/examples/serve_start.c \
    runtime/examples/step.c) $(B)/libmlagen.a $(B)/libmla.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SANITIZE) $^ $(GEN_LIBS) -o $@

# --- tests ------------------------------------------------------------------
$(B)/tests/gen/%: $(B)/obj/tests/unit/gen/%.o $(B)/libmlagen.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SANITIZE) $^ -lcmocka $(GEN_LIBS) -o $@
$(B)/tests/vgpu/%: $(B)/obj/tests/unit/vgpu/%.o $(B)/libvgpu.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SANITIZE) $^ -lcmocka -ldl -lm -lpthread -o $@
$(B)/tests/runtime/%: $(B)/obj/tests/unit/runtime/%.o $(B)/libmla.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SANITIZE) $^ -lcmocka $(MLA_LIBS) -o $@
$(B)/tests/numerics/%: $(B)/obj/tests/unit/numerics/%.o $(B)/libnumerics.a \
    $(B)/libmla.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SANITIZE) $^ -lcmocka $(MLA_LIBS) -o $@

# Fuzz targets; here they replay the corpus.  To search for new faults, link
# fuzz_X.c without replay.c by clang -fsanitize=fuzzer,address.
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz/%,$(wildcard \
        tests/fuzz/fuzz_*.c))
$(B)/tests/fuzz/%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(B)/libmlagen.a
	@mkdir -p $(@D)
	$(CC) $(BASE) $(LUA_CFLAGS) -Igen \
	    -DFUZZ_CORPUS='"tests/fuzz/corpus/$*"' $(filter-out %.h,$^) \
	    $(GEN_LIBS) -o $@

# Those of the runtime; tests/fuzz/manifest.dict has words for -dict.
FUZZ_MLA := manifest bundle
$(FUZZ_MLA:%=$(B)/tests/fuzz/%): $(B)/tests/fuzz/%: tests/fuzz/fuzz_%.c \
    tests/fuzz/replay.c $(B)/libmla.a
	@mkdir -p $(@D)
	$(CC) $(BASE) -Iruntime/include -Iruntime/src -Itests/unit \
	    -Itests/unit/runtime -DFUZZ_CORPUS='"tests/fuzz/corpus/$*"' \
	    $(filter-out %.h,$^) $(MLA_LIBS) -o $@

# A test program or script prints TAP; tests/tap.sh adds them up.
MODELS   := $(filter-out schema arch arch.schema,$(patsubst \
            specs/%.yaml,%,$(wildcard specs/*.yaml)))
PROFILES := a100 rtx4090 rtx5090 h200
OUT      := out
# The long ones come first, the longest before them.
TESTS    := tests/matrix/specs.sh $(filter-out tests/matrix/specs.sh,\
            $(sort $(wildcard tests/matrix/*.sh tests/mutation/*.sh))) \
            $(filter-out tests/cli/lib.sh,\
            $(sort $(wildcard tests/house/*.sh tests/cli/*.sh))) \
            $(UNIT) $(FUZZ)

demo: ## set up, build, generate and prove DeepSeek-V3's kernels
	sh scripts/setup.sh
	$(MAKE) all
	$(B)/mlagen build specs/deepseek-v3.yaml -o $(OUT)/deepseek-v3
	$(B)/mlagen plan specs/deepseek-v3.yaml
	$(B)/mlagen run-check $(OUT)/deepseek-v3

check: ## set up and run every test that needs no GPU
	sh scripts/setup.sh
	$(MAKE) check-run

# What tests compile through libmla is kept here, not in the user's own cache.
export MLA_CACHE ?= $(abspath $(B))/cache

# The unit tests once more under ASan and UBSan, in a build of their own.
SAN := $(MAKE) B=$(B)/san CFLAGS="-O1 -g" \
       SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all"
SAN_UNIT := $(patsubst $(B)/%,$(B)/san/%,$(UNIT) $(FUZZ))

# What several threads may enter, under TSan, in a third build.
THREADED := runtime/test_pool runtime/test_cache runtime/test_cache_crowd \
            runtime/test_prepare
TSAN := $(MAKE) B=$(B)/tsan CFLAGS="-O1 -g" SANITIZE=-fsanitize=thread
TSAN_UNIT := $(THREADED:%=$(B)/tsan/tests/%)

# Seconds that one test program may take.
TAP_TIMEOUT ?= 1500

check-run: all examples $(B)/mutation $(B)/gpu-bench $(B)/gpu-trace \
    $(UNIT) $(FUZZ)
	+$(SAN) -s san-unit
	+$(TSAN) -s tsan-unit
	TAP_TIMEOUT=$(TAP_TIMEOUT) sh tests/tap.sh $(TESTS) $(SAN_UNIT) $(TSAN_UNIT)

san-unit: $(UNIT) $(FUZZ)
tsan-unit: $(THREADED:%=$(B)/tests/%)

check-full: ## check, then the wide numeric matrix
	sh scripts/setup.sh
	CASES=full TAP_TIMEOUT=36000 $(MAKE) check-run

bench: all $(B)/kernel-bench $(B)/pool-bench $(B)/dispatch-bench \
    $(B)/start-bench $(B)/hopper-bench ## print the figures
	sh tests/bench/bench.sh

gpu-check: ## on a machine with a GPU: instructions, numerics, speed
	sh scripts/setup.sh
	BUILD=$(abspath $(B)) sh tests/gpu/gpu_check.sh $(GPU_CHECK)

format: ## clang-format the files named by F=
	clang-format -i $(F)

lint: ## style and static checks
	sh scripts/lint.sh

install: all ## install to PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	    $(DESTDIR)$(PREFIX)/include/mlagen
	install $(B)/mlagen $(B)/mlagen-run-check $(DESTDIR)$(PREFIX)/bin
	install $(B)/libmla.so $(DESTDIR)$(PREFIX)/lib/libmla.so.$(VERSION)
	ln -sf libmla.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libmla.so.$(firstword \
	    $(subst ., ,$(VERSION)))
	ln -sf libmla.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libmla.so
	sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@VERSION@,$(VERSION),' \
	    runtime/mla.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/mla.pc
	install $(B)/libvgpu.so $(DESTDIR)$(PREFIX)/lib
	install -m 644 $(B)/libmlagen.a $(B)/libmla.a $(DESTDIR)$(PREFIX)/lib
	install -m 644 runtime/include/mla.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(addprefix gen/,mlagen.h buf.h diag.h folder.h hash.h \
	    outputs.h status.h) $(DESTDIR)$(PREFIX)/include/mlagen

clean: ## remove everything built, but not fetched (build/cuda)
	rm -rf $(B)/obj $(B)/gen $(B)/tests $(B)/embed $(B)/mlagen* $(B)/lib* \
	    $(EX)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n",$$1,$$2}' \
	    Makefile

.PHONY: examples san-unit tsan-unit all demo check check-run check-full \
    bench gpu-check format lint install clean help

-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
