"""`make faults`: one-machine faults given to drumbeat and to torchrun, and labelled incidents for blame."""
