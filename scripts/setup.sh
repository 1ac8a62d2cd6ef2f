#!/usr/bin/env bash
# Installs what locus is built with, by apt where there is apt; elsewhere names the packages.
# Says what it does, and does nothing, quickly, when all is there.
set -eu

usage() {
    cat <<'END'
usage: scripts/setup.sh [build | python | python-train | lint]...

  build         compiler, make, pkg-config, PCRE2, utf8proc, zlib, Check, stb headers (the default)
  python        .venv with scripts/requirements.txt (converters and golden data)
  python-train  the same with scripts/requirements-train.txt (PyTorch, transformers)
  lint          clang-format, clang-tidy, cppcheck, shellcheck; ruff in .venv

On Debian and Ubuntu packages are installed with apt-get, through sudo when not root. On other
systems their names are printed.
END
}

cd "$(dirname "$0")/.."
venv=.venv
ruff_version=0.17.6
missing=() # Debian's package names

say() { printf 'setup: %s\n' "$*" >&2; }

has() { command -v "$1" >/dev/null 2>&1; }

# The C library and the stb headers, asked of the compiler itself.
has_header() { printf '#include <%s>\n' "$1" | ${CC:-gcc} -E -x c - >/dev/null 2>&1; }

find_missing_build() {
    if ! has "${CC:-gcc}"; then
        # What CC names, when it isn't the usual compiler, may have no package of that name.
        case ${CC:-gcc} in
        clang) missing+=(clang libc6-dev libomp-dev) ;;
        *) missing+=(gcc libc6-dev) ;;
        esac
    elif ! has_header stdio.h; then
        missing+=(libc6-dev)
    fi
    has make || missing+=(make)
    has pkg-config || missing+=(pkg-config)
    pkg-config --exists check 2>/dev/null || missing+=(check)
    pkg-config --exists libpcre2-8 2>/dev/null || missing+=(libpcre2-dev)
    pkg-config --exists libutf8proc 2>/dev/null || missing+=(libutf8proc-dev)
    pkg-config --exists zlib 2>/dev/null || missing+=(zlib1g-dev)
    if has "${CC:-gcc}"; then
        has_header stb/stb_image.h || has_header stb_image.h || missing+=(libstb-dev)
    else
        missing+=(libstb-dev)
    fi
}

find_missing_lint() {
    local tool
    for tool in clang-format clang-tidy cppcheck shellcheck; do
        has "$tool" || missing+=("$tool")
    done
}

# ensurepip is what Debian leaves out of python3.
find_missing_python() {
    if ! has python3; then
        missing+=(python3 python3-venv)
    elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        missing+=(python3-venv)
    fi
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        say "not root, and there is no sudo; as root, run: $*"
        exit 1
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

name_packages() {
    say "missing (Debian's names): ${missing[*]}"
    say "there is no apt-get here. To build and test:"
    cat >&2 <<'END'
  Fedora    dnf install gcc make pkgconf-pkg-config pcre2-devel utf8proc-devel zlib-devel check-devel stb_image-devel
  Arch      pacman -S gcc make pkgconf pcre2 libutf8proc zlib check stb
  Alpine    apk add bash gcc musl-dev linux-headers make pkgconf pcre2-dev utf8proc-dev zlib-dev check-dev stb
  openSUSE  zypper install gcc make pkgconf-pkg-config pcre2-devel utf8proc-devel zlib-devel check-devel stb-devel
  macOS     brew install gcc make pkgconf pcre2 utf8proc check   (zlib: the system's; stb: its headers in /usr/local/include/stb)
For the Python tools: python3 with venv and pip. To lint: clang (format, tidy), cppcheck, shellcheck.
END
    exit 1
}

install_missing() {
    [ ${#missing[@]} -gt 0 ] || return 0
    has apt-get || name_packages
    say "installing with apt-get: ${missing[*]}"
    # Fresh images have no package lists, and old lists name packages that are gone.
    if compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
        apt install -y --no-install-recommends "${missing[@]}" && return
    fi
    say "updating apt's package lists"
    apt update
    apt install -y --no-install-recommends "${missing[@]}"
}

# install_python FILE: the pinned packages of FILE in .venv, unless they are there already.
install_python() {
    local stamp=$venv/installed-${1##*/}
    cmp -s "$1" "$stamp" && [ -x $venv/bin/python ] && return
    say "installing $1 into $venv"
    [ -x $venv/bin/pip ] || python3 -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$1" >&2
    cp "$1" "$stamp"
}

install_ruff() {
    [ "$($venv/bin/ruff --version 2>/dev/null)" = "ruff $ruff_version" ] && return
    say "installing ruff into $venv"
    [ -x $venv/bin/pip ] || python3 -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check "ruff==$ruff_version" >&2
}

[ $# -gt 0 ] || set -- build
for part in "$@"; do
    case $part in
    build) find_missing_build ;;
    python | python-train) find_missing_python ;;
    lint) find_missing_lint && find_missing_python ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
    esac
done
install_missing
for part in "$@"; do
    case $part in
    python) install_python scripts/requirements.txt ;;
    python-train) install_python scripts/requirements-train.txt ;;
    lint) install_ruff ;;
    esac
done
