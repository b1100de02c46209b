"""Workers of this process on a real store, with the clock moved by hand."""
