@ end
x
