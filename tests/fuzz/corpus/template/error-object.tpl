@ error({})
