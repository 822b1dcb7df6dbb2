@ __emit(1)
@ __emit(99)
