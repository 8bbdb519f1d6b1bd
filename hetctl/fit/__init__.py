"""From a model file's header to layers per device and the memory they take."""
