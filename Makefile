# locus: build, test, install. `make help` lists the targets.
#
# Variables: CC, CXX, CFLAGS (added at the end), LDFLAGS, BUILD=build, OPENMP=0 (no threads), WERROR=1,
# SANITIZE=1, PREFIX=/usr/local, DESTDIR, V=1 (show the commands). A change of any rebuilds.
#
# Nothing below runs the compiler or pkg-config before a rule needs it, so that `make demo` and
# `make test` can install them first.

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MODELDIR ?= $(PREFIX)/share/locus/models
OPENMP ?= 1
PKG_CONFIG ?= pkg-config
V ?= 0

VERSION := $(shell sed -n 's/^.define LOCUS_VERSION "\(.*\)"/\1/p' include/locus.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

Q := $(if $(filter 0,$(V)),@)
# $(call say,WHAT): a short line a step, unless V=1 shows the command itself.
say = $(if $(filter 0,$(V)),@printf '  %-5s %s\n' $(1) $@)

# ---- flags -----------------------------------------------------------------------------------

# $(call once,NAME,COMMAND): NAME becomes the output of COMMAND, run when NAME is first used.
once = $(eval $(1) := $$(shell $(2)))$($(1))

OPENMP_TEST = printf '\#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' | \
	$(CC) -fopenmp -x c - -o /dev/null 2>/dev/null && echo -fopenmp
ifeq ($(OPENMP),0)
OPENMP_FLAG :=
else
OPENMP_FLAG = $(call once,OPENMP_FLAG,$(OPENMP_TEST))
endif
MACHINE = $(call once,MACHINE,$(CC) -dumpmachine 2>/dev/null)
PACKAGES := libpcre2-8 libutf8proc zlib
PACKAGES_CFLAGS = $(call once,PACKAGES_CFLAGS,$(PKG_CONFIG) --cflags $(PACKAGES))
PACKAGES_LIBS = $(call once,PACKAGES_LIBS,$(PKG_CONFIG) --libs $(PACKAGES))
CHECK_CFLAGS = $(call once,CHECK_CFLAGS,$(PKG_CONFIG) --cflags check)
CHECK_LIBS = $(call once,CHECK_LIBS,$(PKG_CONFIG) --libs check)

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wwrite-strings -Wpointer-arith -Wundef
OPTIMISE := -O3 -g
ifdef SANITIZE
OPTIMISE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
endif

# The same bits everywhere: no contraction, no fast-math, no -march (src/kernels/kernels.h).
ALL_CFLAGS = $(OPTIMISE) -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off \
	-fno-math-errno $(WARNINGS) $(if $(filter 1,$(WERROR)),-Werror) \
	$(or $(OPENMP_FLAG),-Wno-unknown-pragmas) -Iinclude -Isrc $(PACKAGES_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(OPTIMISE) $(OPENMP_FLAG) $(LDFLAGS)
ALL_LIBS = $(PACKAGES_LIBS) -lm

# Only these files may use more than the baseline instructions; they are reached by dispatch.
ISA_src/kernels/avx2.c := -mavx2 -mfma -mf16c
AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512
ISA_src/kernels/avx512.c := $(AVX512)
ISA_src/kernels/avx512_vnni.c := $(AVX512) -mavx512vnni
ISA_src/kernels/avx512_bf16.c := $(AVX512) -mavx512bf16
ISA_ARM_src/kernels/neon_dot.c := -march=armv8.2-a+dotprod
isa = $(if $(filter x86_64-% amd64-%,$(MACHINE)),$(ISA_$(1)))$(if \
	$(filter aarch64-% arm64-%,$(MACHINE)),$(ISA_ARM_$(1)))

# ---- files -----------------------------------------------------------------------------------

LIB_SOURCES := $(filter-out src/cli/%,$(wildcard src/*/*.c))
CLI_SOURCES := $(wildcard src/cli/*/*.c)
TEST_SOURCES := $(wildcard tests/test_*.c)
MODELS := $(wildcard models/*.gguf)

LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/%.o)
CLI_OBJECTS := $(CLI_SOURCES:%.c=$(BUILD)/%.o)
MAIN_OBJECT := $(BUILD)/src/cli/main.o
TESTING_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/test_%,$(wildcard tests/*.c)))
TEST_OBJECTS := $(TEST_SOURCES:%.c=$(BUILD)/%.o) $(TESTING_OBJECTS)
TESTS := $(TEST_SOURCES:%.c=$(BUILD)/%)

# ---- what people type ------------------------------------------------------------------------

.PHONY: all demo test test-training test-hf properties bench models figures install uninstall format lint asan clean help
.PHONY: FORCE build-tests run-tests
.DEFAULT_GOAL := all

all: $(BUILD)/locus $(BUILD)/liblocus.a $(BUILD)/liblocus.so $(BUILD)/locus.pc ## build the program and the libraries (default)

# As many jobs as cores, when the caller named no number.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(or $(shell getconf _NPROCESSORS_ONLN),1))

demo: ## install what is missing, build, and write a story with the bundled model
	@CC="$(CC)" scripts/setup.sh
	@$(MAKE) --no-print-directory $(JOBS) all
	@echo '$$ $(BUILD)/locus generate -p "Once upon a time" -n 200 --seed 3' >&2
	@$(BUILD)/locus generate -p "Once upon a time" -n 200 --seed 3

test: ## install what is missing, build, and run every test (LOCUS_TEST_DATA=folder for all of them)
	@CC="$(CC)" scripts/setup.sh
	@$(MAKE) --no-print-directory $(JOBS) build-tests
	@$(MAKE) --no-print-directory run-tests

build-tests: all $(TESTS)
	@:

run-tests:
	@CC='$(CC)' SANITIZE_FLAGS='$(filter -fsanitize%,$(OPTIMISE))' tests/run.sh $(BUILD) \
		$(TESTS) $(wildcard tests/test_*.sh)

test-training: all ## train a tiny model under every scheme, if there is PyTorch, and read it with locus
	@tests/run.sh $(BUILD) tests/training.sh

test-hf: all ## convert tiny models of transformers' classes, if they are there, and compare results
	@tests/run.sh $(BUILD) tests/hf.sh

properties: build-tests ## what every scheme, policy and mixer is tested for: parity, bits, shifts, refusals
	@tests/run.sh $(BUILD) $(BUILD)/tests/test_position $(BUILD)/tests/test_mixer_properties

bench: all ## tokens per second of the bundled model, beside what the machine allows
	@$(BUILD)/locus bench

asan: ## run every test under AddressSanitizer and UndefinedBehaviorSanitizer, in build-asan
	@$(MAKE) --no-print-directory BUILD=build-asan SANITIZE=1 test

models: ## train the models of models/ that are not there: make models TEXT="a.txt b.txt" EVAL="c.txt"
	@scripts/make_models.sh

figures: all ## draw the README's figures again, from the models of models/
	@LOCUS=$(BUILD)/locus scripts/figures.sh

install: all ## install under PREFIX (/usr/local), into DESTDIR if that is set
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(MODELDIR)
	install -m 755 $(BUILD)/locus $(DESTDIR)$(BINDIR)/locus
	install -m 644 $(BUILD)/liblocus.a $(DESTDIR)$(LIBDIR)/liblocus.a
	install -m 755 $(BUILD)/liblocus.so $(DESTDIR)$(LIBDIR)/liblocus.so.$(VERSION)
	ln -sf liblocus.so.$(VERSION) $(DESTDIR)$(LIBDIR)/liblocus.so.$(SOVERSION)
	ln -sf liblocus.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/liblocus.so
	install -m 644 $(BUILD)/locus.pc $(DESTDIR)$(LIBDIR)/pkgconfig/locus.pc
	install -m 644 include/locus.h include/locus_position.h $(DESTDIR)$(INCLUDEDIR)
	$(if $(MODELS),install -m 644 $(MODELS) $(DESTDIR)$(MODELDIR))
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(BINDIR)/locus $(DESTDIR)$(LIBDIR)/liblocus.a $(DESTDIR)$(LIBDIR)/liblocus.so \
		$(DESTDIR)$(LIBDIR)/liblocus.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/liblocus.so.$(VERSION) \
		$(DESTDIR)$(LIBDIR)/pkgconfig/locus.pc $(DESTDIR)$(INCLUDEDIR)/locus.h \
		$(DESTDIR)$(INCLUDEDIR)/locus_position.h $(MODELS:models/%=$(DESTDIR)$(MODELDIR)/%)
	-rmdir $(DESTDIR)$(MODELDIR) $(DESTDIR)$(dir $(MODELDIR))

format: ## let clang-format lay out every C file
	clang-format -i $(wildcard include/*.h src/*/*.[ch] src/cli/*/*.[ch] tests/*.[ch])

lint: ## formatting, include order, rules of the house, cppcheck, clang-tidy, ruff, shellcheck
	@scripts/lint.sh

clean: ## remove what was built
	rm -rf build build-* $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

# ---- rules -----------------------------------------------------------------------------------

# $(call update,TEXT): writes TEXT to the target if it isn't there already.
update = mkdir -p $(@D); printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) > $@

# What the objects were made with: rewritten, and everything rebuilt, when it changes.
$(BUILD)/flags: FORCE
	@command -v $(firstword $(CC)) >/dev/null || \
		{ echo "make: no compiler '$(firstword $(CC))': run scripts/setup.sh" >&2; exit 1; }
	@for package in $(PACKAGES); do $(PKG_CONFIG) --exists $$package || \
		{ echo "make: pkg-config finds no $$package: run scripts/setup.sh" >&2; exit 1; }; done
	@$(call update,'$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(ALL_LIBS) $(MACHINE)')
	$(if $(filter 0,$(OPENMP)),,$(if $(OPENMP_FLAG),, \
		@echo "note: $(CC) can't build with OpenMP here (clang: libomp-dev): one thread only"))

# What the archives are made of: a source that is gone leaves them too.
$(BUILD)/sources: FORCE
	@$(call update,$(LIB_SOURCES) $(CLI_SOURCES) $(TESTING_OBJECTS))

$(BUILD)/src/%.o: src/%.c $(BUILD)/flags
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(call isa,$<) -MMD -MP -c $< -o $@

$(BUILD)/tests/%.o: tests/%.c $(BUILD)/flags
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Itests $(CHECK_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/liblocus.a: $(LIB_OBJECTS)
$(BUILD)/libcli.a: $(CLI_OBJECTS)
$(BUILD)/libtesting.a: $(TESTING_OBJECTS)
$(BUILD)/%.a: $(BUILD)/sources
	$(call say,AR)
	@mkdir -p $(@D) && rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/liblocus.so: $(LIB_OBJECTS) $(BUILD)/sources
	$(call say,LINK)
	$(Q)$(CC) -shared -Wl,-soname,liblocus.so.$(SOVERSION) $(if $(SANITIZE),,-Wl,--no-undefined) \
		$(LIB_OBJECTS) $(ALL_LDFLAGS) $(ALL_LIBS) -o $@
	@ln -sf liblocus.so $(BUILD)/liblocus.so.$(SOVERSION)

$(BUILD)/locus: $(MAIN_OBJECT) $(BUILD)/libcli.a $(BUILD)/liblocus.a
	$(call say,LINK)
	$(Q)$(CC) $^ $(ALL_LDFLAGS) $(ALL_LIBS) -o $@

$(TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libtesting.a $(BUILD)/libcli.a $(BUILD)/liblocus.a
	$(call say,LINK)
	$(Q)$(CC) $^ $(ALL_LDFLAGS) $(CHECK_LIBS) $(ALL_LIBS) -o $@

$(BUILD)/locus.pc: FORCE
	@$(call update,'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' 'Name: locus' \
		'Description: GPT inference whose position encoding is a plug-in' 'Version: $(VERSION)' \
		'Requires.private: $(PACKAGES)' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -llocus' \
		'Libs.private: $(OPENMP_FLAG) -lm')

.SECONDARY: $(TEST_OBJECTS)
-include $(LIB_OBJECTS:.o=.d) $(CLI_OBJECTS:.o=.d) $(MAIN_OBJECT:.o=.d) $(TEST_OBJECTS:.o=.d)
