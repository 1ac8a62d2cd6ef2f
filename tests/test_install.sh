#!/usr/bin/env bash
# make install: what lands where, a program built against it by pkg-config, and nothing left after
# make uninstall.
# shellcheck disable=SC2016 # eval expands them
set -u
# shellcheck source-path=SCRIPTDIR source=cli_testing.sh
. "$(dirname "$0")/cli_testing.sh"

build=$(realpath --relative-to="$root" "${LOCUS_BUILD:-$root/build}")
read -ra cc <<<"${CC:-gcc}"
read -ra sanitize <<<"${SANITIZE_FLAGS:-}"
read -ra pkg_config <<<"${PKG_CONFIG:-pkg-config}"
dest=$folder/dest usr=$folder/dest/usr

# package ARGUMENT...: pkg-config on what was installed, in place.
package() {
    PKG_CONFIG_PATH=$usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest \
        PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 "${pkg_config[@]}" "$@" locus
}

check "make install" make -C "$root" "BUILD=$build" "DESTDIR=$dest" PREFIX=/usr install
for file in bin/locus lib/liblocus.a lib/liblocus.so include/locus.h include/locus_position.h \
    lib/pkgconfig/locus.pc; do
    check "installs $file" test -f "$usr/$file"
done
check "the library's name is versioned" eval 'readelf -d "$usr/lib/liblocus.so" | grep -q "SONAME.*liblocus\.so\.[0-9]"'
version=$("$usr/bin/locus" --version)
check "pkg-config knows the version" is "locus $(package --modversion)" "$version"
check "no path of the build is in locus.pc" eval '! grep -q "$folder" "$usr/lib/pkgconfig/locus.pc"'

# The program of locus.h's top comment.
sed -n '/^ \*     #include <locus.h>/,/^ \*     }$/ s/^ \* \{0,5\}//p' "$usr/include/locus.h" \
    >"$folder/story.c"
read -ra shared_flags < <(package --cflags --libs)
check "its program builds against the shared library" "${cc[@]}" -std=c11 "${sanitize[@]}" \
    "$folder/story.c" "${shared_flags[@]}" "-Wl,-rpath,$usr/lib" -o "$folder/shared"
read -ra static_flags < <(package --static --cflags --libs)
check "and against the static one" "${cc[@]}" -std=c11 "${sanitize[@]}" "$folder/story.c" \
    "${static_flags[@]/#-llocus/-l:liblocus.a}" -o "$folder/static"
check "which it then doesn't need" eval '! readelf -d "$folder/static" | grep -q liblocus'

if [ -f "$root/models/tales.gguf" ]; then
    # From a folder where models/tales.gguf is not.
    check "the installed program finds its model" eval \
        '(cd "$folder" && "$usr/bin/locus" generate -q -p "Once upon a time" -n 20 --seed 1) >"$out"'
    check "and writes" grep -q '^Once upon a time.' "$out"
    for program in shared static; do
        check "the $program program writes a story" eval \
            '(cd "$usr/share/locus" && "$folder/$program") >"$out" && [ "$(wc -c <"$out")" -gt 100 ]'
        cp "$out" "$folder/$program.txt"
    done
    check "the same one" same "$folder/shared.txt" "$folder/static.txt"
fi

check "make uninstall" make -C "$root" "BUILD=$build" "DESTDIR=$dest" PREFIX=/usr uninstall
check "leaves no file" is "$(find "$dest" ! -type d | wc -l)" 0

check "make help lists the targets" eval 'make -s -C "$root" help >"$out"'
for target in all demo test bench install format lint asan clean help; do
    check "make help: $target" prints "^  $target +[a-z]"
done

report
