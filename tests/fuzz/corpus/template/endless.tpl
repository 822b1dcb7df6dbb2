@ while true do
${x}
@ end
