#!/usr/bin/env bash
# Runs what was built of one source file: a test of the core, or a fuzz target with its corpus. It prints TAP.
set -euo pipefail
name=$(basename "$1" .c)
case $name in
	*_test)
		exec "$IDGEN_SCRATCH/unit/$name" ;;
	*_fuzz)
		name=${name%_fuzz}
		exec "$IDGEN_SCRATCH/fuzz/${name}_replay" "fuzz corpus of $name" test/fuzz/corpus/"$name"/* ;;
esac
