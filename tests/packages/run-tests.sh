#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What .ci/run and tools/run-tests print at the end, in a small tree whose tests fail in each way
# that ours can. The last lines alone say which tests failed, why, and what these tests printed.
#
#	tests/packages/run-tests.sh
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/support/report.sh"
command -v meson >/dev/null || { echo "skipped: there is no meson"; exit 77; }
unset MAKEFLAGS MAKELEVEL MFLAGS # of `make check`, which runs this

tree=$work/tree
mkdir -p "$tree/.ci" "$tree/tools"
cp "$root/.ci/run" "$tree/.ci/"
cp "$root/tools/run-tests" "$root/tools/configure" "$root/tools/install-dependencies" "$tree/tools/"
cat >"$tree/Makefile" <<'EOF'
test:
	@tools/run-tests
check:
	@tools/run-tests $(ARGS)
EOF
echo "option('tests', type: 'feature')" >"$tree/meson_options.txt"
cat >"$tree/meson.build" <<'EOF'
project('small', 'c')
sh = find_program('sh')
suites = {
  'works': ['quick', 'echo "skipped: a part"'],
  'lacks': ['quick', 'echo "there is no pear"; exit 77'],
  'script': ['quick', 'echo "FAILED: the first cause"; seq -f "    line %g" 40; echo "FAILED: a later one"; exit 1'],
  'library': ['quick', 'printf "[  ERROR   ] --- 1 != 2\n[   LINE   ] --- pear.c:9: error: Failure!\n" >&2; exit 1'],
  'race': ['threads', 'echo "FAILED: it ended"; echo "SUMMARY: ThreadSanitizer: data race pear.c:8 in eat" >&2; exit 1'],
  'silent': [['slow', 'alone'], 'echo "last words"; exit 3'],
  'killed': ['slow', 'kill -9 $$'],
  'fresh': [['release', 'nightly'], 'echo "FAILED: it snows"; exit 1'],
  'trains': [['release', 'torch'], 'test -e ../build-python/ready || { echo "there is no PyTorch"; exit 77; }'],
}
foreach name, about : suites
  test(name, sh, args: ['-c', about[1]], suite: about[0])
endforeach
EOF
cat >"$tree/tools/test-python" <<'EOF'
#!/bin/sh
mkdir -p build-python
[ "$1" != --prepare ] || exec touch build-python/ready
case $* in
*" tests/python/test_engines.py "*)
	echo '<testsuites><testsuite><testcase classname="engines" name="test_runs"/></testsuite></testsuites>' \
		>build-python/results.xml
	exit ;;
esac
cat >build-python/results.xml <<'END'
<testsuites><testsuite>
<testcase classname="pears" name="test_ripe"/>
<testcase classname="pears" name="test_sour"><failure message="assert 3 == 4&#10; where 3 = n">the traceback</failure></testcase>
</testsuite></testsuites>
END
exit 1
EOF
chmod +x "$tree/tools/test-python"

"$tree/.ci/run" >"$work/log" 2>&1
say $((!$?)) "a run with failures fails" "$work/log"
sed -n '/^After /,$p' "$work/log" >"$work/end"

# Whether the end of the log has this line.
ends_with() {
	grep -qxF -- "$1" "$work/end"
	say $? "at the end: $1" "$work/end"
}

for build in release ASan+UBSan; do
	ends_with "FAILED   $build: script (fail): the first cause"
	ends_with "FAILED   $build: library (fail): pear.c:9: 1 != 2"
	ends_with "FAILED   $build: silent (fail): last words"
	ends_with "FAILED   $build: killed (fail): no reason given"
	ends_with "in part  $build: works: a part"
	ends_with "skipped  $build: lacks: there is no pear"
done
ends_with "FAILED   TSan: race (fail): ThreadSanitizer: data race pear.c:8 in eat"
ends_with "FAILED   Python: pears.test_sour (fail): assert 3 == 4"
ends_with "output   release: script: FAILED: the first cause"
ends_with "output   release: script:     line 29"
ends_with "output   release: library: [  ERROR   ] --- 1 != 2"
[ "$(grep -c 'output   release: script' "$work/end")" = 30 ]
say $? "of a long output, 30 lines" "$work/end"
[ "$(tail -n 13 "$work/end" | grep -c '^FAILED  ')" = 12 ]
say $? "what failed comes last" "$work/end"
tail -n 1 "$work/end" | grep -qx '4 passed, 12 failed, 2 skipped'
say $? "then the count" "$work/end"

(cd "$tree" && tools/run-tests --nightly) >"$work/end" 2>&1
ends_with "FAILED   release: fresh (fail): it snows"
ends_with "1 passed, 1 failed, 0 skipped"

# Neither Meson's errors nor the compiler's have a test's form.
echo 'int main(void) { return pear; }' >"$tree/broken.c"
echo "executable('broken', 'broken.c')" >>"$tree/meson.build"
"$tree/tools/run-tests" >"$work/end" 2>&1
grep -q '^FAILED   release: the build (fail): .*broken.c:1:25: error: .pear. undeclared' "$work/end"
say $? "a program that cannot be compiled has its reason" "$work/end"
echo 'broken(' >>"$tree/meson.build"
"$tree/tools/run-tests" >"$work/end" 2>&1
grep -q '^FAILED   release: the build (fail): .*meson.build:.*: ERROR: ' "$work/end"
say $? "a build that cannot be configured has its reason" "$work/end"
rm "$tree/Makefile"
"$tree/.ci/run" >"$work/end" 2>&1
grep -q "^output   make test: make: .*No rule to make target 'test'" "$work/end"
say $? "whatever else fails shows its last lines" "$work/end"
exit $((failures > 0))
