ab
