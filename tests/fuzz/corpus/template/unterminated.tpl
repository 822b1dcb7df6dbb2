a ${x
