"""The operations of `MLClient`: a class for each kind of object, over the calls of `drumbeat.Client`."""
