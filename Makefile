# make            build/release/latentd        make run    install what is missing, build, serve
# make test       every test                   make lint   layers, sizes, globals, format
# make MODE=asan test       address + undefined sanitizers
# make MODE=tsan test-tsan  thread sanitizer: clang + Archer (docs/TESTING.md)
# make install PREFIX=/usr/local DESTDIR=
#
# One build folder per mode; flags of single files live in ISA and NOWARN, not
# in CFLAGS, so that `make CFLAGS=...` cannot delete them.

MODE   ?= release
B      := build/$(MODE)
PREFIX ?= /usr/local
CC     := gcc
PKG_CONFIG ?= pkg-config

FOLDERS := base parallel cache attention model server bench
MACHINE := $(shell $(CC) -dumpmachine | cut -d- -f1)

PACKAGES := libuv jansson libpcre2-8 libutf8proc hwloc openblas-serial openssl libsystemd
# openblas-serial has no .pc of that name: the serial flavour starts no threads
# of its own (docs/decisions/0003), so it is linked by its folder.
PC_NAMES := libuv jansson libpcre2-8 libutf8proc hwloc openssl libsystemd
BLAS_DIR := $(firstword $(wildcard /usr/lib/*/openblas-serial))
LLHTTP   := /usr/share/llhttp

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wpointer-arith -Wvla -Wundef -Werror
STD  := -std=gnu11 -I. -I/usr/share/include/llhttp -isystem $(BLAS_DIR)/../../../include/$(MACHINE)-linux-gnu \
        $(shell $(PKG_CONFIG) --cflags $(PC_NAMES) 2>/dev/null) -MMD -MP -fopenmp -ffp-contract=off -D_GNU_SOURCE
LIBS := $(shell $(PKG_CONFIG) --libs $(PC_NAMES) 2>/dev/null) -L$(BLAS_DIR) -l:libopenblas.a -lm -lpthread

FLAGS_release := -O2 -g
FLAGS_debug   := -O0 -g3 -DLATENTD_DEBUG
FLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAGS_tsan    := -O1 -g -fsanitize=thread
ifeq ($(MODE),tsan)
CC := clang
export OMP_TOOL_LIBRARIES := $(firstword $(wildcard /usr/lib/llvm-*/lib/libarcher.so))
export TSAN_OPTIONS := ignore_noninstrumented_modules=1
endif
FLAGS := $(FLAGS_$(MODE))

SRC    := $(sort $(wildcard $(FOLDERS:%=%/*.c)))
MAIN   := server/main.c
HEADERS := $(wildcard $(FOLDERS:%=%/*.h))
OBJ    := $(patsubst %.c,$(B)/%.o,$(filter-out $(MAIN),$(SRC)))
LLHTTP_OBJ := $(B)/llhttp/api.o $(B)/llhttp/http.o $(B)/llhttp/llhttp.o
LIB    := $(B)/liblatentd.a
TESTS  := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/*/test_*.c)))

all: $(B)/latentd

# One body, one build per instruction set: only these files get the flags.
ifneq ($(filter x86_64,$(MACHINE)),)
$(B)/%_avx2.o:   ISA := -mavx2 -mfma -mf16c -ffp-contract=fast
$(B)/%_avx512.o: ISA := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c -mprefer-vector-width=512 -ffp-contract=fast
$(B)/%_avx512bf16.o: ISA := -mavx512f -mavx512vl -mavx512bw -mavx512dq -mavx512vnni -mavx512bf16 -mfma -mf16c -mprefer-vector-width=512 -ffp-contract=fast
endif
# The hot bodies are written for the vectoriser.
$(B)/attention/kernels%.o: OPT := -O3
$(B)/model/kernels%.o:     OPT := -O3

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(WARN) $(FLAGS) $(OPT) $(ISA) $(CFLAGS) -c $< -o $@

# Debian's generated C, not ours: compiled as it is, without our warnings.
$(B)/llhttp/%.o: $(LLHTTP)/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(FLAGS) -I/usr/share/include/llhttp -c $< -o $@

$(LIB): $(OBJ) $(LLHTTP_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(B)/latentd: $(B)/server/main.o $(LIB)
	$(CC) $(FLAGS) -fopenmp $^ $(LIBS) -o $@

$(B)/tests/%: $(B)/tests/%.o $(LIB)
	$(CC) $(FLAGS) -fopenmp $^ $(LIBS) -lcmocka -o $@

deps:
	@tools/install-deps

run: deps
	@$(MAKE) --no-print-directory all
	@tools/run $(B)/latentd

test: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all tests
	@tests/run $(B)

tests: $(TESTS)

lint:
	@tools/lint/layers.sh
	@tools/lint/longest.sh 100 $(SRC)
	@tools/lint/globals.sh $(SRC)
	@tools/lint/format.sh

install: all
	install -D -m 755 $(B)/latentd $(DESTDIR)$(PREFIX)/bin/latentd

clean:
	rm -rf build

.PHONY: all deps run test tests lint install clean
.SECONDARY:
-include $(patsubst %.c,$(B)/%.d,$(SRC)) $(TESTS:=.d)
