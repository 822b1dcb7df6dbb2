@ -- SPDX-License-Identifier: Apache-2.0
@ -- The handshake of programmatic dependent launch (PTX ISA 9.7.14, griddepcontrol).  Input: pdl.
@ -- wait returns when the grids before this one are complete and their writes visible: it stands
@ -- before the first global access.  launch_dependents lets the next grid's blocks be scheduled
@ -- as ours drain; what they read of ours they wait for in the same way.  Without the launch
@ -- attribute both do nothing.
@ if pdl then
asm volatile("griddepcontrol.wait;" ::: "memory");
asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
@ end
