#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `mlagen plan` prints the model's analysis.  The figures for DeepSeek-V3 are
# those of the DeepSeek-V2 paper's arithmetic (arXiv 2405.04434, section 2.1),
# worked by hand: 128 heads of 128 + 64 and 128, latent 512 + 64, 61 layers.
. "$(dirname "$0")/lib.sh"

run mlagen plan deepseek-v3 --arch sm_80
expect_exit 0 "plan of a built-in spec"
expect_stdout '^ +MHA +40,960 elements' "MHA: 128 * (192 + 128)"
expect_stdout '^ +MHA .*4\.8 MiB over 61 layers' "MHA: 4.8 MiB per token"
expect_stdout '^ +MLA +576 elements' "MLA: 512 + 64"
expect_stdout '^ +MQA +320 elements' "MQA: 192 + 128"
expect_stdout '^ +Normal.*S x 16,777,216 .*T x S x 40,960' \
    "Normal: 512 * 128 * 256 per key; 128 * 320 per pair"
expect_stdout '^ +Absorb.*T x 16,777,216 .*T x S x 139,264' \
    "Absorb: the same per query; 128 * 1088 per pair"
expect_stdout '^ +q_a and kv_a +T x 15,138,816' "7168 * (1536 + 576)"
expect_stdout '^ +q_b +T x 37,748,736' "1536 * 128 * 192"
expect_stdout '^ +o_proj +T x 117,440,512' "128 * 128 * 7168"
expect_stdout 'crossover.*T = 171' "16.8 M / (139,264 - 40,960) = 170.7"

run mlagen plan x-ecomla-smollm-135m --arch sm_80
expect_stdout 'crossover: none' \
    "a latent narrower than a head: Absorb is never dearer"

run mlagen plan longcat-flash --arch sm_80 --json
expect_stdout '"kv_lora_scale": 3\.46410161513775' "LongCat: sqrt(6144 / 512)"
run mlagen plan longcat-flash --arch sm_80
expect_stdout '^factors: compressed q 2 .*latent 3\.464102 ' \
    "LongCat: sqrt(6144 / 1536), and who applies what"
run mlagen plan mistral-large-3 --arch sm_80
expect_stdout '^factor of q: 1 \+ 0\.1 ln\(1 \+ floor\(position / 8192\)\)' \
    "Mistral-Large-3: the factor of a position"

run mlagen plan deepseek-v3 --arch sm_80 --json
expect_stdout '"crossover_tokens": 170\.66' "--json carries the figure"
finish
