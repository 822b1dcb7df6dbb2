@ local _ENV = {}
${x}
