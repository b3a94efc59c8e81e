# make            build/release/latentd
# make run        install what is missing, build, serve the demo model on port 8080
# make test       every test              ONLY=cache  those whose path holds it
# make test-clients  OpenAI's libraries, LangChain, lm-evaluation-harness, curl, wrk ..
# make lint       layers, sizes, globals, format; clang's and aarch64's opinion
# make fuzz       build/fuzz/fuzz_*       make fuzz-run FUZZ_SECONDS=60
# make MODE=asan test        address + undefined sanitizers
# make MODE=tsan test-tsan   thread sanitizer: clang + Archer
# make test-aarch64          built for aarch64, run under qemu
# make install PREFIX=/usr/local DESTDIR=
#
# One build folder per mode; when the flags of a mode change, it is built again.
# Flags of single files live in ISA and OPT, not in CFLAGS, so that
# `make CFLAGS=...` cannot delete them.  V=1 shows the commands.

MODE   ?= release
B      := build/$(MODE)
PREFIX ?= /usr/local
ONLY   ?= .
FUZZ_SECONDS ?= 60
CC     := gcc
PKG_CONFIG ?= pkg-config
Q      := $(if $(V),,@)
say     = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# Another architecture is built against its own libraries, which lie in ROOT
# (tools/foreign-root), and run under qemu.  Natively ROOT is empty.
ifeq ($(MODE),aarch64)
TRIPLET := aarch64-linux-gnu
ROOT    := $(CURDIR)/$(B)/root
CC      := $(TRIPLET)-gcc --sysroot=$(ROOT)
AR      := $(TRIPLET)-ar
PKG_CONFIG := PKG_CONFIG_LIBDIR=$(ROOT)/usr/lib/$(TRIPLET)/pkgconfig:$(ROOT)/usr/share/pkgconfig \
              PKG_CONFIG_SYSROOT_DIR=$(ROOT) pkg-config
RUNNER  := qemu-aarch64 -L $(ROOT)
else
TRIPLET := $(shell gcc -dumpmachine)
endif
MACHINE := $(firstword $(subst -, ,$(TRIPLET)))

# openblas-serial starts no threads of its own and has no .pc under its own
# name, so it is linked by its folder; elsewhere than on Debian, what pkg-config
# calls openblas is taken.
PC_NAMES := libuv jansson libpcre2-8 libutf8proc hwloc openssl libsystemd
BLAS_DIR := $(wildcard $(ROOT)/usr/lib/$(TRIPLET)/openblas-serial)
ifneq ($(BLAS_DIR),)
BLAS_CFLAGS := -isystem $(ROOT)/usr/include/$(TRIPLET)/openblas-serial
BLAS_LIBS   := -L$(BLAS_DIR) -l:libopenblas.a
else
BLAS_CFLAGS := $(shell $(PKG_CONFIG) --cflags openblas 2>/dev/null)
BLAS_LIBS   := $(shell $(PKG_CONFIG) --libs openblas 2>/dev/null)
endif
LLHTTP := /usr/share/llhttp

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wpointer-arith -Wvla -Wundef -Werror
INCLUDE := -I. -I/usr/share/include/llhttp $(BLAS_CFLAGS) $(shell $(PKG_CONFIG) --cflags $(PC_NAMES) 2>/dev/null)
STD  := -std=gnu11 $(INCLUDE) -fopenmp -ffp-contract=off -D_GNU_SOURCE
LIBS := $(shell $(PKG_CONFIG) --libs $(PC_NAMES) 2>/dev/null) $(BLAS_LIBS) -lm -lpthread

FLAGS_release := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
FLAGS_aarch64 := $(FLAGS_release)
FLAGS_debug   := -O0 -g3 -DLATENTD_DEBUG
# Two of gcc's warnings follow the flow of values; the checks that the sanitizers
# put in between make them see what is not there.  The other modes keep them.
FLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
                 -Wno-format-truncation -Wno-maybe-uninitialized
FLAGS_tsan    := -O1 -g -fsanitize=thread
FLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer
ifeq ($(FLAGS_$(MODE)),)
$(error MODE=$(MODE) is not one of release, debug, asan, tsan, fuzz, aarch64)
endif
ifeq ($(MODE),tsan)
# A race report means something only with clang, libomp and Archer together:
# libgomp's own waiting looks like a race to the sanitizer.
CC := clang
export OMP_TOOL_LIBRARIES := $(firstword $(wildcard /usr/lib/llvm-*/lib/libarcher.so))
export TSAN_OPTIONS := ignore_noninstrumented_modules=1
endif
ifeq ($(MODE),fuzz)
CC := clang
endif
FLAGS := $(FLAGS_$(MODE))

# Kernels of another architecture are no part of this one's build.
FOLDERS := base parallel cache attention model server bench
FOREIGN := $(if $(filter x86_64,$(MACHINE)),%_neon.c,%_avx2.c %_avx512.c %_avx512bf16.c %_amx.c)
ALL_SRC := $(sort $(wildcard $(FOLDERS:%=%/*.c)))
SRC     := $(filter-out $(FOREIGN),$(ALL_SRC))
HEADERS := $(wildcard $(FOLDERS:%=%/*.h) tests/*/*.h)
MAIN    := server/main.c
OBJ     := $(patsubst %.c,$(B)/%.o,$(filter-out $(MAIN),$(SRC)))
LLHTTP_OBJ := $(B)/llhttp/api.o $(B)/llhttp/http.o $(B)/llhttp/llhttp.o
LIB     := $(B)/liblatentd.a
TEST_SRC := $(sort $(wildcard tests/*/test_*.c))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
TESTS   := $(TEST_SRC:%.c=$(B)/%)

# The demo model travels inside the binary.
DEMO := $(wildcard $(addprefix models/demo-mlra-4/,config.json model.safetensors tokenizer.json \
          tokenizer_config.json generation_config.json chat_template.jinja)) web/index.html

all: $(B)/latentd

# One body, one build per instruction set: only these files get the flags.
ifeq ($(MACHINE),x86_64)
%_avx2.o %_avx2.ok: ISA := -mavx2 -mfma -mf16c -ffp-contract=fast
%_avx512.o %_avx512.ok: ISA := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c \
    -mprefer-vector-width=512 -ffp-contract=fast
%_avx512bf16.o %_avx512bf16.ok: ISA := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx512vnni -mavx512bf16 \
    -mfma -mf16c -mprefer-vector-width=512 -ffp-contract=fast
%_amx.o %_amx.ok: ISA := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 \
    -mamx-bf16 -mfma -mf16c -mprefer-vector-width=512 -ffp-contract=fast
endif
# The hot bodies are written for the vectoriser.
ifneq ($(filter release aarch64,$(MODE)),)
$(B)/attention/kernels%.o: OPT := -O3
endif

# A file that changes exactly when its text would: what is built from it is built
# again after a change of flags, or of the list of embedded files.
quoted = '$(subst ','\'',$(1))'
define stamp
	@mkdir -p $(@D)
	@printf '%s\n' $(call quoted,$(1)) | cmp -s - $@ || printf '%s\n' $(call quoted,$(1)) > $@
endef
$(B)/flags: FORCE
	$(call stamp,$(CC) $(STD) $(WARN) $(FLAGS) $(CFLAGS))
$(B)/embedded: FORCE
	$(call stamp,$(DEMO))

$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(STD) $(WARN) -MMD -MP $(FLAGS) $(OPT) $(ISA) $(CFLAGS) -c $< -o $@

# Debian's generated C, not ours: compiled as it is, without our warnings.
$(B)/llhttp/%.o: $(LLHTTP)/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -std=gnu11 $(FLAGS) -DLLHTTP_STRICT_MODE=1 -I/usr/share/include/llhttp -c $< -o $@

$(B)/embedded_data.S: tools/embed $(DEMO) $(B)/embedded
	$(call say,EMBED,'$(words $(DEMO)) files')
	$(Q)tools/embed $(DEMO) > $@
$(B)/embedded_data.o: $(B)/embedded_data.S
	$(Q)$(CC) -c $< -o $@

$(LIB): $(OBJ) $(LLHTTP_OBJ) $(B)/embedded_data.o
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/latentd: $(B)/server/main.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(FLAGS) -fopenmp $^ $(LIBS) -o $@

$(B)/tests/fuzz/%: $(B)/tests/fuzz/%.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(FLAGS) -fsanitize=fuzzer -fopenmp $^ $(LIBS) -o $@

$(B)/tests/%: $(B)/tests/%.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(FLAGS) -fopenmp $^ $(LIBS) -lcmocka -o $@

deps deps-lint deps-tsan deps-fuzz deps-clients deps-aarch64:
	@tools/install-deps build $(patsubst deps-%,%,$(filter-out deps,$@))

# What is missing is installed before make reads the rest once more with it there.
run: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tools/run $(B)/latentd

test: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all tests
	@tests/run $(B) --only '$(ONLY)'

tests: $(TESTS)

# One real chat model in three forms, and its replies against llama.cpp's.
demo-chat: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tools/demo-chat/run $(B)/latentd
demo-chat-check: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@tools/demo-chat/check $(B)/latentd

# docs/PERFORMANCE.md, measured anew; a quiet machine and some 15 minutes.
performance: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@bench/report

# The standard report; its plots use uPlot where npm is there, else plain SVG.
compare: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@mkdir -p build/vendor
	@test -d build/vendor/package || ! command -v npm > /dev/null || \
	    (cd build/vendor && npm pack --silent uplot@1.6.32 > /dev/null && tar xzf uplot-1.6.32.tgz)
	@$(B)/latentd compare --html build/compare.html \
	    $(if $(shell command -v npm),--chart-library build/vendor/package/dist)

# Programs that others wrote, against the real binary.   CLIENTS_FULL=1 adds real chat templates
test-clients: deps-clients
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@LATENTD_BUILD=$(B) tests/clients/run

# The programs that run threads of ours; scripts would only measure the start-up.
test-tsan: deps-tsan
	@$(MAKE) --no-print-directory MODE=tsan -j$$(nproc) all tests
	@$(MAKE) --no-print-directory MODE=tsan run-tsan
run-tsan:
	@test -n "$$OMP_TOOL_LIBRARIES" || { echo "libarcher.so is missing: package libomp-dev" >&2; exit 1; }
	@TEST_TIMEOUT=3600 tests/run $(B) --only 'test_[^/]*\.c$$' --only '$(ONLY)'

# Plain C on another architecture: what computes, and the golden files and a server
# through the real binary; not what measures time or runs for minutes natively.
AARCH64_TESTS := tests/(base|cache|parallel|attention|model|golden)/|tests/server/(test_(api|body|engine|http|loop|no_malloc|reply|router|s)|cache_save|degrees)
test-aarch64: deps deps-aarch64
	@tools/foreign-root arm64 build/aarch64/root
	@$(MAKE) --no-print-directory MODE=aarch64 -j$$(nproc) all tests
	@$(MAKE) --no-print-directory MODE=aarch64 run-aarch64
run-aarch64:
	@TEST_RUNNER='$(RUNNER)' TEST_TIMEOUT=1200 tests/run $(B) --only '$(AARCH64_TESTS)' --only '$(ONLY)'

fuzz: deps-fuzz
	@$(MAKE) --no-print-directory MODE=fuzz -j$$(nproc) fuzz-programs
fuzz-programs: $(FUZZ_SRC:%.c=$(B)/%)
	@for f in $^; do ln -f $$f $(B)/; done
fuzz-run: fuzz
	@tests/fuzz/run build/fuzz $(FUZZ_SECONDS)

# --- lint: every source file as clang reads it, and as gcc for aarch64 does ---
LINT  := build/lint
CLANG_OK := $(patsubst %.c,$(LINT)/clang/%.ok,$(SRC) $(TEST_SRC) $(FUZZ_SRC))
CROSS := aarch64-linux-gnu-gcc
CROSS_OK := $(if $(shell command -v $(CROSS)),$(patsubst %.c,$(LINT)/cross/%.ok, \
              $(filter-out %_avx2.c %_avx512.c %_avx512bf16.c %_amx.c,$(ALL_SRC))))

lint: deps-lint
	@$(MAKE) --no-print-directory -k -j$$(nproc) lint-text lint-clang lint-cross lint-globals
	@echo "lint: clean"
lint-text:
	@tools/lint/layers.sh
	@tools/lint/longest.sh 100 $(ALL_SRC) $(TEST_SRC) $(FUZZ_SRC)
	@tools/lint/format.sh
lint-clang: $(CLANG_OK)
	@:
lint-cross: $(CROSS_OK)
	@:
lint-globals: $(OBJ) $(B)/server/main.o
	@tools/lint/globals.sh $^

$(LINT)/clang/%.ok: %.c $(HEADERS) Makefile
	@mkdir -p $(@D)
	$(Q)clang $(STD) $(WARN) $(ISA) -fsyntax-only $< && touch $@
# Headers that lie in the folder of this machine's architecture only (OpenSSL's) come last.
$(LINT)/cross/%.ok: %.c $(HEADERS) Makefile
	@mkdir -p $(@D)
	$(Q)$(CROSS) $(STD) $(WARN) -idirafter /usr/include/$(TRIPLET) -fsyntax-only $< && touch $@

install: all
	install -D -m 755 $(B)/latentd $(DESTDIR)$(PREFIX)/bin/latentd

clean:
	rm -rf build

FORCE:
.PHONY: all deps deps-lint deps-tsan deps-fuzz deps-clients deps-aarch64 run test tests test-clients test-tsan run-tsan \
        test-aarch64 run-aarch64 \
        fuzz fuzz-programs fuzz-run performance compare demo-chat demo-chat-check \
        lint lint-text lint-clang lint-cross lint-globals install clean FORCE
.SECONDARY:
-include $(patsubst %.c,$(B)/%.d,$(SRC) $(TEST_SRC)) $(patsubst %.c,$(B)/%.d,$(FUZZ_SRC))
