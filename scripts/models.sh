#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes docs/models.md, the table of the built-in models.
#
#     sh scripts/models.sh [RESULTS]
#
# RESULTS is a file of what `mlagen run-check --json` has printed, for one or
# more models, one behind the other; it adds the column of errors.  MODELS_MD
# names another file to write, MLAGEN another generator than build/mlagen.
set -e
case ${1:-/} in
/*) results=$1 ;;
*) results=$PWD/$1 ;;
esac
cd "$(dirname "$0")/.."
out=${MODELS_MD:-docs/models.md}
mlagen=${MLAGEN:-build/mlagen}
{
    cat <<'TEXT'
# Models

Written by `scripts/models.sh` from `specs/`; edit neither the table nor the
list. What a row does not cover (a DSA index, sinks, gates, windows, other
kinds of layers) is named at the head of the model's spec.

* local heads: one set of kernels each, by the tensor-parallel sizes in use
* q rank: width of the compressed query; -: the query is not compressed
* rotation: pairing of the rotary part, theta, context extension
* factors: what multiplies q and the latent beyond the softmax scale
* cache B: bytes per token and layer, at the working type
* kernels: for all local heads together, on one architecture
* worst error, where a run is at hand: the largest error of any case as a
  share of what the case tolerates, which is one rounding and a little more

TEXT
    "$mlagen" list --models ${results:+--results "$results"}
} >"$out.new"
mv "$out.new" "$out"
