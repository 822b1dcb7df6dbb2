@ assert(x == 3)
@ for i = 0, x - 1 do
    float acc${i} = ${f32(r)};
@ end
    ${s}
  ${""}
@@ text $${x} ${t[1] + t[2]}
@ for _, k in ipairs(keys({b = 1, a = 2})) do
${k}
@ end
