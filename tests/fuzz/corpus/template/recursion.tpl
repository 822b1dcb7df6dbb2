${include("t.tpl", {x = 1})}
