#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# io.sh: folders that cannot be written and disks that are full.  Each is exit
# code 5 with a first line that names the path and says why; whatever was there
# before is still there and still right.
. "$(dirname "$0")/lib.sh"
small_spec >tiny.yaml

# fails PATH REASON NAME: the latest run failed with an I/O error at PATH.
fails() {
    expect_exit 5 "$3: 5"
    expect_stderr_line1 "^$1: error: .*$2" "$3: path and reason"
}

echo text >file
run mlagen gen tiny.yaml -o file
fails file "Not a directory" "an output folder that is a file"
ok "its text is kept" grep -q text file
run mlagen gen tiny.yaml -o file/below
fails file/below "Not a directory" "a folder below a file"
run mlagen gen tiny.yaml -o /proc/none
fails /proc/none "" "a folder that cannot be made"
run mlagen check file/spec.yaml
fails file/spec.yaml "Not a directory" "a spec below a file"
run mlagen check .
fails . "Is a directory" "a folder for a spec"
run mlagen gen tiny.yaml -I absent
fails absent "No such file" "templates that are not there"
long=$(printf '%0255d' 0)
run mlagen gen tiny.yaml -o "$long$long"
fails "$long$long" "File name too long" "a name that is too long"
ok "none of these left anything behind" [ "$(ls)" = "file
tiny.yaml" ]

# Permissions do not bind root, so become somebody else.
cp "$BUILD/mlagen" mlagen-copy
chmod 755 . mlagen-copy
chmod 644 tiny.yaml
as_user() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}
mkdir locked
chmod 555 locked
run as_user ./mlagen-copy gen tiny.yaml -o locked
fails 'locked/.mlagen-journal' "Permission denied" "a read-only folder"
run as_user ./mlagen-copy gen tiny.yaml -o locked/below
fails locked/below "Permission denied" "a folder below it"
ok "nothing was written" [ -z "$(ls locked)" ]
run as_user ./mlagen-copy gen tiny.yaml -o locked --check
expect_exit 1 "--check works on a read-only folder"
mkdir open
chmod 777 open
run as_user ./mlagen-copy gen tiny.yaml -o open/one
expect_exit 0 "the same user can write elsewhere"
as_user chmod 555 open/one/src
run as_user ./mlagen-copy gen tiny.yaml -D kv_cache.page_size=32 -o open/one
fails 'open/one/src/.*\.cu' "Permission denied" "a read-only subfolder"
run as_user ./mlagen-copy verify open/one
expect_exit 0 "and the generation before is whole"
as_user chmod 755 open/one/src
run as_user ./mlagen-copy gen tiny.yaml -D kv_cache.page_size=32 -o open/one
expect_exit 0 "once it can be written, the next run completes"
run as_user ./mlagen-copy verify open/one
expect_exit 0 "and the folder is right"
chmod 000 tiny.yaml
run as_user ./mlagen-copy check tiny.yaml
fails tiny.yaml "Permission denied" "a spec that cannot be read"
chmod 644 tiny.yaml

# A full disk, as a limit on the size of a file: the kernel says EFBIG where a
# disk says ENOSPC; both are a failing write.
mlagen gen tiny.yaml -o full >/dev/null
digest full >before
# shellcheck disable=SC2016
run sh -c 'trap "" XFSZ; ulimit -f 4; "$1" gen tiny.yaml -o full \
    -D kv_cache.page_size=32' sh "$BUILD/mlagen"
expect_exit 5 "writes that fail: 5"
expect_stderr_line1 "^full/.*: error: .*File too large" "path and reason"
ok "no temporary is left" [ -z "$(find full -name '*.mlagen-tmp')" ]
digest full >after
ok "the generation before is whole" cmp before after
run mlagen gen tiny.yaml -D kv_cache.page_size=32 -o full
expect_exit 0 "with room again, the next run completes"
mlagen gen tiny.yaml -D kv_cache.page_size=32 -o clean >/dev/null
ok "to the same bytes as a clean one" diff -r full clean

finish
